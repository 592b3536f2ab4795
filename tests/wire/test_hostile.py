"""What clients should not send: each is refused by name, in the dialect's shape, and the engine and everybody else's requests live on."""

import json

import httpx
import pytest

ASK = [{"role": "user", "content": "Say hello."}]
LONE = "\ud800"
QUESTION = {"type": "noul", "instructions": "x"}


def post(url: str, body: dict) -> httpx.Response:
    return httpx.post(url, content=json.dumps(body), headers={"content-type": "application/json"}, timeout=60)


@pytest.mark.parametrize("priority", [2**31, -(2**31) - 1, 10**30])
def test_a_priority_beyond_the_schedulers_integers_is_refused_and_the_engine_lives(echo, priority) -> None:
    r = post(f"{echo.v1}/chat/completions", {"messages": ASK, "max_tokens": 2, "priority": priority})
    assert r.status_code == 400 and r.json()["error"]["param"] == "priority"
    assert httpx.get(f"{echo.url}/health").status_code == 200


@pytest.mark.parametrize("extra", [
    {"model": LONE}, {"stop": LONE}, {"cache_salt": LONE}, {"request_id": LONE}, {"guided_regex": LONE}, {"guided_choice": [LONE]},
    {"guided_json": {"const": LONE}}, {"messages": [{"role": "user", "content": LONE}]},
])
def test_a_lone_surrogate_anywhere_is_a_400_and_leaves_nothing_behind(echo, extra) -> None:
    r = post(f"{echo.v1}/chat/completions", {"messages": ASK, "max_tokens": 2, **extra})
    error = r.json()["error"]
    assert r.status_code == 400 and error["type"] == "invalid_request_error" and "U+D800" in error["message"]
    assert not echo.front._by_id


@pytest.mark.parametrize(("path", "body", "shape"), [
    ("/v1/messages", {"max_tokens": 2, "messages": []}, dict),
    ("/v1/messages", {"max_tokens": 2, "messages": ASK, "model": "echo", "stop_sequences": [LONE]}, dict),
    ("/v1/messages", {"max_tokens": 2, "model": "echo", "messages": [{"role": "user", "content": [{"type": "tool_result", "content": 5}]}]}, dict),
    ("/api/chat", {"model": "echo", "messages": []}, str),
    ("/api/chat", {"model": "echo", "messages": ASK, "format": {"const": LONE}, "stream": False}, str),
])
def test_what_no_endpoint_saw_is_refused_in_the_dialects_shape(echo, path, body, shape) -> None:
    r = post(echo.url + path, body)
    assert r.status_code == 400 and isinstance(r.json()["error"], shape)
    assert shape is str or r.json()["type"] == "error"


@pytest.mark.parametrize("extra", [{"tool_choice": "x"}, {"tool_choice": -1}, {"input": []}, {"input": [{"role": "wizard", "content": "x"}]}])
def test_a_response_that_cannot_be_a_chat_is_a_400(echo, extra) -> None:
    r = post(f"{echo.v1}/responses", {"input": "hi", "max_output_tokens": 2, **extra})
    assert r.status_code == 400 and r.json()["error"]["message"]


@pytest.mark.parametrize(("names", "status"), [({"documents": 5}, 400), ({"documents": [5]}, 400), ({"self": 1}, 200), ({"cls": 1, "": 2}, 200)])
def test_template_variables_may_have_any_name_but_not_any_value(echo, names, status) -> None:
    r = post(f"{echo.v1}/chat/completions", {"messages": ASK, "max_tokens": 2, "chat_template_kwargs": names})
    assert r.status_code == status


@pytest.mark.parametrize(("body", "param"), [
    ({"query": "a", "items": [], "label_token_ids": [1]}, "items"),
    ({"query": [2**70], "items": [[1]], "label_token_ids": [1]}, "items[0]"),
    ({"query": [1], "items": [[-1]], "label_token_ids": [1]}, "items[0]"),
])
def test_scores_name_what_cannot_be_scored(echo, body, param) -> None:
    r = post(f"{echo.v1}/score", body)
    assert r.status_code == 400 and r.json()["error"]["param"] == param


def test_more_questions_than_anybody_may_ask_are_refused_before_they_are_read(echo) -> None:
    r = post(f"{echo.v1}/systemone", {"model": "jev", "state": "s", "questions": {f"q{i}": QUESTION for i in range(5000)}})
    assert r.status_code == 422 and "5,000 questions" in r.json()["detail"][0]["msg"]


def test_a_line_of_a_batch_ends_at_a_line_feed_only(echo) -> None:
    lines = [{"state": "one\u2028state\u0085here", "questions": {"q": QUESTION}}, {"state": "s", "questions": {LONE: QUESTION}}]
    raw = b"\n".join([json.dumps(lines[0], ensure_ascii=False).encode(), json.dumps(lines[1]).encode()])
    answers = [json.loads(x) for x in httpx.post(f"{echo.v1}/decisions/batch", content=raw, timeout=60).content.split(b"\n") if x]
    assert "q" in answers[0]["answers"] and "U+D800" in answers[1]["error"]["message"]
