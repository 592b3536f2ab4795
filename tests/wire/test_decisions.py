"""Decisions by unmodified clients: TypeSafe's SDK, openai's decisions.create, SGLang's body, rerank and score; and each dialect's errors."""

import asyncio
import json
import random

import httpx
import openai
import pytest
import typesafe_sdk as ts

STATE = {"email": "The crane on site 7 stopped twice today. Please send someone before Monday.", "from": "site manager"}
QUESTIONS = {
    "asks_visit": {"type": "noul", "instructions": "The writer asks for an on-site visit.", "criteria": {"true": "a visit is requested"}},
    "queue": {"type": "choice", "instructions": "Which team?", "criteria": {"mechanics": "moving parts", "electrics": None, "billing": "invoices"}},
    "urgency": {"type": "score", "instructions": "How soon?", "criteria": ["no action", "this month", "this week", "today"]},
}


def system_one(url: str, body: dict, **kw) -> httpx.Response:
    return httpx.post(f"{url}/v1/systemone", json={"model": "jev-latest", **body}, timeout=60, **kw)


def test_the_typesafe_client_gets_every_answer_type(echo) -> None:
    with ts.TypeSafeClient(api_key="k", base_url=echo.url, timeout=60) as client:
        r = client.system_one(STATE, QUESTIONS)
    assert set(r.answers) == set(QUESTIONS)
    assert 0 <= r.nouls["asks_visit"].noul <= 1
    queue = r.choices["queue"]
    assert set(queue.probabilities) == {"mechanics", "electrics", "billing"} and abs(sum(queue.probabilities.values()) - 1) < 1e-6
    assert queue.choice == max(queue.probabilities, key=queue.probabilities.get)
    urgency = r.scores["urgency"]
    assert [int(k) for k in urgency.probabilities] == [0, 1, 2, 3] and list(urgency.legend.values())[3] == "today" and 0 <= urgency.score <= 3
    assert r.usage.input_tokens > 0 and r.usage.output_tokens == 0 and r.request_id


def test_the_async_typesafe_client_works_and_compresses_large_bodies(echo) -> None:
    async def go():
        async with ts.AsyncTypeSafeClient(api_key="k", base_url=echo.url, timeout=60) as client:
            return await client.system_one({"text": "word " * 700}, {"q": ts.Noul(instructions="It repeats.")})

    assert 0 <= asyncio.run(go()).nouls["q"].noul <= 1


def test_typesafe_validation_errors_raise_their_exception(echo) -> None:
    with ts.TypeSafeClient(api_key="k", base_url=echo.url, timeout=60) as client, pytest.raises(Exception, match="needs an image"):
        client.system_one("state", {"b": {"type": "box", "instructions": "x"}})


def test_the_openai_client_gets_every_answer_type(echo) -> None:
    client = openai.OpenAI(base_url=echo.v1, api_key="k", max_retries=0)
    r = client.decisions.create(
        model="echo",
        input=[{"role": "user", "content": [{"type": "input_text", "text": "Parcel scanned at 09:14, seal broken."}]}],
        questions=[
            {"type": "predicate", "name": "tampered", "instructions": "The parcel was opened."},
            {"type": "choice", "name": "hold", "instructions": "Hold it?", "choices": [{"value": True}, {"value": False}, {"value": "true"}]},
            {"type": "score", "instructions": "Severity", "levels": [{"label": "none"}, {"label": "minor"}, {"label": "major"}]},
        ],
    )
    a, b, c = r.answers
    assert a.name == "tampered" and 0 <= a.probability <= 1
    assert [p.value for p in b.probabilities] == [True, False, "true"] and b.choice in (True, False, "true")
    assert c.name is None and [p.label for p in c.probabilities] == ["none", "minor", "major"]
    assert r.usage.input_tokens == r.usage.total_tokens > 0 and r.usage.output_tokens == 0


