"""Values that no request should have, one by one: each is refused by the name that the client gave it, in one line, and nothing is left behind."""

import json

import httpx
import pytest

from headwater.serve.responses import Store

CHAT, TEXT, RESPONSES, EMBED = "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings"
GOOD = {
    CHAT: {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}, TEXT: {"prompt": "x", "max_tokens": 2},
    RESPONSES: {"input": "x", "max_output_tokens": 2}, EMBED: {"input": "x"},
}
PNG = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
ITEM = {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]}
BIG = 10**9


def refused(echo, path: str, content: bytes) -> dict:
    r = httpx.post(echo.url + path, content=content, headers={"content-type": "application/json"}, timeout=60)
    assert r.status_code == 400, r.text[:500]
    error = r.json()["error"]
    assert error["message"].isprintable() and len(error["message"]) < 1100
    assert not echo.front._by_id
    return error


@pytest.mark.parametrize(("path", "fields", "param"), [
    (CHAT, {"n": BIG}, "n"), (CHAT, {"n": 0}, "n"), (CHAT, {"n": 2.5}, "n"), (TEXT, {"n": BIG}, "n"),
    (CHAT, {"max_tokens": -1}, "max_tokens"), (CHAT, {"max_tokens": BIG}, "max_tokens"), (TEXT, {"max_tokens": -1}, "max_tokens"),
    (RESPONSES, {"max_output_tokens": -1}, "max_output_tokens"), (CHAT, {"min_tokens": BIG}, "min_tokens"),
    (CHAT, {"temperature": 1e308}, "temperature"), (CHAT, {"top_p": 2}, "top_p"), (CHAT, {"min_p": -1}, "min_p"), (CHAT, {"top_k": -5}, "top_k"),
    (CHAT, {"seed": 2**64}, "seed"), (CHAT, {"priority": 10**30}, "priority"), (CHAT, {"repetition_penalty": 0}, "repetition_penalty"),
    (CHAT, {"logprobs": True, "top_logprobs": -1}, "top_logprobs"), (CHAT, {"logprobs": True, "top_logprobs": BIG}, "top_logprobs"),
    (TEXT, {"logprobs": BIG}, "logprobs"), (TEXT, {"logprobs": -1}, "logprobs"), (TEXT, {"prompt_logprobs": BIG}, "prompt_logprobs"),
    (CHAT, {"logit_bias": {"²": 1}}, "logit_bias"), (CHAT, {"logit_bias": {"9" * 20: 1}}, "logit_bias"), (CHAT, {"stop": [""]}, "stop"),
    (CHAT, {"stop": ["a"] * 1000}, "stop"), (CHAT, {"stop": ["a" * 10**6]}, "stop"), (CHAT, {"stop_token_ids": [10**30]}, "stop_token_ids"),
    (CHAT, {"allowed_token_ids": []}, "allowed_token_ids"), (CHAT, {"thinking_token_budget": -1}, "thinking_token_budget"),
    (CHAT, {"messages": []}, "messages"), (CHAT, {"messages": ["x"]}, "messages.0"), (CHAT, {"messages": [{"content": "x"}]}, "messages.0.role"),
    (CHAT, {"messages": [{"role": None, "content": "x"}]}, "messages.0.role"), (CHAT, {"messages": [{"role": "user", "content": 5}]},
                                                                                "messages.0.content"),
    (CHAT, {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, PNG]}]}, "messages[0].content[1].type"),
    (CHAT, {"tools": [{}]}, "tools.0.function"), (CHAT, {"tools": [{"function": {"name": ""}}]}, "tools.0.function.name"),
    (CHAT, {"tools": [{"type": "web_search"}]}, "tools.0.type"), (CHAT, {"response_format": {"type": "xml"}}, "response_format.type"),
    (CHAT, {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": []}}}, "response_format.json_schema.schema"),
    (TEXT, {"prompt": ""}, "prompt"), (TEXT, {"prompt": []}, "prompt"), (TEXT, {"prompt": [[]]}, "prompt"), (TEXT, {"prompt": None}, "prompt"),
    (TEXT, {"prompt": {"a": 1}}, "prompt"), (TEXT, {"prompt": [1.5]}, "prompt.0"), (TEXT, {"prompt": ["a", 1]}, "prompt.1"),
    (TEXT, {"prompt": [2**40]}, "prompt"), (TEXT, {"prompt": ["x"] * 100_000}, "prompt"), (TEXT, {"prompt": ["x"] * 100, "n": 100}, "prompt"),
    (EMBED, {"input": [""]}, "input"), (EMBED, {"input": [2**40]}, "input"), (EMBED, {"input": ["a", "x" * 10_000]}, "input[1]"),
    (EMBED, {"dimensions": BIG}, "dimensions"),
    (RESPONSES, {"input": []}, "input"), (RESPONSES, {"input": [5]}, "input.0"), (RESPONSES, {"input": [{"role": "wizard", "content": "x"}]},
                                                                                  "input[0].role"),
    (RESPONSES, {"input": [{"type": "reasoning"}, ITEM], "instructions": "i"}, "input[1].content[0].type"),
    (RESPONSES, {"previous_response_id": "resp-none"}, "previous_response_id"),
])
def test_a_value_that_cannot_be_is_refused_under_the_clients_own_name(echo, path, fields, param) -> None:
    body = json.dumps({**GOOD[path], **fields}).encode()
    if param == "previous_response_id":
        r = httpx.post(echo.url + path, content=body, headers={"content-type": "application/json"})
        assert (r.status_code, r.json()["error"]["param"]) == (404, param)
        return
    error = refused(echo, path, body)
    assert error["param"] == param and error["message"].startswith(param.partition("[")[0].partition(".")[0])


