"""The unmodified openai client against the echo model: chat, completions, models, errors, streams."""

import asyncio
import json

import httpx
import openai
import pytest


@pytest.fixture(scope="module")
def client(echo):
    return openai.OpenAI(base_url=echo.v1, api_key="none", max_retries=0)


ASK = [{"role": "user", "content": "Say hello."}]


def test_models_are_listed_with_their_context(client) -> None:
    models = client.models.list().data
    assert len(models) == 1 and models[0].model_dump()["max_model_len"] > 0
    assert client.models.retrieve(models[0].id).id == models[0].id


def test_a_chat_answer_has_text_usage_and_a_reason(client) -> None:
    r = client.chat.completions.create(model="echo", messages=ASK, max_tokens=12, temperature=0)
    assert r.choices[0].message.role == "assistant" and r.choices[0].finish_reason in ("stop", "length")
    assert r.usage.prompt_tokens > 0 and 0 < r.usage.completion_tokens <= 12
    assert r.usage.total_tokens == r.usage.prompt_tokens + r.usage.completion_tokens


def test_a_streamed_answer_is_the_whole_answer(client) -> None:
    whole = client.chat.completions.create(model="echo", messages=ASK, max_tokens=40, temperature=1, seed=7)
    chunks = list(client.chat.completions.create(
        model="echo", messages=ASK, max_tokens=40, temperature=1, seed=7, stream=True, stream_options={"include_usage": True}
    ))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == whole.choices[0].message.content
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason] == [whole.choices[0].finish_reason]
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == whole.usage.completion_tokens


def test_the_async_client_streams_too(echo) -> None:
    async def go() -> str:
        async with openai.AsyncOpenAI(base_url=echo.v1, api_key="none") as c:
            stream = await c.chat.completions.create(model="echo", messages=ASK, max_tokens=9, temperature=0, stream=True)
            return "".join([x.choices[0].delta.content or "" async for x in stream])

    whole = openai.OpenAI(base_url=echo.v1, api_key="none").chat.completions.create(model="echo", messages=ASK, max_tokens=9, temperature=0)
    assert asyncio.run(go()) == whole.choices[0].message.content


def test_choices_of_n_are_separate_requests_with_their_seeds(client) -> None:
    r = client.chat.completions.create(model="echo", messages=ASK, max_tokens=16, temperature=1, seed=5, n=4)
    assert [c.index for c in r.choices] == [0, 1, 2, 3]
    for c in r.choices:
        alone = client.chat.completions.create(model="echo", messages=ASK, max_tokens=16, temperature=1, seed=c.x_seed)
        assert alone.choices[0].message.content == c.message.content


def test_chat_logprobs_have_tokens_bytes_and_the_most_likely(client) -> None:
    r = client.chat.completions.create(model="echo", messages=ASK, max_tokens=5, temperature=0, logprobs=True, top_logprobs=3)
    content = r.choices[0].logprobs.content
    assert len(content) == r.usage.completion_tokens
    assert all(len(t.top_logprobs) == 3 and t.logprob <= 0 and t.bytes is not None for t in content)
    assert all(t.top_logprobs[0].logprob == max(x.logprob for x in t.top_logprobs) for t in content)


@pytest.mark.parametrize("prompt", ["one text", ["two", "texts"], [5, 6, 7], [[5, 6], [7, 8, 9]]])
def test_completions_take_texts_and_ids(client, prompt) -> None:
    r = client.completions.create(model="echo", prompt=prompt, max_tokens=3, temperature=0, n=2)
    prompts = 2 if isinstance(prompt, list) and not isinstance(prompt[0], int) else 1
    assert sorted(c.index for c in r.choices) == list(range(prompts * 2))


def test_echo_with_logprobs_scores_the_prompt_and_the_first_token_has_none(client) -> None:
    r = client.completions.create(model="echo", prompt="abcdef", max_tokens=2, temperature=0, echo=True, logprobs=1)
    lp = r.choices[0].logprobs
    assert r.choices[0].text.startswith("abcdef")
    assert lp.token_logprobs[0] is None and all(x <= 0 for x in lp.token_logprobs[1:])
    assert len(lp.tokens) == len(lp.token_logprobs) == len(lp.top_logprobs) == len(lp.text_offset) == r.usage.total_tokens


@pytest.mark.parametrize("streamed", [False, True])
def test_the_token_that_ends_an_answer_has_a_logprob_and_no_text(client, streamed) -> None:
    args = {"model": "echo", "prompt": "abc", "max_tokens": 1, "echo": True, "logprobs": 1, "temperature": 0, "logit_bias": {"258": 100, "65": -100}}
    args["extra_body"] = {"allowed_token_ids": [65, 258]}
    if streamed:
        parts = [c.choices[0] for c in client.completions.create(**args, stream=True)]
        text, told = "".join(p.text for p in parts), [x for p in parts if p.logprobs for x in p.logprobs.token_logprobs]
    else:
        choice = client.completions.create(**args).choices[0]
        text, told = choice.text, choice.logprobs.token_logprobs
    assert text == "abc" and len(told) == 4 and told[0] is None and all(x <= 0 for x in told[1:])


def test_a_prompt_can_be_scored_without_generating(client) -> None:
    r = client.completions.create(model="echo", prompt="abcdef", max_tokens=0, echo=True, logprobs=1)
    assert r.choices[0].text == "abcdef" and r.usage.completion_tokens == 0 and r.choices[0].finish_reason == "length"


