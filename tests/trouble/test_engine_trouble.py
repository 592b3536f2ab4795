"""Three in the morning: the engine process is killed or stopped, requests are too many, the server is told to end. Events in order, no stopwatch."""

import json
import os
import signal
import threading
from collections.abc import Iterator

import httpx
import pytest

from tests.trouble.serving import PATIENCE, Served, alive, serving, until

ENDLESS = {"prompt": "abc", "max_tokens": 3000, "ignore_eos": True, "stream": True}


@pytest.fixture
def echo() -> Iterator[Served]:
    """A server of its own for each test: after a death in a row the next start waits. A short progress deadline, for tests that stop the engine."""
    with serving("echo", "--progress-deadline", "2") as served:
        yield served


class Streaming(threading.Thread):
    """One streamed completion in a thread: its answer's head, its events as they came; `first` is set by the first of them, or by the end."""

    def __init__(self, url: str, body: dict, path: str = "/v1/completions") -> None:
        super().__init__(daemon=True)
        self.url, self.body = url + path, body
        self.events: list[str] = []
        self.answer = httpx.Response(0)
        self.answered, self.first = threading.Event(), threading.Event()
        self.broken: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            with httpx.stream("POST", self.url, json=self.body, timeout=PATIENCE) as r:
                self.answer = r
                self.answered.set()
                for line in r.iter_lines():
                    if line.startswith("data: "):
                        self.events.append(line[6:])
                        self.first.set()
        except httpx.HTTPError as e:
            self.broken = e
        finally:
            self.answered.set()
            self.first.set()

    def ended(self) -> list[str]:
        self.join(PATIENCE)
        assert not self.is_alive() and self.broken is None, self.broken
        return self.events


def error_in(events: list[str]) -> dict:
    assert events[-1] == "[DONE]"
    error: dict = json.loads(events[-2])["error"]
    return error


def test_a_killed_engine_ends_streams_with_an_error_object_and_a_new_one_answers_the_same(echo) -> None:
    expected = echo.complete()["choices"]
    first = echo.engine
    streams = [Streaming(echo.url, ENDLESS) for _ in range(4)]
    assert all(s.first.wait(PATIENCE) for s in streams)
    os.kill(first, signal.SIGKILL)
    for s in streams:
        error = error_in(s.ended())
        assert error["type"] == "server_error" and error["code"] == "engine_unavailable"
    until(lambda: echo.health().status_code == 200, "the engine is back")
    assert echo.engine != first
    assert echo.complete()["choices"] == expected


def test_health_is_503_with_a_reason_between_a_death_and_the_next_engine(echo) -> None:
    refused = []
    for _ in range(2):                                              # every start after the first in a row waits longer
        until(lambda: echo.health().status_code == 200, "the engine is back")
        os.kill(echo.engine, signal.SIGKILL)
        r = until(lambda: (r := echo.health()).status_code == 503 and r, "the death is noticed")
        refused.append(r.json()["error"])
    assert all(e["code"] == "engine_unavailable" and e["message"] for e in refused)
    until(lambda: echo.health().status_code == 200, "the engine is back")


def test_a_request_during_the_outage_gets_503_not_a_wrong_answer(echo) -> None:
    os.kill(echo.engine, signal.SIGSTOP)
    until(lambda: echo.health().status_code == 503, "the stop is noticed")
    r = echo.post("/v1/completions", {"prompt": "abc", "max_tokens": 2})
    assert (r.status_code, r.json().get("error", {}).get("code")) in ((503, "engine_unavailable"), (200, None))   # 200: it is back already
    until(lambda: echo.health().status_code == 200, "the engine is back")


def test_a_stopped_engine_is_replaced_while_health_keeps_answering_and_large_requests_keep_coming(echo) -> None:
    expected, first = echo.complete()["choices"], echo.engine
    os.kill(first, signal.SIGSTOP)
    # far more than the socket to the engine holds: whoever writes to it would stand still
    streams = [Streaming(echo.url, {"prompt": [65] * 3900, "max_tokens": 4, "stream": True}) for _ in range(100)]
    until(lambda: echo.health().status_code == 503, "the stop is noticed")
    for s in streams:
        s.join(PATIENCE)
        assert not s.is_alive() and s.broken is None
        assert not s.events or error_in(s.events)["code"] == "engine_unavailable"      # none: refused with 503 at once
    until(lambda: echo.health().status_code == 200, "the engine is back")
    assert not alive(first)
    assert echo.complete()["choices"] == expected


