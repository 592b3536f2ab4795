"""The event loop over virtual time: the engine's loop with a clock that jumps from event to event and steps that take what a cost model says."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from headwater.core.cost import features
from headwater.core.events import Event, ExecutorLost
from headwater.core.executor import CostModel, Executor
from headwater.core.plan import StepPlan
from headwater.core.request import Output
from headwater.sched.scheduler import Scheduler
from headwater.sim.faults import Faults


class Stalled(AssertionError):
    """Work is left, but neither a step nor an event can come."""


@dataclass(slots=True)
class Loop:
    """scheduler: the real one. executor: gives tokens. truth: what steps cost; `overhead` (seconds per step, per row) is the engine's own share.

    observe: called with each output and its time. learn: the scheduler's cost model, fed like in the real engine. check: None, 'cheap' or 'full'
    invariants after every step; a violation raises AssertionError. revive: makes the executor after a loss.
    feed: further events in order of time, pulled one by one as virtual time passes (a long trace is never in memory at once).
    """

    scheduler: Scheduler
    executor: Executor
    truth: CostModel
    observe: Callable[[Output, float], None]
    learn: CostModel | None = None
    faults: Faults | None = None
    check: str | None = None
    revive: Callable[[], Executor] | None = None
    overhead: tuple[float, float] = (0.0, 0.0)
    now: float = 0.0
    steps: int = 0
    busy: float = 0.0
    feed: Iterator[tuple[float, Event]] = field(default_factory=lambda: iter(()))
    _events: list[tuple[float, int, Event]] = field(default_factory=list)
    _pushed: int = 0
    _fed: bool = False
    _fed_at: int = -1

    def at(self, time: float, event: Event) -> None:
        """Deliver an event at a time (ties in the order of these calls)."""
        heapq.heappush(self._events, (time, self._pushed, event))
        self._pushed += 1

    def run(self, most_steps: int | None = None) -> None:
        """Until nothing is left to do."""
        if self.faults is not None:
            faults = self.faults
            self.scheduler.kv.denies = lambda: faults.denies(self.now)
        while most_steps is None or self.steps < most_steps:
            self._deliver(self.now)
            plan = self.scheduler.plan(self.now)
            self._emit(self.scheduler.drain())
            if plan is not None:
                self._step(plan)
            elif self._events or self.scheduler.wake_at() is not None:
                times = [t for t in (self._events[0][0] if self._events else None, self.scheduler.wake_at()) if t is not None]
                self.now = max(self.now, min(times))
            elif self.scheduler.idle:
                return
            elif not self._refused():
                raise Stalled(f"{self.scheduler.waiting} requests wait, {self.scheduler.running} run, and nothing can happen")

    def _refused(self) -> bool:
        """Whether planning again makes progress by refusing somebody (a request that does not fit beside held states)."""
        before = self.scheduler.waiting + self.scheduler.running
        plan = self.scheduler.plan(self.now)
        self._emit(self.scheduler.drain())
        if plan is not None:
            self._step(plan)
            return True
        return self.scheduler.waiting + self.scheduler.running < before or self.scheduler.idle

    def _step(self, plan: StepPlan) -> None:
        f = features(plan)
        own = self.overhead[0] + self.overhead[1] * f.rows
        seconds = self.truth.step_seconds(f)
        if self.faults is not None:
            seconds = self.faults.stretch(seconds, self.now)
        self.executor.submit(plan)
        end = self.now + seconds + own
        self._deliver(end)
        self.steps += 1
        self.busy += seconds + own
        self.now = max(self.now, end)
        if self.faults is not None and self.revive is not None and self.faults.loses_executor(self.now):
            self.executor = self.revive()
            self.scheduler.on(ExecutorLost("the executor died"), self.now)
        else:
            result = self.executor.collect()
            assert result is not None
            result.seconds = seconds
            if self.faults is not None:
                result = self.faults.spoil(result, self.now)
            self._emit(self.scheduler.apply(result, self.now))
            if self.learn is not None:
                self.learn.learn(f, result.seconds)
        if self.faults is not None:
            self.now = self.faults.leap(self.now)
        if self.check is not None:
            broken = self.scheduler.check(full=self.check == "full")
            assert not broken, f"step {self.steps}: " + "; ".join(broken)

    def _pull(self) -> None:
        """One event of the feed waits with the others."""
        if not self._fed:
            found = next(self.feed, None)
            self._fed = found is not None
            if found is not None:
                self.at(*found)
                self._fed_at = self._pushed - 1

    def _deliver(self, until: float) -> None:
        self._pull()
        while self._events and self._events[0][0] <= until:
            time, number, event = heapq.heappop(self._events)
            self.scheduler.on(event, max(time, self.now))
            if number == self._fed_at:
                self._fed = False
                self._pull()

    def _emit(self, outputs: list[Output]) -> None:
        for output in outputs:
            self.observe(output, self.now)
