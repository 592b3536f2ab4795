"""The step log: a ring buffer of what each step cost by and how long it took. Feeds the cost model, the metrics and `headwater sim fit`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from headwater.core.plan import StepFeatures

NAMES = (
    "step", "at", "tokens", "rows", "reads", "kv_positions", "guesses", "kv_held", "accepted", "plan_seconds", "step_seconds", "apply_seconds",
)
RECORD = np.dtype(list(zip(NAMES, ["i8", "f8", "i4", "i4", "i4", "i8", "i4", "i8", "i4", "f8", "f8", "f8"], strict=True)))


class StepLog:
    """The last `size` steps. `records()` gives them oldest first as an array of RECORD (seconds; kv_positions summed over new tokens)."""

    def __init__(self, size: int = 4096) -> None:
        self._ring = np.empty(size, RECORD)
        self._ring.fill(0)                                          # its memory is taken now, not while a server has run for an hour
        self.count = 0

    def add(self, step: int, at: float, f: StepFeatures, accepted: int, plan: float, run: float, apply: float) -> None:
        entry = (step, at, f.tokens, f.rows, f.reads, f.kv_positions, f.guesses, f.kv_held, accepted, plan, run, apply)
        self._ring[self.count % len(self._ring)] = entry
        self.count += 1

    def records(self) -> np.ndarray:
        if self.count <= len(self._ring):
            return self._ring[: self.count].copy()
        return np.roll(self._ring, -(self.count % len(self._ring)))

    def save(self, path: Path) -> None:
        """One JSON object per line and step."""
        with path.open("w", encoding="utf-8") as f:
            f.writelines(json.dumps(dict(zip(NAMES, row.tolist(), strict=True))) + "\n" for row in self.records())