def test_sglangs_body_is_known_by_its_shape(echo) -> None:
    body = {
        "input": "Pump P3 reads 91 C, limit 85 C.",
        "questions": [
            {"id": "act", "type": "choice", "question": "What next?", "options": [{"name": "stop"}, {"name": "watch", "description": "log only"}]},
            {"id": "risk", "type": "score", "question": "Risk", "levels": ["low", "medium", "high"]},
            {"id": "over", "type": "yes_no", "question": "Above the limit.", "yes": "strictly above"},
        ],
        "prompt_format_version": 1,
        "return_prompt_token_ids": True,
    }
    r = httpx.post(f"{echo.v1}/decisions", json=body).json()
    assert r["object"] == "decisions" and set(r["answers"]) == {"act", "risk", "over"}
    assert 0 <= r["answers"]["act"]["label_mass"] <= 1
    # what was scored can be replayed through /v1/score
    ids = r["answers"]["risk"]["prompt_token_ids"]
    labels = [x[0] for x in r["answers"]["risk"]["label_token_ids"]]
    s = httpx.post(f"{echo.v1}/score", json={"query": ids[:5], "items": [ids[5:]], "label_token_ids": labels, "apply_softmax": True}).json()
    assert s["scores"][0] == pytest.approx(r["answers"]["risk"]["probabilities"], abs=1e-12)


@pytest.mark.parametrize(("body", "where"), [
    ({"state": "s", "questions": {}}, "questions"),
    ({"state": "s", "questions": {"q": {"type": "choice", "instructions": "x", "criteria": {}}}}, "criteria"),
    ({"state": "s", "questions": {"q": {"type": "score", "instructions": "x", "criteria": []}}}, "criteria"),
    ({"state": "s", "questions": {"q": {"type": "score", "instructions": "x", "criteria": ["a"] * 11}}}, "criteria"),
    ({"state": "s", "questions": {"q": {"type": "choice", "criteria": {str(i): None for i in range(256)}}}}, "criteria"),
    ({"state": "s", "questions": {"q": {"type": "noul"}}}, "q"),
    ({"state": "s", "questions": {"q": {"type": "guess", "instructions": "x"}}}, "q"),
    ({"state": 5, "questions": {"q": {"type": "noul", "instructions": "x"}}}, "state"),
    ({"state": "s", "questions": {"q": {"type": "noul", "instructions": "x"}}, "documents": 1}, "documents"),
    ({"state": "s", "assets": {"a": {}}, "questions": {"q": {"type": "noul", "instructions": "x"}}}, "assets"),
    ({"state": "s", "questions": {"q": {"type": "noul", "instructions": "x"}}, "x_prompt_format_version": 9}, "prompt_format_version"),
])
def test_systemone_errors_have_the_dialects_shape_and_name_the_field(echo, body, where) -> None:
    r = system_one(echo.url, body)
    assert r.status_code == 422
    first = r.json()["detail"][0]
    assert {"loc", "msg", "type"} <= set(first)
    assert where in json.dumps(first)


