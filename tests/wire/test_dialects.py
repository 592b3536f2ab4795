"""The other shapes on the same chat: OpenAI responses, Anthropic messages, Ollama; and the gate in front of all."""

import json

import httpx
import openai
import pytest

from headwater.engine.build import EngineSpec
from headwater.serve.settings import ServeSettings
from tests.wire.conftest import start, stop

ASK = [{"role": "user", "content": "Say hello."}]


@pytest.fixture(scope="module")
def plain(echo) -> str:
    """What the chat endpoint says to ASK, greedy, 20 tokens."""
    body = {"messages": ASK, "max_tokens": 20, "temperature": 0}
    return httpx.post(f"{echo.v1}/chat/completions", json=body).json()["choices"][0]["message"]["content"]


def test_a_response_says_the_same_as_chat(echo, plain) -> None:
    client = openai.OpenAI(base_url=echo.v1, api_key="none", max_retries=0)
    r = client.responses.create(model="echo", input="Say hello.", max_output_tokens=20, temperature=0)
    assert r.output_text == plain and r.usage.input_tokens > 0 and r.status in ("completed", "incomplete")


def test_a_streamed_response_builds_the_same_text(echo, plain) -> None:
    client = openai.OpenAI(base_url=echo.v1, api_key="none", max_retries=0)
    text, final = "", None
    with client.responses.stream(model="echo", input="Say hello.", max_output_tokens=20, temperature=0) as events:
        for e in events:
            if e.type == "response.output_text.delta":
                text += e.delta
            if e.type in ("response.completed", "response.incomplete"):
                final = e.response
    assert text == plain and final.output_text == plain


def test_stored_responses_can_be_continued_and_deleted(echo) -> None:
    client = openai.OpenAI(base_url=echo.v1, api_key="none", max_retries=0)
    first = client.responses.create(model="echo", input="Say hello.", max_output_tokens=8, temperature=0, store=True)
    second = client.responses.create(model="echo", input="Again.", previous_response_id=first.id, max_output_tokens=4, temperature=0)
    assert second.usage.input_tokens > first.usage.input_tokens
    assert client.responses.retrieve(first.id).output_text == first.output_text
    client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)


def test_anthropic_messages_say_the_same_whole_and_streamed(echo, plain) -> None:
    anthropic = pytest.importorskip("anthropic", reason="needs the package anthropic")
    client = anthropic.Anthropic(base_url=echo.url, api_key="none", max_retries=0)
    whole = client.messages.create(model="echo", messages=ASK, max_tokens=20, extra_body={"temperature": 0})
    assert whole.content[0].text == plain and whole.stop_reason in ("end_turn", "max_tokens")
    with client.messages.stream(model="echo", messages=ASK, max_tokens=20, extra_body={"temperature": 0}) as s:
        assert s.get_final_message().content[0].text == plain
    count = client.messages.count_tokens(model="echo", messages=ASK).input_tokens
    assert count == whole.usage.input_tokens + whole.usage.cache_read_input_tokens


def test_anthropic_errors_have_anthropics_shape(echo) -> None:
    r = httpx.post(f"{echo.v1}/messages", json={"model": "echo", "messages": ASK})
    assert r.status_code == 400 and r.json()["type"] == "error" and "max_tokens" in r.json()["error"]["message"]


def test_ollama_chat_streams_lines_that_add_up(echo, plain) -> None:
    body = {"model": "echo:latest", "messages": ASK, "options": {"num_predict": 20, "temperature": 0, "num_ctx": 99}}
    with httpx.stream("POST", f"{echo.url}/api/chat", json=body) as r:
        assert r.headers["x-headwater-ignored-fields"] == "options.num_ctx"
        lines = [json.loads(x) for x in r.iter_lines() if x]
    assert "".join(x["message"]["content"] for x in lines) == plain and [x["done"] for x in lines].count(True) == 1
    whole = httpx.post(f"{echo.url}/api/chat", json={**body, "stream": False}).json()
    assert whole["message"]["content"] == plain and whole["eval_count"] > 0


def test_ollama_generate_tags_and_show_answer(echo, plain) -> None:
    body = {"model": "echo", "prompt": "Say hello.", "stream": False, "options": {"num_predict": 20, "temperature": 0}}
    assert httpx.post(f"{echo.url}/api/generate", json=body).json()["response"] == plain
    assert httpx.get(f"{echo.url}/api/tags").json()["models"][0]["name"] == "echo"
    assert httpx.post(f"{echo.url}/api/show", json={"model": "echo"}).json()["capabilities"]
    assert httpx.post(f"{echo.url}/api/show", json={"model": "other"}).status_code == 404


def test_metrics_count_what_was_served(echo) -> None:
    def value(name: str) -> float:
        lines = httpx.get(f"{echo.url}/metrics").text.splitlines()
        return sum(float(x.rsplit(" ", 1)[1]) for x in lines if x.startswith(name))

    before = value("headwater:generation_tokens_total"), value("headwater:request_success_total")
    httpx.post(f"{echo.v1}/completions", json={"prompt": "x", "max_tokens": 7, "temperature": 0, "ignore_eos": True})
    assert value("headwater:generation_tokens_total") - before[0] == 7
    assert value("headwater:request_success_total") - before[1] == 1
    assert value("headwater:num_requests_running") == 0
    assert value("headwater:time_to_first_token_seconds_count") >= 1


def test_a_key_is_needed_where_keys_are_set_and_only_the_right_one_opens() -> None:
    running = start(EngineSpec(model="echo"), ServeSettings(api_keys=("secret-1", "secret-2"), max_body=2000))
    try:
        body = {"messages": ASK, "max_tokens": 1}
        for headers, status in (
            ({}, 401), ({"authorization": "Bearer wrong"}, 401), ({"authorization": "Bearer secret-2"}, 200), ({"x-api-key": "secret-1"}, 200),
        ):
            assert httpx.post(f"{running.v1}/chat/completions", json=body, headers=headers).status_code == status
        assert httpx.get(f"{running.url}/health").status_code == 200
        big = httpx.post(f"{running.v1}/completions", json={"prompt": "x" * 3000}, headers={"x-api-key": "secret-1"})
        assert big.status_code == 413 and "2,000" in big.json()["error"]["message"]
        chunked = httpx.post(f"{running.v1}/completions", content=iter([b"x" * 1500] * 3), headers={"x-api-key": "secret-1"})
        assert chunked.status_code == 413
    finally:
        stop(running)


def test_a_request_id_is_kept_when_it_is_safe_and_replaced_when_not(echo) -> None:
    assert httpx.get(f"{echo.url}/version", headers={"x-request-id": "abc-1"}).headers["x-request-id"] == "abc-1"
    assert httpx.get(f"{echo.url}/version", headers={"x-request-id": "a b\tc"}).headers["x-request-id"].startswith("req-")
