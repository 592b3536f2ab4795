"""Costs as a machine showed them: a fitted line, and what measured steps took beside it, drawn again for virtual steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from headwater.core.errors import UserInputError
from headwater.core.plan import StepFeatures
from headwater.sim.fit import FEATURES, LEAST_STEPS, Fit, fit

_STRETCH = 100                    # virtual steps that take consecutive measured ratios
_IDLE = 5e-3                      # seconds without a step after which the machine counts as idle
_WARM = 0.3                       # seconds of work after which a processor that idled is at its speed again

Kind = tuple[int, bool]


def kind(tokens: int, warm: bool = True) -> Kind:
    """Steps are of one kind per doubling of their tokens, since kernels change with the number of rows and a straight line does not; and of another
    kind in the first moments of work after a pause."""
    return max(tokens - 1, 0).bit_length(), warm


def outside(records: np.ndarray) -> np.ndarray:
    """Seconds between consecutive steps that the engine does not account for: who turns it and takes its outputs, and pauses."""
    own = records["apply_seconds"][:-1] + records["plan_seconds"][1:] + records["step_seconds"][1:]
    return np.diff(records["at"]) - own


@dataclass(slots=True)
class Work:
    """Since when there has been work without a pause."""

    since: float = 0.0
    until: float = float("-inf")

    def warm(self, begin: float, end: float) -> bool:
        """Whether a step from `begin` to `end` comes late enough after the last pause."""
        if begin - self.until > _IDLE:
            self.since = begin
        self.until = end
        return begin - self.since >= _WARM


@dataclass(slots=True)
class Measured:
    """ratios: seconds / prediction of the measured steps of each kind, in order; at: the numbers of these steps; begins: when every step began, from
    the first one on.

    A virtual step takes the ratio of its kind (the nearest that was measured) at a place that moves on with every step and jumps after a stretch (a
    moving block bootstrap, Kuensch 1989): slow steps scatter and come in runs as on the machine, so that queues grow as they did and the scheduler
    under test learns the same caution. aligned: it takes the ratio of its size that was measured nearest to its own time instead: the machine as it
    was in one run. now: virtual seconds since the first request.
    """

    fit: Fit
    ratios: dict[Kind, np.ndarray]
    at: dict[Kind, np.ndarray]
    begins: np.ndarray
    rng: np.random.Generator
    now: Callable[[], float]
    aligned: bool = False
    place: int = 0
    left: int = 0                                                   # steps until the next jump
    work: Work = field(default_factory=Work)

    @classmethod
    def of(cls, records: list[np.ndarray], seed: int = 0, aligned: bool = False) -> Measured:
        """From the log records of runs of an engine. Raises UserInputError where they are too few."""
        r = np.concatenate(records)
        if len(r) < LEAST_STEPS:
            few = f"trace: its requests take {len(r)} steps, {LEAST_STEPS} are needed to measure costs"
            raise UserInputError(f"{few}; more or longer ones would do", "trace")
        steps = [StepFeatures(*x) for x in zip(*(r[n].tolist() for n in FEATURES), strict=True)]
        between = np.concatenate([outside(x) for x in records])
        between = between[(between > 0) & (between < _IDLE)]
        found = fit(steps, r["step_seconds"], r["plan_seconds"] + r["apply_seconds"] + (np.median(between) if len(between) else 0.0))
        ratio = r["step_seconds"] / np.maximum([found.cost.step_seconds(f) for f in steps], 1e-9)
        begins, work = r["at"] - r["step_seconds"], Work()
        kinds = [kind(f.tokens, work.warm(*span) or aligned) for f, *span in zip(steps, begins.tolist(), r["at"].tolist(), strict=True)]
        at: dict[Kind, list[int]] = {}
        for i in np.flatnonzero(ratio < 5).tolist():                # the fit leaves the others out too
            at.setdefault(kinds[i], []).append(i)
        places = {k: np.array(v) for k, v in at.items()}
        return cls(found, {k: ratio[v] for k, v in places.items()}, places, begins - begins[0], np.random.default_rng(seed), lambda: 0.0, aligned)

    def step_seconds(self, f: StepFeatures) -> float:
        """Seconds of the next virtual step, which begins now."""
        now, usual = self.now(), self.fit.cost.step_seconds(f)
        size, warm = kind(f.tokens, self.work.warm(now, now + usual) or self.aligned)
        nearest = min(self.at, key=lambda k: (abs(k[0] - size), k[1] != warm))
        ratios, at = self.ratios[nearest], self.at[nearest]
        if self.aligned:
            which = int(np.abs(self.begins[at] - now).argmin())
        else:
            if not self.left:
                self.left, self.place = _STRETCH, int(self.rng.integers(len(self.begins)))
            which = int(np.searchsorted(at, self.place)) % len(ratios)
            self.left, self.place = self.left - 1, self.place + 1
        seconds = usual * float(ratios[which])
        self.work.until = now + seconds
        return seconds

    def bound_seconds(self, f: StepFeatures) -> float:
        """The fitted line: what was measured is certain."""
        return self.fit.cost.bound_seconds(f)

    def learn(self, f: StepFeatures, seconds: float) -> None:
        """What was measured stays."""