def test_a_state_beyond_the_context_is_refused_by_its_own_error(echo) -> None:
    r = system_one(echo.url, {"state": "x" * (echo.front.model_info.context * 3), "questions": {"q": {"type": "noul", "instructions": "y"}}})
    assert r.status_code == 400 and r.json()["detail"]["error_type"] == "tokens_exceeded"


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff\xfe{}", b"[]", b"[" * 100_000, b'{"state": NaN}', b'{"model": "a", "model": "b"}'])
def test_bodies_that_are_no_json_object_are_refused(echo, raw) -> None:
    for path, status in (("systemone", 422), ("decisions", 400)):
        r = httpx.post(f"{echo.v1}/{path}", content=raw, headers={"content-type": "application/json"})
        assert r.status_code == status and "body" in r.text


@pytest.mark.parametrize(("body", "param"), [
    ({"input": "s", "questions": []}, "questions"),
    ({"input": "s", "questions": [{"type": "predicate", "instructions": "x"}] * 201}, "questions"),
    ({"input": "s", "questions": [{"type": "choice", "instructions": "x", "choices": [{"value": str(i)} for i in range(256)]}]},
     "questions[0].choices"),
    ({"input": "s", "questions": [{"type": "choice", "instructions": "x", "choices": [{"value": "a"}, {"value": "a"}]}]}, "questions[0]"),
    ({"input": "s", "questions": [{"type": "predicate", "instructions": "x", "name": "n"}] * 2}, "questions"),
    ({"input": [{"role": "assistant", "content": "x"}], "questions": [{"type": "predicate", "instructions": "x"}]}, "input[0].role"),
    ({"input": [{"role": "user", "content": [{"type": "input_image"}]}], "questions": [{"type": "predicate", "instructions": "x"}]},
     "input[0].content[0].type"),
    ({"input": " ", "questions": [{"id": "a", "type": "yes_no", "question": "x"}]}, "input"),
    ({"input": "s", "questions": [{"id": "a", "type": "yes_no", "question": "x"}], "temperature": 0}, "temperature"),
    ({"input": "s", "questions": [{"id": "a", "type": "yes_no", "question": "x"}], "colour": 0}, "colour"),
])
def test_decisions_errors_are_openais_objects_and_name_the_field(echo, body, param) -> None:
    r = httpx.post(f"{echo.v1}/decisions", json={"model": "echo", **body})
    assert r.status_code == 400 and r.json()["error"]["param"] == param


def test_an_answer_has_the_same_bits_whoever_else_is_asked(echo) -> None:
    rng = random.Random(4)
    questions = {f"q{i}": {"type": "choice", "instructions": f"Question {i}?", "criteria": {"a": None, "b": None, "c": None}} for i in range(64)}
    alone = system_one(echo.url, {"state": STATE, "questions": {"q7": questions["q7"]}}).json()["answers"]["q7"]
    for n in (2, 16, 64):
        names = [*rng.sample([q for q in questions if q != "q7"], n - 1), "q7"]
        rng.shuffle(names)
        together = system_one(echo.url, {"state": STATE, "questions": {q: questions[q] for q in names}}).json()
        assert together["answers"]["q7"] == alone
        u = together["usage"]
        assert u["x_prompt_tokens_computed"] <= u["input_tokens"] <= u["x_prompt_tokens_logical"]


def test_a_state_is_computed_once_and_found_again(echo) -> None:
    state = "A state that nobody asked about before. " * 30
    q = {f"q{i}": {"type": "noul", "instructions": f"Is {i} right?"} for i in range(8)}
    cold = system_one(echo.url, {"state": state, "questions": q}).json()["usage"]
    assert len(state) < cold["x_prompt_tokens_computed"] <= cold["input_tokens"]       # questions that begin alike share that too
    other = {f"z{i}": {"type": "noul", "instructions": f"And {i}?"} for i in range(8)}
    warm = system_one(echo.url, {"state": state, "questions": other}).json()["usage"]
    assert warm["x_cached_tokens"] > 0 and warm["x_prompt_tokens_computed"] < warm["input_tokens"] / 2


def test_rerank_orders_by_relevance_and_keeps_ties_in_place(echo) -> None:
    docs = ["first passage", "second passage", "third passage"]
    for path in ("/v1/rerank", "/rerank", "/v2/rerank"):
        r = httpx.post(echo.url + path, json={"query": "what?", "documents": docs, "return_documents": True}).json()
        scores = [x["relevance_score"] for x in r["results"]]
        assert scores == sorted(scores, reverse=True) and {x["index"] for x in r["results"]} == {0, 1, 2}
        assert all(x["document"]["text"] == docs[x["index"]] for x in r["results"])
    top = httpx.post(f"{echo.url}/rerank", json={"query": "what?", "documents": docs, "top_n": 1}).json()["results"]
    assert len(top) == 1


def test_batches_answer_line_by_line_and_a_bad_line_fails_alone(echo) -> None:
    good = {"state": "s", "questions": {"q": {"type": "noul", "instructions": "x"}}}
    lines = "\n".join(json.dumps(x) for x in (good, {"state": "s", "questions": {}}, good))
    r = httpx.post(f"{echo.v1}/decisions/batch", content=lines, timeout=60)
    answers = [json.loads(x) for x in r.text.splitlines()]
    assert len(answers) == 3 and answers[0]["answers"] == answers[2]["answers"] and "questions" in answers[1]["error"]["message"]
