"""Simulated executors: they draw tokens without a model; what a step costs is the loop's business (`Loop.truth`)."""

from __future__ import annotations

import numpy as np

from headwater.core.executor import Caps
from headwater.core.plan import Ragged, StepPlan, StepResult, Want
from headwater.kv.prefix import mix

_SAMPLE = int(Want.SAMPLE)


class SimExecutor:
    """Answers every plan at once. A token is a hash of (request seed, position): two requests never continue alike by chance.

    first: smallest id drawn, so that stop ids below it never occur and answers end by their length.
    """

    def __init__(self, caps: Caps, first: int = 3) -> None:
        self._caps, self._first = caps, first
        self._seeds = np.zeros(64, np.uint64)
        self._plan: StepPlan | None = None

    def caps(self) -> Caps:
        return self._caps

    def submit(self, plan: StepPlan) -> None:
        for join in plan.joins:
            if join.row >= len(self._seeds):
                self._seeds = np.concatenate([self._seeds, np.zeros(max(len(self._seeds), join.row + 1), np.uint64)])
            self._seeds[join.row] = join.seed % 2**64
        self._plan = plan

    def collect(self, timeout: float | None = None) -> StepResult | None:
        plan, self._plan = self._plan, None
        if plan is None:
            return None
        draws = (plan.want & _SAMPLE) != 0
        start = np.zeros(len(plan.rows) + 1, np.int32)
        np.cumsum(draws, out=start[1:])
        at = (plan.n_done + plan.n_new)[draws].astype(np.uint64)
        raw = mix(self._seeds[plan.rows[draws]] * np.uint64(0xD6E8FEB86659FD93) + at) % np.uint64(self._caps.vocabulary - self._first)
        n_ok = plan.n_new - plan.n_guess                            # no draft is right here; runs with drafts use the toy memory
        return StepResult(plan.step, Ragged(raw.astype(np.int32) + np.int32(self._first), start), n_ok)

    def close(self) -> None:
        self._plan = None
