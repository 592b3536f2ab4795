"""Front: the asynchronous door to an engine. Ids and text meet here: submit, stream, cancel; one delta per choice and step."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from headwater.core.errors import HeadwaterError, UserInputError
from headwater.core.events import Arrive, Cancel, Release
from headwater.core.request import Output, Request
from headwater.engine.choice import Choice, Delta, Usage
from headwater.engine.client import EngineClient, EngineLostError, EngineStats
from headwater.engine.clock import Clock, RealClock
from headwater.engine.expand import GenerateRequest, expand, failure
from headwater.engine.text import TextModel

__all__ = ["Delta", "Front", "GenerateRequest", "ModelInfo", "Stream", "Usage"]


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """name, context in tokens, vocabulary size, ids that end a turn, whether chat is possible, and the identity that bits depend on."""

    name: str
    context: int
    vocabulary: int
    stop_ids: frozenset[int]
    has_chat: bool
    identity: str


class Stream(AsyncIterator[Delta]):
    """The deltas of one request, all choices interleaved. Close it (or leave its `async with`) to cancel what is still running."""

    def __init__(self, front: Front, request_id: str, choices: dict[str, Choice], usage: Usage) -> None:
        self.request_id = request_id
        self.usage = usage
        self.admitted = False
        self._front = front
        self._choices = choices
        self._ready: deque[Delta] = deque()
        self._error: BaseException | None = None
        self._wake = asyncio.Event()

    @property
    def seeds(self) -> list[int]:
        return [c.seed for c in self._choices.values()]

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Delta:
        while not self._ready:
            if self._error is not None:
                raise self._error
            if all(c.done for c in self._choices.values()):
                raise StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()
        return self._ready.popleft()

    async def aclose(self) -> None:
        self._front._cancel(self)

    async def __aenter__(self) -> Stream:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    def _push(self, delta: Delta | None, error: BaseException | None = None) -> None:
        if delta is not None:
            self._ready.append(delta)
        self._error = self._error or error
        self._wake.set()


class Observer(Protocol):
    """Told about every request, on the event loop; must be quick (`obs.meter`)."""

    def arrived(self, request_id: str, prompt_tokens: int) -> None: ...

    def admitted(self, request_id: str, queued: float, cached_tokens: int) -> None: ...

    def delta(self, request_id: str, choice: int, tokens: int, finish: str | None) -> None: ...

    def ended(self, request_id: str, error: str | None = None) -> None: ...


class Front:
    """`await start()` first, then any number of `submit`s from one event loop; `await close()` at the end."""

    def __init__(self, client: EngineClient, text: TextModel, clock: Clock | None = None) -> None:
        self.text = text
        self.client = client
        self.created = int(time.time())
        self.observer: Observer | None = None
        self._clock = clock or RealClock()
        self._closed = False
        self._by_id: dict[str, tuple[Stream, Choice]] = {}          # by the engine's ids
        self._leaving: set[str] = set()                             # told to end; what the engine still says of them is nobody's

    async def start(self) -> None:
        """Start the engine; returns when it can take requests."""
        loop = asyncio.get_running_loop()

        def soon(call: Callable[[Any], None], value: Any) -> None:
            with contextlib.suppress(RuntimeError):                 # the loop is closed: nobody waits for this any more
                loop.call_soon_threadsafe(call, value)

        await asyncio.to_thread(self.client.start, lambda o: soon(self._deliver, o), lambda reason: soon(self.end_streams, reason))

    async def close(self) -> None:
        """Stop the engine; open streams end with an error."""
        self._closed = True
        await asyncio.to_thread(self.client.close)
        self.end_streams("the server is shutting down")

    def end_streams(self, reason: str) -> None:
        """Every open stream ends now, with an EngineLostError that gives the reason."""
        for stream in {id(s): s for s, _ in self._by_id.values()}.values():
            self._fail(stream, EngineLostError(reason))
        self._leaving.clear()                                       # an engine that is gone says nothing more

    # -- requests ------------------------------------------------------------------------------------------------------------------------

    def submit(self, g: GenerateRequest) -> Stream:
        """Validate and send; returns at once. Raises UserInputError / ContextLengthError / EngineLostError before anything is queued."""
        self.client.check()
        requests = self._expand(g)
        usage = Usage(prompt=len(requests[0].prompt))
        choices = {
            r.request_id: Choice(i, r.seed, g.params, self.text.stream(g.params.skip_special_tokens))
            for i, r in enumerate(requests)
        }
        stream = Stream(self, g.request_id or requests[0].request_id, choices, usage)
        self.client.send(*(Arrive(r) for r in requests))
        self._by_id.update((rid, (stream, choice)) for rid, choice in choices.items())
        if self.observer is not None:
            self.observer.arrived(stream.request_id, usage.prompt)
        if g.grammar is not None:
            try:
                for r in requests:
                    self.client.compile(r.request_id, g.grammar)
            except Exception:
                self._cancel(stream)                                 # it would wait for its grammar for ever
                raise
        return stream

    def _expand(self, g: GenerateRequest) -> list[Request]:
        """One request per choice. An id whose last user left is free at once: where the engine has yet to say that it ended, the new requests go
        by another name there, so that neither the old one's end nor its grammar can reach them."""
        info = self.model_info
        requests = expand(g, info.context, info.vocabulary, info.stop_ids, self._clock.now(), generates=self.text.generates)
        if g.request_id is None:
            return requests
        taken = [r.request_id for r in requests if r.request_id in self._by_id]
        taken += [s.request_id for s, _ in self._by_id.values() if s.request_id == g.request_id]
        if taken:
            raise UserInputError(f"request_id: '{taken[0]}' is in use by a running request", "request_id")
        names, n = {r.request_id for r in requests}, 0
        while names & (self._leaving | self._by_id.keys()):
            n += 1
            requests = expand(replace(g, request_id=f"{g.request_id}~{n}"), info.context, info.vocabulary, info.stop_ids, self._clock.now(),
                              generates=self.text.generates)
            names = {r.request_id for r in requests}
        return requests

    def release(self, request_id: str) -> None:
        """A held request is no longer needed as a fork point."""
        self.client.send(Release(request_id))

    def _cancel(self, stream: Stream) -> None:
        running = [rid for rid, choice in stream._choices.items() if self._by_id.pop(rid, None) is not None and not choice.done]
        self._leaving.update(running)
        for choice in stream._choices.values():
            choice.done = True
        if self.observer is not None:
            self.observer.ended(stream.request_id, "abort" if running else None)
        self._tell(*(Cancel(rid) for rid in running))
        stream._push(None)

    def _deliver(self, outputs: list[Output]) -> None:
        """On the event loop, once per step: fan out."""
        stops: list[Cancel] = []
        for out in outputs:
            entry = self._by_id.get(out.request_id)
            if entry is None:                                        # cancelled while the step ran
                if out.finish is not None:
                    self._leaving.discard(out.request_id)
                continue
            stream, choice = entry
            if choice.index == 0 and (out.cached_tokens or out.computed_tokens):
                stream.usage.cached = out.cached_tokens
                if not stream.admitted and self.observer is not None:
                    stream.admitted = True
                    self.observer.admitted(stream.request_id, out.queued, out.cached_tokens)
            if out.finish == "error":
                choice.done = True                                   # this one has ended, its stream's others are told to
                self._fail(stream, failure(out))
                continue
            delta, stop = choice.feed(out, stream.usage)
            if stop:
                stops.append(Cancel(out.request_id))
                self._leaving.add(out.request_id)
            if choice.done:
                del self._by_id[out.request_id]
            if delta is not None:
                stream._push(delta)
                if self.observer is not None:
                    self.observer.delta(stream.request_id, delta.index, len(delta.token_ids), delta.finish_reason)
        self._tell(*stops)

    def _fail(self, stream: Stream, error: HeadwaterError) -> None:
        if self.observer is not None:
            self.observer.ended(stream.request_id, "error")
        self._cancel(stream)
        stream._push(None, error)

    def _tell(self, *events: Cancel) -> None:
        """Cancels to an engine that is gone are moot."""
        if events and not self._closed:
            with contextlib.suppress(EngineLostError):
                self.client.send(*events)

    # -- facts ---------------------------------------------------------------------------------------------------------------------------

    @property
    def model_info(self) -> ModelInfo:
        i = self.client.info
        return ModelInfo(self.text.name, i.context, i.vocabulary, self.text.stop_ids, self.text.has_chat, i.identity)

    def stats(self) -> EngineStats:
        return self.client.stats()

    def waiting(self) -> int:
        """Requests that wait to be admitted; those that the engine's last snapshot has not seen yet count too."""
        s = self.client.stats()
        return max(s.waiting, len(self._by_id) - s.running)

    def check_health(self) -> None:
        """Raises EngineLostError with the reason when no request can be served."""
        self.client.check()

    # -- text ----------------------------------------------------------------------------------------------------------------------------

    def render_chat(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None = None, /, **names: Any) -> list[int]:
        """See `TextModel.render_chat`."""
        return self.text.render_chat(messages, tools, **names)

    def tokenize(self, text: str, *, add_special: bool = True) -> list[int]:
        return self.text.tokenizer.encode(text, add_special=add_special)

    def detokenize(self, ids: Sequence[int], *, skip_special: bool = False) -> str:
        return self.text.tokenizer.decode(ids, skip_special=skip_special)

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one token, for `logprobs` objects."""
        return self.text.tokenizer.token_bytes(token)
