"""Front: the asynchronous door to an engine. Ids and text meet here: submit, stream, cancel; one delta per choice and step."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import uuid
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headwater.core.errors import CapacityError, ContextLengthError, HeadwaterError, UserInputError
from headwater.core.events import Arrive, Cancel, Release
from headwater.core.params import SamplingParams, choice_seed
from headwater.core.request import Output, ReadSpec, Request
from headwater.engine.choice import Choice, Delta, Usage
from headwater.engine.client import EngineClient, EngineLostError, EngineStats, Grammar
from headwater.engine.text import TextModel


@dataclass(slots=True)
class GenerateRequest:
    """What a caller wants. prompt: token ids. request_id: made up when None. max_tokens None in `params` = the rest of the context.

    read_only: nothing is sampled, only `reads` are served. deadline: seconds from now after which the request fails.
    """

    prompt: Sequence[int] | np.ndarray
    params: SamplingParams = field(default_factory=SamplingParams)
    request_id: str | None = None
    reads: ReadSpec = field(default_factory=ReadSpec)
    read_only: bool = False
    grammar: Grammar | None = None
    priority: int = 0
    owner: str = ""
    cache_salt: str = ""
    parent: str | None = None
    parent_pos: int = 0
    hold: bool = False


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """name, context in tokens, vocabulary size, ids that end a turn, whether chat is possible, and the identity that bits depend on."""

    name: str
    context: int
    vocabulary: int
    stop_ids: frozenset[int]
    has_chat: bool
    identity: str


def expand(g: GenerateRequest, context: int, vocabulary: int, stop_ids: frozenset[int], arrival: float = 0.0) -> list[Request]:
    """A caller's request -> one Request per choice; choice i > 0 is a fork of choice 0 behind the prompt, with the seed choice_seed(seed, i).

    Raises ContextLengthError with both numbers, UserInputError naming the field.
    """
    p = g.params
    prompt = _prompt_ids(g.prompt, vocabulary)
    room = context - len(prompt)
    if room < (0 if g.read_only else 1):
        raise ContextLengthError(f"prompt: {len(prompt):,} tokens do not fit the model's context of {context:,}", "prompt")
    if p.max_tokens is not None and p.max_tokens > room and not g.read_only:
        raise ContextLengthError(
            f"max_tokens: {len(prompt):,} prompt tokens + {p.max_tokens:,} wanted = {len(prompt) + p.max_tokens:,} are more than the model's context of "
            f"{context:,}", "max_tokens",
        )
    for name in ("logit_bias", "allowed_token_ids", "stop_token_ids"):
        bad = [t for t in (getattr(p, name) or ()) if not 0 <= t < vocabulary]
        if bad:
            raise UserInputError(f"{name}: token id {bad[0]} is outside the vocabulary of {vocabulary:,}", name)
    reads = g.reads
    if p.prompt_logprobs is not None and reads.score_from is None:
        reads = ReadSpec(reads.labels, 1, p.prompt_logprobs, reads.hidden)
    max_new = 0 if g.read_only else p.max_tokens if p.max_tokens is not None else room
    stops = (frozenset() if p.ignore_eos else stop_ids) | frozenset(p.stop_token_ids)
    seed = p.seed if p.seed is not None else secrets.randbits(63)
    root = g.request_id or f"req-{uuid.uuid4().hex[:24]}"
    return [
        Request(
            request_id=root if i == 0 else f"{root}/{i}", prompt=prompt, params=p, max_new=max_new, stop_ids=stops, seed=choice_seed(seed, i),
            arrival=arrival, priority=g.priority, owner=g.owner, cache_salt=g.cache_salt, parent=g.parent if i == 0 else root,
            parent_pos=g.parent_pos if i == 0 else len(prompt), hold=g.hold and i == 0, reads=reads if i == 0 else ReadSpec(),
            mask=None if g.grammar is None else (root if i == 0 else f"{root}/{i}"),
        )
        for i in range(1 if g.read_only else p.n)
    ]


def _prompt_ids(prompt: Sequence[int] | np.ndarray, vocabulary: int) -> np.ndarray:
    ids = np.asarray(prompt)
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise UserInputError("prompt: must be a flat list of token ids", "prompt")
    if not ids.size:
        raise UserInputError("prompt: is empty; the model needs at least one token", "prompt")
    bad = ids[(ids < 0) | (ids >= vocabulary)]
    if bad.size:
        raise UserInputError(f"prompt: token id {bad[0]} is outside the vocabulary of {vocabulary:,}", "prompt")
    return ids.astype(np.int32)


def failure(out: Output) -> HeadwaterError:
    """The exception that an Output with finish 'error' stands for."""
    message = out.error or "the engine failed this request without saying why"
    return HeadwaterError(message) if out.retry_after is None else CapacityError(message, out.retry_after)


class Stream(AsyncIterator[Delta]):
    """The deltas of one request, all choices interleaved. Close it (or leave its `async with`) to cancel what is still running."""

    def __init__(self, front: Front, request_id: str, choices: dict[str, Choice], usage: Usage) -> None:
        self.request_id = request_id
        self.usage = usage
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


class Front:
    """`await start()` first, then any number of `submit`s from one event loop; `await close()` at the end."""

    def __init__(self, client: EngineClient, text: TextModel, clock: Callable[[], float] | None = None) -> None:
        self.text = text
        self.client = client
        self.created = 0
        self._now = clock or (lambda: 0.0)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lost: str | None = None
        self._by_id: dict[str, tuple[Stream, Choice]] = {}
        self._counter = itertools.count()

    async def start(self) -> None:
        """Start the engine; returns when it can take requests."""
        self._loop = asyncio.get_running_loop()
        loop = self._loop
        await asyncio.to_thread(
            self.client.start,
            lambda outputs: loop.call_soon_threadsafe(self._deliver, outputs),
            lambda reason: loop.call_soon_threadsafe(self._on_lost, reason),
        )

    async def close(self) -> None:
        """Stop the engine; open streams end with an error."""
        await asyncio.to_thread(self.client.close)
        self._on_lost("the server is shutting down")

    # -- requests ------------------------------------------------------------------------------------------------------------------------

    def submit(self, g: GenerateRequest) -> Stream:
        """Validate and send; returns at once. Raises UserInputError / ContextLengthError / EngineLostError before anything is queued."""
        self._need_engine()
        info = self.model_info
        requests = expand(g, info.context, info.vocabulary, info.stop_ids, self._now())
        taken = [r.request_id for r in requests if r.request_id in self._by_id]
        if taken:
            raise UserInputError(f"request_id: '{taken[0]}' is in use by a running request", "request_id")
        usage = Usage(prompt=len(requests[0].prompt))
        choices = {
            r.request_id: Choice(i, r.seed, g.params, self.text.tokenizer.stream(skip_special=g.params.skip_special_tokens))
            for i, r in enumerate(requests)
        }
        stream = Stream(self, requests[0].request_id, choices, usage)
        if g.grammar is not None:
            for r in requests:
                self.client.compile(r.request_id, g.grammar)
        self.client.send(*(Arrive(r) for r in requests))
        self._by_id.update((rid, (stream, choice)) for rid, choice in choices.items())
        return stream

    def release(self, request_id: str) -> None:
        """A held request is no longer needed as a fork point."""
        self.client.send(Release(request_id))

    def _cancel(self, stream: Stream) -> None:
        running = [rid for rid, choice in stream._choices.items() if self._by_id.pop(rid, None) is not None and not choice.done]
        for choice in stream._choices.values():
            choice.done = True
        if running and self._lost is None:
            self.client.send(*(Cancel(rid) for rid in running))
        stream._push(None)

    def _deliver(self, outputs: list[Output]) -> None:
        """On the event loop, once per step: fan out."""
        stops: list[Cancel] = []
        for out in outputs:
            entry = self._by_id.get(out.request_id)
            if entry is None:                                        # cancelled while the step ran
                continue
            stream, choice = entry
            if choice.index == 0 and (out.cached_tokens or out.computed_tokens):
                stream.usage.cached = out.cached_tokens
            if out.finish == "error":
                self._fail(stream, failure(out))
                continue
            delta, stop = choice.feed(out, stream.usage)
            if stop:
                stops.append(Cancel(out.request_id))
            if choice.done:
                del self._by_id[out.request_id]
            if delta is not None:
                stream._push(delta)
        if stops and self._lost is None:
            self.client.send(*stops)

    def _fail(self, stream: Stream, error: HeadwaterError) -> None:
        self._cancel(stream)
        stream._push(None, error)

    def _on_lost(self, reason: str) -> None:
        if self._lost is None:
            self._lost = reason
        for stream in {id(s): s for s, _ in self._by_id.values()}.values():
            self._fail(stream, EngineLostError(reason))

    def _need_engine(self) -> None:
        if self._loop is None:
            raise RuntimeError("Front.start() was not awaited")
        if self._lost is not None:
            raise EngineLostError(self._lost)

    # -- facts ---------------------------------------------------------------------------------------------------------------------------

    @property
    def model_info(self) -> ModelInfo:
        i = self.client.info
        return ModelInfo(self.text.name, i.context, i.vocabulary, self.text.stop_ids, self.text.template is not None, i.identity)

    def stats(self) -> EngineStats:
        return self.client.stats()

    def check_health(self) -> None:
        """Raises EngineLostError with the reason when no request can be served."""
        if self._lost is not None:
            raise EngineLostError(self._lost)

    # -- text ----------------------------------------------------------------------------------------------------------------------------

    def render_chat(self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]] | None = None, **names: Any) -> list[int]:
        """See `TextModel.render_chat`."""
        return self.text.render_chat(messages, tools, **names)

    def tokenize(self, text: str, *, add_special: bool = True) -> list[int]:
        return self.text.tokenizer.encode(text, add_special=add_special)

    def detokenize(self, ids: Sequence[int], *, skip_special: bool = False) -> str:
        return self.text.tokenizer.decode(ids, skip_special=skip_special)

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one token, for `logprobs` objects."""
        return self.text.tokenizer.token_bytes(token)
