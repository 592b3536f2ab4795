"""Faults from a seed: what goes wrong, when, decided by one generator so that a seed replays exactly."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from headwater.core.plan import Ragged, StepResult


@dataclass(slots=True)
class Faults:
    """Probabilities per step (row errors per row and step). Nothing happens after `until` seconds of virtual time.

    row_error: executor fails one row. executor_lost: the executor dies with the step in flight. reservation: a reservation of blocks fails.
    clock_jump: time jumps by up to `jump` seconds, backwards too. slow: a step takes up to 100 times longer.
    """

    rng: np.random.Generator
    row_error: float = 0.0
    executor_lost: float = 0.0
    reservation: float = 0.0
    clock_jump: float = 0.0
    slow: float = 0.0
    jump: float = 30.0
    until: float = np.inf
    counts: dict[str, int] = field(default_factory=dict)

    def _happens(self, kind: str, probability: float, now: float) -> bool:
        if now >= self.until or probability <= 0 or self.rng.random() >= probability:
            return False
        self.counts[kind] = self.counts.get(kind, 0) + 1
        return True

    def denies(self, now: float) -> bool:
        return self._happens("reservation", self.reservation, now)

    def loses_executor(self, now: float) -> bool:
        return self._happens("executor_lost", self.executor_lost, now)

    def stretch(self, seconds: float, now: float) -> float:
        """What the step really takes."""
        return seconds * float(self.rng.uniform(2, 100)) if self._happens("slow", self.slow, now) else seconds

    def leap(self, now: float) -> float:
        """The clock after the step."""
        return max(now + float(self.rng.uniform(-0.2, 1.0)) * self.jump, 0.0) if self._happens("clock_jump", self.clock_jump, now) else now

    def spoil(self, result: StepResult, now: float) -> StepResult:
        """Fail single rows of a result."""
        bad = [i for i in range(len(result.n_ok)) if self._happens("row_error", self.row_error, now)]
        if not bad:
            return result
        none = np.zeros(0, np.int32)
        parts = [none if i in bad else result.tokens.row(i) for i in range(len(result.n_ok))]
        n_ok = result.n_ok.copy()
        n_ok[bad] = 0
        return StepResult(result.step, Ragged.of(parts), n_ok, {i: r for i, r in result.reads.items() if i not in bad},
                          {i: r for i, r in result.logprobs.items() if i not in bad}, dict.fromkeys(bad, "injected row error"), result.seconds)
