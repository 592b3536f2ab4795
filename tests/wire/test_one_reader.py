"""Every endpoint reads its body in one way: what one dialect refuses, none takes; and an error costs nobody the connection."""

import gzip
import json

import httpx
import pytest
from starlette.testclient import TestClient

from headwater.serve.app import create_app
from headwater.serve.settings import ServeSettings

ASK = [{"role": "user", "content": "hi"}]
STATE = {"state": "s", "questions": {"q": {"type": "noul", "instructions": "x"}}}
BODIES = {
    "/v1/chat/completions": {"messages": ASK, "max_tokens": 2},
    "/v1/completions": {"prompt": "x", "max_tokens": 2},
    "/v1/embeddings": {"input": "x"},
    "/v1/responses": {"input": "x", "max_output_tokens": 2},
    "/v1/messages": {"model": "echo", "messages": ASK, "max_tokens": 2},
    "/v1/messages/count_tokens": {"model": "echo", "messages": ASK},
    "/api/chat": {"model": "echo", "messages": ASK, "options": {"num_predict": 2}, "stream": False},
    "/api/generate": {"model": "echo", "prompt": "x", "options": {"num_predict": 2}, "stream": False},
    "/infill": {"input_prefix": "a", "input_suffix": "b", "n_predict": 2},
    "/api/show": {"model": "echo"},
    "/tokenize": {"prompt": "x"},
    "/detokenize": {"tokens": [65]},
    "/v1/rerank": {"query": "q", "documents": ["a"]},
    "/v1/score": {"query": "q", "items": ["a"], "label_token_ids": [65, 66]},
    "/v1/systemone": {"model": "jev", **STATE},
    "/v1/decisions": {"model": "echo", "input": "x", "questions": [{"type": "predicate", "instructions": "x"}]},
}
PATHS = list(BODIES)


def raw(echo, path: str, content: bytes, **headers: str) -> httpx.Response:
    return httpx.post(echo.url + path, content=content, headers={"content-type": "application/json", **headers}, timeout=60)


def twice(body: dict) -> bytes:
    """The body with its first name there twice."""
    name, value = next(iter(body.items()))
    return f"{{{json.dumps(name)}: {json.dumps(value)}, {json.dumps(body)[1:]}".encode()


@pytest.mark.parametrize("path", PATHS)
def test_a_name_that_is_there_twice_is_refused_in_one_line(echo, path) -> None:
    assert raw(echo, path, json.dumps(BODIES[path]).encode()).status_code == 200
    r = raw(echo, path, twice(BODIES[path]))
    assert r.status_code in (400, 422) and "is there twice" in r.text and "\\n" not in r.text


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("value", ["NaN", "Infinity", '"\\ud800"', '{"\\udc00": 1}', "[" * 300 + "]" * 300])
def test_what_json_or_text_cannot_hold_is_refused_even_in_fields_that_nobody_reads(echo, path, value) -> None:
    r = raw(echo, path, json.dumps(BODIES[path])[:-1].encode() + f', "flavour": {value}}}'.encode())
    assert r.status_code in (400, 422), r.text


@pytest.mark.parametrize("path", PATHS)
def test_bodies_without_a_type_are_read_unless_a_browser_sends_them(echo, path) -> None:
    content = json.dumps(BODIES[path]).encode()
    for kind in ("application/x-www-form-urlencoded", "text/plain"):
        assert raw(echo, path, content, **{"content-type": kind}).status_code == 200
        assert raw(echo, path, content, **{"content-type": kind, "origin": "http://elsewhere.example"}).status_code == 403
    assert raw(echo, path, content, **{"content-type": "application/xml"}).status_code == 415


@pytest.mark.parametrize("path", PATHS)
def test_compressed_bodies_are_read_and_cut_ones_refused(echo, path) -> None:
    packed = gzip.compress(json.dumps(BODIES[path]).encode())
    assert raw(echo, path, packed, **{"content-encoding": "gzip"}).status_code == 200
    for wrong in (packed[:-9], b"no gzip"):
        assert raw(echo, path, wrong, **{"content-encoding": "gzip"}).status_code in (400, 422)


def test_a_twin_name_deep_inside_is_refused_and_names_itself(echo) -> None:
    r = raw(echo, "/v1/chat/completions", b'{"messages": [{"role": "user", "content": "a", "content": "b"}]}')
    assert r.status_code == 400 and "'content' is there twice" in r.json()["error"]["message"]


def test_a_lone_surrogate_in_metadata_is_refused_before_a_stream_begins(echo) -> None:
    r = raw(echo, "/v1/responses", b'{"input": "x", "stream": true, "metadata": {"k": "\\ud800"}}')
    assert r.status_code == 400 and r.json()["error"]["param"] == "metadata.k" and "U+D800" in r.json()["error"]["message"]


def test_lines_of_a_batch_are_refused_one_by_one(echo) -> None:
    good = json.dumps(STATE)
    lines = [good, '{"state": 1, "state": 2}', "nonsense", '{"state": "\\ud800"}', json.dumps({**STATE, "model": "other"}), good]
    answers = [json.loads(x) for x in raw(echo, "/v1/decisions/batch", "\n".join(lines).encode()).text.splitlines()]
    assert ["answers" in a for a in answers] == [True, False, False, False, False, True]
    assert [
        word for word, a in zip(["twice", "line 3", "U+D800", "not served"], answers[1:5], strict=True) if word in a["error"]["message"]
    ] == ["twice", "line 3", "U+D800", "not served"]