@pytest.mark.parametrize(("path", "field", "value"), [
    (CHAT, "chat_template", "{{ 1 }}"), (CHAT, "echo", True), (TEXT, "truncate_prompt_tokens", 5), (RESPONSES, "background", True),
    (CHAT, "web_search_options", {}), (CHAT, "guided_whitespace_pattern", " "),
])
def test_a_wish_that_would_change_the_answer_is_refused_and_its_neutral_value_is_not(echo, path, field, value) -> None:
    assert refused(echo, path, json.dumps({**GOOD[path], field: value}).encode())["param"] == field
    for neutral in [None, *([False] if value is True else [])]:
        assert httpx.post(echo.url + path, json={**GOOD[path], field: neutral}, timeout=60).status_code == 200


@pytest.mark.parametrize(("raw", "says"), [
    (b'{"prompt": "x", "seed": ' + b"9" * 1_000_000 + b"}", "more than 4,300 digits"),
    (b'{"prompt": "x", "temperature": NaN}', "NaN is not a JSON number"), (b'{"prompt": "x", "temperature": -Infinity}', "-Infinity is not"),
    (b'{"prompt": "x", "temperature": 1e999}', "temperature: "), (b'{"prompt": "\xff"}', "not UTF-8 at byte 12"),
    ('{"prompt": "x"}'.encode("utf-16"), "not UTF-8 at byte 0"), (b'\xef\xbb\xbf{"prompt": "x"}', "not valid JSON"),
    (b'{"a": ' * 100_000 + b"1" + b"}" * 100_000, "nested more than 200"), (b"[" * 100_000, "nested more than 200"),
    (b'{"prompt": "x", "prompt": "y"}', "'prompt' is there twice"), (b'{"prompt": "a\x00b"}', "not valid JSON"), (b'{"prompt": "x"}{}', "not valid"),
    (b"null", "must be a JSON object"), (b"  ", "is empty"), (b'{"prompt": "x", "seed": 01}', "not valid JSON"),
])
def test_what_is_no_json_is_refused_in_one_line_that_says_why(echo, raw, says) -> None:
    error = refused(echo, TEXT, raw)
    assert says in error["message"] and "sys." not in error["message"]


@pytest.mark.parametrize(("path", "body", "says"), [
    ("/v1/messages", {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "base64", "data": "AAAA"}}]}]},
     "messages[0].content[0].type"),
    ("/v1/messages", {"messages": [{"role": "system", "content": "x"}]}, "messages.0.role"),
    ("/v1/messages", {"max_tokens": -1, "messages": [{"role": "user", "content": "x"}]}, "max_tokens"),
    ("/api/chat", {"messages": [{"role": "wizard", "content": "x"}]}, "messages.0.role"),
    ("/api/chat", {"messages": [{"role": "user", "content": "x", "images": ["AAAA"]}]}, "messages[0].images"),
    ("/api/chat", {"messages": [{"role": "user", "content": "x"}], "options": {"num_predict": BIG}}, "options.num_predict"),
    ("/api/generate", {"prompt": "x", "images": ["AAAA"]}, "images"),
])
def test_other_dialects_name_their_own_fields(echo, path, body, says) -> None:
    r = httpx.post(echo.url + path, json={"model": "echo", "max_tokens": 2, "stream": False, **body}, timeout=60)
    error = r.json()["error"]
    assert r.status_code == 400 and (error if isinstance(error, str) else error["message"]).startswith(says + ":")


def test_large_prompts_are_read_beside_the_loop_and_answered_as_small_ones_are(echo) -> None:
    long = "0123456789" * 300                                       # above the size at which requests leave the loop, in two of three shapes
    ids = httpx.post(f"{echo.url}/tokenize", json={"prompt": long * 20}, timeout=60).json()["tokens"]
    assert ids == httpx.post(f"{echo.url}/tokenize", json={"prompt": long}, timeout=60).json()["tokens"] * 20
    assert httpx.post(f"{echo.url}/detokenize", json={"tokens": ids}, timeout=60).json()["prompt"] == long * 20
    pad = {"metadata_of_nobody": "x" * 20_000}
    for path, body in GOOD.items():
        body = {**body, "temperature": 0} if path != EMBED else body
        small, large = (httpx.post(echo.url + path, json={**body, **more}, timeout=60).json() for more in ({}, pad))
        for answer in (small, large):
            for name in ("id", "created", "created_at", "x_seed"):
                answer.pop(name, None)
            for choice in answer.get("choices", ()):
                choice.pop("x_seed", None)
            for item in answer.get("output", ()):
                item.pop("id", None)
        assert small.pop("usage")["total_tokens"] == large.pop("usage")["total_tokens"]
        assert small == large


def test_stored_responses_are_bounded_by_bytes_and_the_oldest_leave_first() -> None:
    store = Store()
    for i in range(100):
        store.put({"id": str(i)}, [{"role": "user", "content": "x" * 2**20}])
    assert store.bytes <= 64 * 2**20 and 60 <= len(store.items) < 64 and "99" in store.items and "0" not in store.items
    store.put({"id": "huge"}, [{"role": "user", "content": "x" * 2**27}])
    assert not store.items and store.bytes == 0
    store.put({"id": "a"}, [])
    store.drop("a")
    assert not store.items and store.bytes == 0
