"""The loop: events in, one step, outputs out. No thread of its own; `thread.py` gives it one, `LLM` turns it by hand."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from headwater.core.cost import features
from headwater.core.errors import HeadwaterError
from headwater.core.events import Arrive, Event, MaskReady
from headwater.core.executor import CostModel, Executor
from headwater.core.plan import Ragged, StepFeatures, StepPlan, StepResult, Want
from headwater.core.request import Output
from headwater.engine.client import GRAMMAR_FIELD, DraftSeconds, EngineStats, Grammar
from headwater.engine.clock import Clock, RealClock
from headwater.engine.steplog import StepLog
from headwater.sched.scheduler import Scheduler

CHECK_STEPS = 64                                                    # steps between two looks at the cheap invariants

log = logging.getLogger("headwater.engine")


def without(f: StepFeatures, rows: int) -> StepFeatures:
    """The step without so many of its rows, each with one token."""
    tokens = max(f.tokens - rows, 1)
    return StepFeatures(tokens, max(f.rows - rows, 1), max(f.reads - rows, 1), f.kv_positions * tokens // f.tokens, f.guesses)


class EngineExecutor(Executor, Protocol):
    """An executor that knows requests by name, for grammars and saved states."""

    def add_mask(self, mask: str, matcher: Any) -> None: ...

    def forget(self, request_id: str) -> None:
        """The request is over; drop its grammar and transfers."""


class Engine:
    """Joins a scheduler and an executor. Events may be posted from any thread; everything else belongs to the thread that calls `run_once`."""

    def __init__(
        self,
        scheduler: Scheduler,
        executor: EngineExecutor,
        cost: CostModel | None = None,
        clock: Clock | None = None,
        log: StepLog | None = None,
        compile_grammar: Callable[[Grammar], Any] | None = None,
    ) -> None:
        self.scheduler = scheduler
        self.executor = executor
        self.clock = clock or RealClock()
        self.log = log or StepLog()
        self.steps = 0
        self.last_step = 0.0
        self.predicted = 0.0                                        # seconds that the step in flight should take
        self.cost = cost
        self._compile_grammar = compile_grammar
        self._inbox: deque[Event] = deque()
        self._draft_seconds = DraftSeconds()
        self._masked: set[str] = set()                              # requests with a grammar that have not ended

    @property
    def inbox(self) -> int:
        return len(self._inbox)

    def post(self, *events: Event) -> None:
        """Queue events for the next step border (any thread)."""
        self._inbox.extend(events)

    def run_once(self) -> list[Output] | None:
        """Take the posted events, run one step if there is one. None when there is nothing to do until an event or `wake_at`."""
        now = self.clock.now()
        while self._inbox:
            event = self._inbox.popleft()
            if isinstance(event, Arrive) and event.request.mask is not None:
                self._masked.add(event.request.request_id)
            self.scheduler.on(event, now)
            if isinstance(event, MaskReady) and event.request_id not in self._masked:
                self.executor.forget(event.request_id)              # it ended while its grammar was compiled
        plan = self.scheduler.plan(now)
        outputs = self.scheduler.drain()
        if plan is None:
            self._forget(outputs)
            return outputs or None
        planned = self.clock.now()
        f = features(plan)
        self.predicted = 0.0 if self.cost is None else self.cost.step_seconds(f)
        beside = 0 if self.scheduler.selfdrafts is None else self.scheduler.selfdrafts.running
        result = self._execute(plan)
        ran = self.clock.now()
        outputs += self.scheduler.apply(result, ran)
        if self.steps % CHECK_STEPS == 0:
            for sentence in self.scheduler.check():
                log.error("invariant broken, its rows failed: %s", sentence)
            outputs += self.scheduler.drain()
        seconds = result.seconds or ran - planned
        if self.cost is not None and not result.failed:
            self.cost.learn(f, seconds)
        if beside and self.cost is not None:
            self._draft_seconds.hidden += self.predicted - self.cost.step_seconds(without(f, beside))
        if f.guesses:
            self._price_drafts(f, seconds, result.rollback_seconds)
        self.steps += 1
        self.last_step = self.clock.now()
        accepted = int(np.diff(result.tokens.start).sum()) - int(((plan.want & Want.SAMPLE) != 0).sum()) if f.guesses else 0
        self._forget(outputs)
        self.log.add(plan.step, ran, f, accepted, planned - now, seconds, self.last_step - ran)
        return outputs

    def _price_drafts(self, f: StepFeatures, seconds: float, rollback: float) -> None:
        spent = self._draft_seconds
        spent.verify += seconds
        spent.rollback += rollback
        if self.cost is not None:
            context = f.kv_positions * (f.tokens - f.guesses) // f.tokens
            spent.plain += self.cost.step_seconds(StepFeatures(f.tokens - f.guesses, f.rows, f.reads - f.guesses, context, 0, f.kv_held))

    def _execute(self, plan: StepPlan) -> StepResult:
        """A step that raises fails its rows, each with the reason; the engine goes on."""
        try:
            self.executor.submit(plan)
            result = self.executor.collect()
            assert result is not None
            return result
        except Exception as e:
            log.exception("step %d of %d rows failed", plan.step, len(plan.rows))
            nothing = Ragged.of([np.zeros(0, np.int32)] * len(plan.rows))
            reason = f"the step failed: {type(e).__name__}: {e}"
            return StepResult(plan.step, nothing, np.zeros(len(plan.rows), np.int32), failed=dict.fromkeys(range(len(plan.rows)), reason))

    def stats(self) -> EngineStats:
        """A snapshot, safe from any thread (numbers may be one step old)."""
        s, nodes = self.scheduler, self.scheduler.kv.nodes
        c, total = s.counters, max(nodes.total, 1)
        own = 0 if s.selfdrafts is None else s.selfdrafts.drawn
        return EngineStats(
            running=s.running, waiting=s.waiting, kv_usage=1.0 - (nodes.n_free + nodes.n_cached) / total, kv_cached=nodes.n_cached / total,
            steps=self.steps, queue=len(self._inbox), prompt_tokens=c.computed + c.cached, generated_tokens=c.drawn - own, cached_tokens=c.cached,
            preemptions=c.preempted, step_seconds=self.predicted, drafts=None if s.guesser is None else s.guesser.counts.copy(),
            draft_seconds=replace(self._draft_seconds),
        )

    def _forget(self, outputs: list[Output]) -> None:
        for out in outputs:
            if out.finish is not None:
                self._masked.discard(out.request_id)
                self.executor.forget(out.request_id)

    def add_grammar(self, mask: str, grammar: Grammar) -> str | None:
        """Compile (any thread; slow) and hand the matcher to the executor. -> what is wrong with the grammar, None when nothing is."""
        if self._compile_grammar is None:
            return f"{GRAMMAR_FIELD}: this engine has no grammar support (pip install headwater[grammar])"
        try:
            self.executor.add_mask(mask, self._compile_grammar(grammar))
        except HeadwaterError as e:
            return str(e) if str(e).startswith(GRAMMAR_FIELD) else f"{GRAMMAR_FIELD}: {e}"
        return None

    def wake_at(self) -> float | None:
        return self.scheduler.wake_at()

    def close(self) -> None:
        self.executor.close()
