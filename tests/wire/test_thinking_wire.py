"""Thinking budgets and the account of drafts over HTTP: budgets end the thinking, usage says what was drafted, dialects that always send a budget
force no model to think."""

import httpx
import pytest

from headwater.engine.build import EngineSpec
from headwater.text.reasoning import TWO_STAGE
from tests.wire.conftest import start, stop

ASK = [{"role": "user", "content": "Say the same thing again and again: la la la la la la la la."}]


@pytest.fixture(scope="module")
def drafting():
    running = start(EngineSpec(model="echo", draft="suffix+ngram:shortest=1+forced"))
    yield running
    stop(running)


def post(url: str, **body) -> dict:
    answer = httpx.post(f"{url}/v1/chat/completions", json={"model": "echo", "messages": ASK, "temperature": 0.9, "seed": 4, **body}, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_budget_ends_the_thinking_of_a_model_without_markers_and_the_answer_follows(drafting, echo) -> None:
    got = post(drafting.url, max_tokens=60, thinking_token_budget=12, ignore_eos=True)
    message = got["choices"][0]["message"]
    assert 0 < len(message["reasoning_content"]) <= 12 and message["content"]
    assert TWO_STAGE.end not in message["content"] + message["reasoning_content"]
    assert got["usage"]["completion_tokens_details"]["reasoning_tokens"] >= 12
    plain = post(echo.url, max_tokens=60, thinking_token_budget=12, ignore_eos=True)
    assert plain["choices"][0]["message"] == message and "x_speculation" not in plain["usage"]


def test_usage_says_what_was_drafted_and_what_held(drafting) -> None:
    usage = post(drafting.url, max_tokens=80, thinking_token_budget=5, ignore_eos=True)["usage"]
    told, details = usage["x_speculation"], usage["completion_tokens_details"]
    assert sum(told["accepted"].values()) == details["accepted_prediction_tokens"]
    assert sum(told["drafted"].values()) == details["accepted_prediction_tokens"] + details["rejected_prediction_tokens"]
    assert told["accepted"]["forced"] > 0                            # the cue for the answer is forced, token by token
    assert told["target_passes"] <= usage["completion_tokens"]


def test_a_budget_below_zero_is_the_callers_error(drafting) -> None:
    body = {"model": "echo", "messages": ASK, "thinking_token_budget": -1}
    answer = httpx.post(f"{drafting.url}/v1/chat/completions", json=body)
    assert answer.status_code == 400 and "thinking_token_budget" in answer.json()["error"]["message"]


def test_clients_that_always_send_a_budget_do_not_make_a_model_think(drafting) -> None:
    body = {"model": "echo", "messages": ASK, "max_tokens": 30, "thinking": {"type": "enabled", "budget_tokens": 10}}
    answer = httpx.post(f"{drafting.url}/v1/messages", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    assert [b["type"] for b in answer.json()["content"]] == ["text"]


def test_an_effort_is_a_budget_only_where_the_model_thinks_apart(echo) -> None:
    with_effort = post(echo.url, max_tokens=20, reasoning_effort="low")["choices"][0]["message"]
    assert with_effort == post(echo.url, max_tokens=20)["choices"][0]["message"]
