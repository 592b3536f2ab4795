"""The log of a running server: one line a request with its numbers, JSON where asked for, and neither keys nor content in it."""

import json
import signal
from collections.abc import Iterator

import httpx
import pytest

from tests.trouble.serving import PATIENCE, Served, serving, until

KEY, FILED, WRONG, CONTENT = "sk-right-5b1f6a", "sk-filed-77ac02", "sk-wrong-0c9d4e", "confidential-7f3a"
RIGHT = {"authorization": f"Bearer {KEY}"}


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Iterator[list[dict]]:
    """All lines of a server that was used well and badly, then drained."""
    keys = tmp_path_factory.mktemp("keys") / "keys.txt"
    keys.write_text(f"{FILED}\n\n")
    args = ("echo", "--log-format", "json", "--api-key-file", str(keys), "--max-body", "1")
    with serving(*args, env={"HEADWATER_API_KEY": KEY}) as served:
        use(served)
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(PATIENCE) == 0
        until(lambda: any("draining" in line for line in served.log), "the log is read")
    yield [json.loads(line) for line in served.log]


def use(served: Served) -> None:
    ask = {"prompt": CONTENT, "max_tokens": 5, "ignore_eos": True}
    for headers, status in ((RIGHT, 200), ({"x-api-key": FILED}, 200), ({"authorization": f"Bearer {WRONG}"}, 401), ({}, 401)):
        r = served.post("/v1/completions", ask, headers={**headers, "x-request-id": f"asked-{len(headers)}-{status}"})
        assert r.status_code == status
    chat = {"messages": [{"role": "user", "content": CONTENT}], "max_tokens": 4, "stream": True, "ignore_eos": True}
    assert served.post("/v1/chat/completions", chat, headers={**RIGHT, "x-request-id": "streamed"}).text.endswith("[DONE]\n\n")
    assert httpx.get(f"{served.url}/{CONTENT}/{KEY}?key={KEY}", headers=RIGHT).status_code == 404
    assert served.post("/v1/completions", {"prompt": 5, CONTENT: KEY}, headers=RIGHT).status_code == 400
    assert served.post("/v1/completions", {"prompt": CONTENT * 100_000}, headers=RIGHT).status_code == 413
    chunked = (b"x" * 65536 for _ in range(40))
    assert httpx.post(f"{served.url}/v1/completions", content=chunked, headers=RIGHT, timeout=PATIENCE).status_code == 413
    assert served.health().status_code == 200


def access(log: list[dict]) -> list[dict]:
    return [line for line in log if line["logger"] == "headwater.access"]


def test_every_line_is_an_object_with_time_level_and_message(log) -> None:
    assert all({"time", "level", "logger", "message"} <= set(line) for line in log)


def test_every_request_has_one_line_and_healthy_probes_have_none(log) -> None:
    assert [line["status"] for line in access(log)] == [200, 200, 401, 401, 200, 404, 400, 413, 413]


def test_a_line_has_the_requests_id_tokens_times_and_reasons(log) -> None:
    line = next(line for line in access(log) if line["request_id"] == "streamed")
    assert line["endpoint"] == "/v1/chat/completions" and line["model"] == "echo"
    assert line["completion_tokens"] == 4 and line["prompt_tokens"] > 4 and line["finish"] == {"length": 1}
    assert 0 <= line["queue_seconds"] <= line["first_token_seconds"] <= line["seconds"]


def test_an_unknown_path_is_not_repeated(log) -> None:
    assert next(line for line in access(log) if line["status"] == 404)["endpoint"] == "(none)"


@pytest.mark.parametrize("secret", [KEY, FILED, WRONG, CONTENT])
def test_neither_keys_nor_content_are_logged(log, secret) -> None:
    assert not [line for line in log if secret in json.dumps(line)]