def test_no_request_is_answered_wrongly_while_engines_die(echo) -> None:
    prompts = [f"question {i}" for i in range(20)]
    ask = {"max_tokens": 40, "temperature": 0, "ignore_eos": True}
    expected = {p: echo.complete(p, **ask)["choices"][0]["text"] for p in prompts}
    answers: list[tuple[str, httpx.Response]] = []
    stop = threading.Event()

    def client(k: int) -> None:
        n = k
        while not stop.is_set():
            p = prompts[n % len(prompts)]
            answers.append((p, echo.post("/v1/completions", {"prompt": p, **ask})))
            stop.wait(0.02)
            n += 1

    clients = [threading.Thread(target=client, args=(k,), daemon=True) for k in range(4)]
    for c in clients:
        c.start()
    until(lambda: len(answers) > 20, "answers come")
    os.kill(echo.engine, signal.SIGKILL)
    until(lambda: any(r.status_code == 503 for _, r in answers), "somebody was refused")
    until(lambda: echo.health().status_code == 200, "the engine is back")
    seen = len(answers)
    until(lambda: len(answers) > seen + 20, "answers come again")
    stop.set()
    for c in clients:
        c.join(PATIENCE)
    for p, r in answers:
        assert r.status_code == 503 or r.json()["choices"][0]["text"] == expected[p]


def test_too_many_requests_get_429_with_a_time_to_come_back_and_those_before_go_on() -> None:
    with serving("echo", "--max-waiting", "1", "--kv-memory", "40K") as served:
        streams: list[Streaming] = []
        while not streams or streams[-1].answer.status_code == 200:
            streams.append(Streaming(served.url, ENDLESS))
            assert streams[-1].answered.wait(PATIENCE) and len(streams) < 20
        refused = streams[-1].answer
        assert refused.status_code == 429 and int(refused.headers["retry-after"]) >= 1
        assert served.health().status_code == 200
        assert streams[0].first.wait(PATIENCE) and '"choices"' in streams[0].events[0]


def test_sigterm_lets_running_streams_end_and_takes_no_new_ones() -> None:
    with serving("echo") as served:
        engine = served.engine
        stream = Streaming(served.url, {**ENDLESS, "max_tokens": 1500})
        assert stream.first.wait(PATIENCE)
        served.process.send_signal(signal.SIGTERM)
        events = stream.ended()
        assert json.loads(events[-2])["choices"][0]["finish_reason"] == "length"
        assert served.process.wait(PATIENCE) == 0
        with pytest.raises(httpx.TransportError):
            served.health()
        assert not alive(engine)


@pytest.mark.parametrize("signals", [1, 2], ids=["drain over", "second signal"])
def test_what_still_runs_when_the_drain_is_over_ends_with_an_error_object(signals) -> None:
    with serving("echo", "--drain", "0" if signals == 1 else "3600") as served:
        streams = [Streaming(served.url, {**ENDLESS, "n": 8, "logprobs": 5}) for _ in range(8)]
        assert all(s.first.wait(PATIENCE) for s in streams)
        for _ in range(signals):
            served.process.send_signal(signal.SIGTERM)
            until(lambda: any("draining" in line for line in served.log), "the drain has begun")
        for s in streams:
            assert "shutting down" in error_in(s.ended())["message"]
        assert served.process.wait(PATIENCE) == 0


def test_an_engine_does_not_outlive_a_killed_server() -> None:
    with serving("echo") as served:
        engine = served.engine
        served.process.kill()
        until(lambda: not alive(engine), "the engine has ended")


@pytest.mark.slow
def test_health_answers_while_a_long_prompt_is_prefilled_and_a_killed_real_engine_comes_back(smollm2) -> None:
    with serving(str(smollm2)) as served:
        expected = served.complete("The capital of France is")["choices"]
        long = Streaming(served.url, {"prompt": [100 + i % 1000 for i in range(3000)], "max_tokens": 2, "stream": True})
        answered = 0
        while not long.first.is_set():
            answered += served.health().status_code == 200
        assert answered > 3                                         # between the request and its first token
        assert long.ended()[-1] == "[DONE]"
        os.kill(served.engine, signal.SIGKILL)
        until(lambda: served.health().status_code == 503, "the death is noticed")
        until(lambda: served.health().status_code == 200, "the engine is back")
        assert served.complete("The capital of France is")["choices"] == expected