def test_a_stop_string_ends_the_text_before_it(client) -> None:
    whole = client.completions.create(model="echo", prompt="stop here", max_tokens=40, temperature=0).choices[0].text
    cut = whole[5:8]
    r = client.completions.create(model="echo", prompt="stop here", max_tokens=40, temperature=0, stop=cut)
    assert r.choices[0].text == whole[: whole.find(cut)] and r.choices[0].finish_reason == "stop" and r.choices[0].stop_reason == cut


def test_completions_default_to_sixteen_tokens(client) -> None:
    assert client.completions.create(model="echo", prompt="x", temperature=0, extra_body={"ignore_eos": True}).usage.completion_tokens == 16


@pytest.mark.parametrize(("body", "status", "param"), [
    ({"messages": []}, 400, "messages"),
    ({"messages": ASK, "temperature": -1}, 400, "temperature"),
    ({"messages": ASK, "temperature": "warm"}, 400, "temperature"),
    ({"messages": ASK, "top_p": 0}, 400, "top_p"),
    ({"messages": ASK, "n": 0}, 400, "n"),
    ({"messages": ASK, "max_tokens": 0}, 400, "max_tokens"),
    ({"messages": ASK, "logit_bias": {"x": 1}}, 400, "logit_bias"),
    ({"messages": ASK, "logit_bias": {"99999999": 1}}, 400, "logit_bias"),
    ({"messages": ASK, "top_logprobs": 3}, 400, "top_logprobs"),
    ({"messages": ASK, "use_beam_search": True}, 400, "use_beam_search"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, 400, "messages[0].content[0].type"),
    ({"messages": [{"role": "wizard", "content": "x"}]}, 400, "messages.0.role"),
    ({"messages": ASK, "model": "other"}, 404, "model"),
    ({"messages": ASK, "max_tokens": 10**7}, 400, "max_tokens"),
])
def test_a_wrong_field_is_named_in_openais_error_object(echo, body, status, param) -> None:
    r = httpx.post(f"{echo.v1}/chat/completions", json=body)
    assert r.status_code == status
    error = r.json()["error"]
    assert error["param"] == param and "\n" not in error["message"] and error["type"] == "invalid_request_error"


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff\xfe", b"[1]", b'"x"', b"[" * 100_000])
def test_a_body_that_is_no_request_is_a_400(echo, raw) -> None:
    r = httpx.post(f"{echo.v1}/chat/completions", content=raw, headers={"content-type": "application/json"})
    assert r.status_code == 400 and r.json()["error"]["message"]


def test_a_prompt_beyond_the_context_is_refused_with_both_numbers(echo) -> None:
    context = echo.front.model_info.context
    r = httpx.post(f"{echo.v1}/completions", json={"model": "echo", "prompt": [5] * (context + 3), "max_tokens": 1}, timeout=60)
    assert r.status_code == 400 and r.json()["error"]["code"] == "context_length_exceeded"
    assert f"{context + 3:,}" in r.json()["error"]["message"] and f"{context:,}" in r.json()["error"]["message"]


def test_unknown_fields_are_listed_in_a_header(echo) -> None:
    r = httpx.post(f"{echo.v1}/chat/completions", json={"messages": ASK, "max_tokens": 1, "flavour": "mint", "zest": 2})
    assert r.status_code == 200 and r.headers["x-headwater-ignored-fields"] == "flavour,zest"


def test_an_unknown_endpoint_is_a_404_with_an_error_object(echo) -> None:
    assert "no such endpoint" in httpx.get(f"{echo.url}/v1/nothing").json()["error"]["message"]


def test_health_version_and_load_answer(echo) -> None:
    assert httpx.get(f"{echo.url}/health").status_code == 200
    assert httpx.get(f"{echo.url}/ready").status_code == 200
    assert httpx.get(f"{echo.url}/version").json()["version"]
    assert httpx.get(f"{echo.url}/load").json()["running"] == 0


def test_tokenize_and_detokenize_are_inverse(echo) -> None:
    ids = httpx.post(f"{echo.url}/tokenize", json={"prompt": "héllo 世界", "add_special_tokens": False}).json()["tokens"]
    assert httpx.post(f"{echo.url}/detokenize", json={"tokens": ids}).json()["prompt"] == "héllo 世界"


def test_a_stream_of_events_ends_with_done(echo) -> None:
    with httpx.stream("POST", f"{echo.v1}/chat/completions", json={"messages": ASK, "max_tokens": 3, "stream": True}) as r:
        lines = [line for line in r.iter_lines() if line]
    assert lines[-1] == "data: [DONE]" and all(json.loads(x[6:])["object"] == "chat.completion.chunk" for x in lines[:-1])


def test_the_same_prompt_again_is_found_in_the_prefix_index(client) -> None:
    prompt = [11 + i % 50 for i in range(200)]
    client.completions.create(model="echo", prompt=prompt, max_tokens=1, temperature=0)
    r = client.completions.create(model="echo", prompt=prompt, max_tokens=1, temperature=0)
    assert r.usage.prompt_tokens_details.cached_tokens == 199


def test_embeddings_are_unit_vectors_in_both_encodings(client) -> None:
    plain = client.embeddings.create(model="echo", input=["one text", "another"], encoding_format="float").data
    packed = client.embeddings.create(model="echo", input=["one text", "another"]).data     # the client asks for base64 by itself
    for a, b in zip(plain, packed, strict=True):
        assert a.embedding == pytest.approx(b.embedding) and sum(x * x for x in a.embedding) == pytest.approx(1, abs=1e-5)
    assert plain[0].embedding != plain[1].embedding