@pytest.mark.parametrize("request_id", ["", "a" * 129, "a b", "a\n", "<x>", "é"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_a_request_id_in_the_body_is_held_to_what_a_header_may_hold(echo, path, request_id) -> None:
    r = raw(echo, path, json.dumps({**BODIES[path], "request_id": request_id}).encode())
    assert r.status_code == 400 and r.json()["error"]["param"] == "request_id"


@pytest.mark.parametrize(("path", "extra", "param"), [
    ("/v1/chat/completions", {"max_tokens": "5"}, "max_tokens"),
    ("/v1/chat/completions", {"stream": 1}, "stream"),
    ("/v1/chat/completions", {"cache_salt": "s" * 2000}, "cache_salt"),
    ("/v1/completions", {"temperature": "0.5"}, "temperature"),
    ("/v1/responses", {"max_output_tokens": 0}, "max_output_tokens"),
    ("/v1/responses", {"top_logprobs": 3}, "top_logprobs"),
    ("/v1/responses", {"input": [{"type": "function_call_output", "call_id": "c", "output": 5}]}, "input[0].output"),
])
def test_types_are_taken_as_sent_and_fields_are_named_as_sent(echo, path, extra, param) -> None:
    r = raw(echo, path, json.dumps({**BODIES[path], **extra}).encode())
    assert r.status_code == 400 and r.json()["error"]["param"] == param and r.json()["error"]["message"].startswith(param)


def test_a_whole_number_may_be_written_with_a_point(echo) -> None:
    r = raw(echo, "/v1/completions", b'{"prompt": "x", "max_tokens": 3.0, "ignore_eos": true}')
    assert r.json()["usage"]["completion_tokens"] == 3
    assert raw(echo, "/v1/completions", b'{"prompt": "x", "max_tokens": 3.5}').status_code == 400


@pytest.mark.parametrize(("extra", "message"), [
    ({"options": {"num_ctx": -5}}, "options.num_ctx: "),
    ({"options": {"num_predict": "many"}}, "options.num_predict: "),
    ({"options": {"repeat_penalty": -1.0}}, "options.repeat_penalty: "),
    ({"options": {"temperature": -1}}, "options.temperature: "),
    ({"think": "x"}, "think: "),
    ({"format": 5}, "format: "),
    ({"format": {"type": "nonsense"}}, "format: "),
])
@pytest.mark.parametrize("path", ["/api/chat", "/api/generate"])
def test_ollamas_options_are_refused_under_their_own_names(echo, path, extra, message) -> None:
    r = raw(echo, path, json.dumps({**BODIES[path], **extra}).encode())
    assert r.status_code == 400 and r.json()["error"].startswith(message), r.text


@pytest.mark.parametrize("path", ["/api/chat", "/api/generate"])
def test_ollamas_num_predict_of_nothing_is_no_limit(echo, path) -> None:
    for n in (0, -1, -2):
        r = raw(echo, path, json.dumps({**BODIES[path], "options": {"num_predict": n, "stop": ["e", "a", "\n", " "], "seed": 3}}).encode())
        assert r.status_code == 200 and r.json()["done_reason"] == "stop"


@pytest.mark.parametrize("think", [True, False, "low", "high", None])
def test_ollamas_think_takes_truths_and_efforts(echo, think) -> None:
    assert raw(echo, "/api/chat", json.dumps({**BODIES["/api/chat"], "think": think}).encode()).status_code == 200


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/api/show", "/v1/systemone", "/health"])
def test_an_error_that_nobody_foresaw_is_an_answer_and_the_connection_lives_on(echo, path, monkeypatch) -> None:
    def broken(*args: object) -> None:
        raise RuntimeError("secret insides")

    app = create_app(echo.front, ServeSettings())
    monkeypatch.setattr(app.state.server, "check_model", broken)
    monkeypatch.setattr(app.state.server.front, "check_health", broken)
    with TestClient(app) as client:                                 # raises what leaves the application
        r = client.get(path) if path == "/health" else client.post(path, json=BODIES[path])
        assert r.status_code == 500 and "RuntimeError" in r.text and "secret" not in r.text
        assert client.get("/version").status_code == 200


@pytest.mark.parametrize(("path", "extra"), [
    ("/v1/chat/completions", {"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "nonsense"}}}}),
    ("/v1/completions", {"guided_regex": "("}),
    ("/v1/responses", {"text": {"format": {"type": "json_schema", "name": "x", "schema": {"type": "nonsense"}}}}),
    ("/v1/messages", {"tool_choice": {"type": "any"}, "tools": [{"name": "f", "input_schema": {"type": "nonsense"}}]}),
    ("/api/chat", {"format": {"type": "nonsense"}}),
])
def test_a_grammar_that_cannot_be_is_a_400_also_where_a_stream_was_asked_for(echo, path, extra) -> None:
    r = raw(echo, path, json.dumps({**BODIES[path], **extra, "stream": True}).encode())
    assert r.status_code == 400 and "cannot be compiled" in r.text
    assert not echo.front._by_id


def texts_of(value: object) -> list[str]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [value] if isinstance(value, str) else [t for x in inner for t in texts_of(x)]


@pytest.mark.parametrize("path", PATHS)
def test_an_error_is_one_line_of_bounded_length_whatever_it_quotes(echo, path) -> None:
    for name in ("a\nb\x00", "n" * 100_000):
        r = raw(echo, path, json.dumps({**BODIES[path], name: {"\ud800": 1}, "model": name, "input": {name: 1}}).encode())
        assert r.status_code >= 400 and len(r.text) < 4000
        assert all(text.isprintable() for text in texts_of(r.json()))
