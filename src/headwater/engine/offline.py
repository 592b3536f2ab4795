"""The synchronous front: turn the engine by hand until a batch of requests is done. `LLM` is built on it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from headwater.core.errors import UserInputError
from headwater.core.events import Arrive, Cancel, MaskReady, Release
from headwater.core.params import SamplingParams
from headwater.core.request import FinishReason, Output, ReadResult, Request, TokenLogprobs
from headwater.engine.choice import Choice, Delta, Usage
from headwater.engine.expand import GenerateRequest, expand, failure
from headwater.engine.text import TextModel

if TYPE_CHECKING:
    from headwater.engine.engine import Engine


@dataclass(slots=True)
class Finished:
    """All of one choice: the joined deltas."""

    index: int
    seed: int
    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprobs] | None = None
    finish_reason: FinishReason | None = None
    stop_reason: int | str | None = None
    reads: ReadResult = field(default_factory=ReadResult)

    def add(self, d: Delta) -> None:
        self.text += d.text
        self.token_ids += d.token_ids
        if d.logprobs is not None:
            self.logprobs = (self.logprobs or []) + d.logprobs
        if d.finish_reason is not None:
            self.finish_reason, self.stop_reason = d.finish_reason, d.stop_reason
        if d.reads is not None:
            self.reads = join_reads(self.reads, d.reads)


def join_reads(a: ReadResult, b: ReadResult) -> ReadResult:
    """Reads of a prompt that was computed in several steps, in order."""
    hidden = [h for h in (a.hidden, b.hidden) if h is not None]
    return ReadResult(
        labels=a.labels if b.labels is None else b.labels, lse=a.lse if b.lse is None else b.lse, prompt=a.prompt + b.prompt,
        hidden=np.concatenate(hidden) if hidden else None,
    )


@dataclass(slots=True)
class Answer:
    """What a GenerateRequest brought. choices in index order."""

    request_id: str
    prompt: np.ndarray
    usage: Usage
    choices: list[Finished]


@dataclass(slots=True)
class _Running:
    request: Request
    choice: Choice
    done: Finished
    answer: Answer


class Offline:
    """`run` blocks until every request finished; calls of several threads run one after the other. Held requests stay until `release`."""

    def __init__(self, engine: Engine, text: TextModel) -> None:
        self.engine = engine
        self.text = text
        self._running: dict[str, _Running] = {}
        self._closed = False
        self._freed = False
        self._turns = threading.Lock()                              # held by the thread that turns the engine
        self._turning = 0                                           # which one, 0 = none

    def close(self) -> None:
        """Free the model's memory; what is asked from now on is refused. A `run` under way ends with UserInputError after its step."""
        self._closed = True
        if self._turning != threading.get_ident():                  # from on_delta: freed when its run has ended
            with self._turns:
                self._free()

    def _free(self) -> None:
        if not self._freed:
            self._freed = True
            self.engine.close()

    def check_open(self) -> None:
        """Raises UserInputError once closed."""
        if self._closed:
            raise UserInputError("LLM: is closed", "model")

    @contextlib.contextmanager
    def _turn_of(self) -> Iterator[None]:
        """Raises UserInputError where this thread turns the engine already, and once closed."""
        if self._turning == threading.get_ident():
            raise UserInputError("on_delta: the LLM that is generating cannot be asked again from here; do it when generate has returned", "on_delta")
        with self._turns:
            self.check_open()
            self._turning = threading.get_ident()
            try:
                yield
            finally:
                self._turning = 0
                if self._closed:
                    self._free()

    def run(self, wants: Sequence[GenerateRequest], on_delta: Callable[[int, Delta], None] | None = None) -> list[Answer]:
        """Answers in the order of `wants`. on_delta gets (index of the request, delta) as they come.

        Raises UserInputError once closed, and the first request's error after cancelling the others; KeyboardInterrupt cancels all and passes on.
        """
        with self._turn_of():
            return self._run(wants, on_delta)

    def _run(self, wants: Sequence[GenerateRequest], on_delta: Callable[[int, Delta], None] | None) -> list[Answer]:
        caps = self.engine.executor.caps()
        now, text = self.engine.clock.now(), self.text
        expanded = [expand(g, caps.context, caps.vocabulary, text.stop_ids, now, generates=text.generates) for g in wants]
        answers, index = [], {}
        for n, (g, requests) in enumerate(zip(wants, expanded, strict=True)):
            answer = Answer(requests[0].request_id, requests[0].prompt, Usage(prompt=len(requests[0].prompt)), [])
            answers.append(answer)
            index[id(answer)] = n
            for i, r in enumerate(requests):
                done = Finished(i, r.seed)
                answer.choices.append(done)
                self._running[r.request_id] = _Running(r, Choice(i, r.seed, g.params, self.text.stream(g.params.skip_special_tokens)), done, answer)
                self.engine.post(Arrive(r))
                if g.grammar is not None:
                    self.engine.post(MaskReady(r.request_id, self.engine.add_grammar(r.request_id, g.grammar)))
        try:
            while self._running:
                self._turn(lambda answer, delta: on_delta(index[id(answer)], delta) if on_delta else None)
                self.check_open()
        except BaseException:
            self._abandon()
            raise
        return answers

    def _turn(self, tell: Callable[[Answer, Delta], None]) -> None:
        outputs = self.engine.run_once()
        if outputs is None:
            at = self.engine.wake_at()
            if at is None:
                raise RuntimeError(f"the engine is idle but {len(self._running)} requests are unfinished (first: {next(iter(self._running))})")
            time.sleep(max(0.0, at - self.engine.clock.now()))
        for out in outputs or ():
            self._take(out, tell)

    def _take(self, out: Output, tell: Callable[[Answer, Delta], None]) -> None:
        run = self._running.get(out.request_id)
        if run is None:
            return
        if out.finish == "error":
            raise failure(out)
        if run.choice.index == 0 and out.cached_tokens:
            run.answer.usage.cached = out.cached_tokens
        delta, stop = run.choice.feed(out, run.answer.usage)
        if stop:
            self.engine.post(Cancel(out.request_id))
        if run.choice.done:
            del self._running[out.request_id]
        if delta is not None:
            run.done.add(delta)
            tell(run.answer, delta)

    def _abandon(self) -> None:
        """Cancel what runs and let the engine settle, so that the next call starts clean."""
        ids = list(self._running)
        self._running.clear()
        self.engine.post(*(Cancel(i) for i in ids), *(Release(i) for i in ids))
        while self.engine.run_once() is not None:
            pass

    def release(self, request_id: str) -> None:
        """A held request is no longer needed."""
        if self._closed:
            return
        self.engine.post(Release(request_id))
        if self._turns.acquire(blocking=False):                     # else whoever turns the engine takes it
            try:
                while not self._closed and self.engine.run_once() is not None:
                    pass
            finally:
                self._turns.release()

    def hold(self, prompt: Sequence[int] | np.ndarray, parent: str | None = None, parent_pos: int = 0) -> str:
        """Compute the state of `prompt` and keep it; -> the request id to fork from."""
        want = GenerateRequest(prompt, SamplingParams(), read_only=True, hold=True, parent=parent, parent_pos=parent_pos)
        return self.run([want])[0].request_id
