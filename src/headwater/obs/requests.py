"""What happened to one HTTP request, gathered for the access log and for traces: numbers and reasons, never content."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(slots=True)
class Call:
    """One engine request. Times on the recorder's clock, in seconds; queued: seconds until it was admitted, -1 before.

    cached: prompt tokens whose state was found.
    """

    request_id: str
    arrived: float
    prompt: int
    queued: float = -1.0
    cached: int = 0
    tokens: int = 0
    first: float = 0.0
    last: float = 0.0
    finishes: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class RequestRecord:
    """One HTTP request. route: the endpoint's pattern, not what the client wrote; seconds: until the last byte of the answer was handed on."""

    method: str
    began: float
    route: str = ""
    request_id: str = ""
    status: int = 0
    seconds: float = 0.0
    calls: list[Call] = field(default_factory=list)

    def finishes(self) -> dict[str, int]:
        """Finish reasons of all choices, `abort` and `error` among them."""
        total: Counter[str] = Counter()
        for call in self.calls:
            total.update(call.finishes)
        return dict(total)

    def fields(self, model: str) -> dict[str, object]:
        """The access line."""
        out: dict[str, object] = {
            "request_id": self.request_id, "method": self.method, "endpoint": self.route, "status": self.status, "seconds": round(self.seconds, 6),
        }
        if self.calls:
            started = [c for c in self.calls if c.queued >= 0]
            out |= {
                "model": model, "prompt_tokens": sum(c.prompt for c in self.calls), "cached_tokens": sum(c.cached for c in self.calls),
                "completion_tokens": sum(c.tokens for c in self.calls), "finish": self.finishes(),
            }
            if started:
                out["queue_seconds"] = round(max(c.queued for c in started), 6)
            drawn = [c for c in self.calls if c.tokens]
            if drawn:
                out["first_token_seconds"] = round(min(c.first for c in drawn) - self.began, 6)
        return out


Sink = Callable[[RequestRecord, Mapping[str, str]], None]             # told about every finished request, with its headers
CURRENT: ContextVar[RequestRecord | None] = ContextVar("headwater_request", default=None)


class Recorder:
    """Files what the front tells about engine requests under the HTTP request in whose context they were sent."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self._calls: dict[str, Call] = {}

    def arrived(self, request_id: str, prompt_tokens: int) -> None:
        record = CURRENT.get()
        if record is not None:
            call = Call(request_id, self.clock(), prompt_tokens)
            record.calls.append(call)
            self._calls[request_id] = call

    def admitted(self, request_id: str, queued: float, cached_tokens: int) -> None:
        call = self._calls.get(request_id)
        if call is not None:
            call.queued, call.cached = queued, cached_tokens

    def delta(self, request_id: str, choice: int, tokens: int, finish: str | None) -> None:
        call = self._calls.get(request_id)
        if call is None:
            return
        if tokens:
            call.last = self.clock()
            call.first = call.first or call.last
            call.tokens += tokens
        if finish:
            call.finishes[finish] += 1

    def ended(self, request_id: str, error: str | None = None) -> None:
        call = self._calls.pop(request_id, None)
        if call is not None and error:
            call.finishes[error] += 1


class Observers:
    """Tells several observers what one would be told."""

    def __init__(self, *observers: object) -> None:
        self._observers = observers

    def __getattr__(self, name: str) -> Callable[..., None]:
        told = [getattr(o, name) for o in self._observers]

        def tell(*args: object) -> None:
            for t in told:
                t(*args)

        setattr(self, name, tell)                                    # looked up once
        return tell
