"""Room `sched`: who is admitted, who is next, how many tokens, who steps aside.

A resident may make things slower or less fair; it can never corrupt an answer: the scheduler clamps every number it gets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from headwater.core.registry import require


@dataclass(frozen=True, slots=True)
class RequestView:
    """A request that asks to be admitted. Lengths in tokens, times in seconds on the scheduler's clock."""

    prompt_len: int
    max_new: int
    priority: int
    owner: str
    deadline: float | None


@dataclass(frozen=True, slots=True)
class LoadView:
    """How busy the engine is. waiting/running/decoding: requests; waiting_tokens: prompt tokens in the queue;
    prefill_rate: tokens per second the cost model predicts for a full chunk."""

    waiting: int
    running: int
    decoding: int
    waiting_tokens: int
    free_share: float
    prefill_rate: float


@dataclass(frozen=True, slots=True)
class RowsView:
    """Columns of the rows to judge, one entry per row; read only.

    arrival float64 seconds; priority int32 (lower first); owner int32 code of the owner; prompt_len, known (tokens it should have),
    done (tokens whose state is valid), max_new int32; order int64 (arrival order); running bool.
    """

    arrival: np.ndarray
    priority: np.ndarray
    owner: np.ndarray
    prompt_len: np.ndarray
    known: np.ndarray
    done: np.ndarray
    max_new: np.ndarray
    order: np.ndarray
    running: np.ndarray

    def __len__(self) -> int:
        return len(self.order)


@dataclass(frozen=True, slots=True)
class Budget:
    """What one step may hold: tokens, rows, and seconds by the cost model."""

    tokens: int
    rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Admit:
    """take, or refuse with a reason and the seconds after which a retry makes sense. Never a silent cut of the prompt."""

    verdict: Literal["take", "refuse"] = "take"
    reason: str = ""
    retry_after: float = 1.0


TAKE = Admit()


@dataclass(slots=True)
class SchedPolicy:
    """Arrival order, the base of the other residents; its fields are everybody's.

    tokens: most tokens in a step. seconds: longest step while somebody decodes (bounds the gap between two tokens of a stream).
    idle_seconds: the same while nobody decodes. rows: most rows in a step. queue: most waiting requests.
    """

    tokens: int = 2048
    seconds: float = 0.2
    idle_seconds: float = 1.0
    rows: int = 256
    queue: int = 10_000

    def __post_init__(self) -> None:
        for name, least in (("tokens", 1), ("rows", 1), ("queue", 0)):
            require("sched", name, getattr(self, name), getattr(self, name) >= least, f"at least {least}")
        for name in ("seconds", "idle_seconds"):
            require("sched", name, getattr(self, name), 0 < getattr(self, name) < math.inf, "a finite number above 0")

    def admit(self, request: RequestView, load: LoadView, now: float) -> Admit:
        """Take the request into the queue, or refuse it by load."""
        if load.waiting < self.queue:
            return TAKE
        wait = load.waiting_tokens / max(load.prefill_rate, 1.0)
        return Admit("refuse", f"the queue is full ({load.waiting} requests wait)", retry_after=float(min(max(wait, 1.0), 600.0)))

    def rank(self, rows: RowsView, now: float) -> np.ndarray:
        """Return float64[len(rows)]; small runs first, ties in arrival order."""
        return rows.order.astype(np.float64)

    def budget(self, load: LoadView, now: float) -> Budget:
        """What the next step may hold."""
        return Budget(self.tokens, self.rows, self.seconds if load.decoding else self.idle_seconds)

    def chunk(self, pending: int, left: int, others: int) -> int:
        """How many of a prompt's `pending` tokens to compute now, `left` tokens being free in the step and `others` prompts ranking behind it."""
        return min(pending, left)

    def victim(self, rows: RowsView, now: float) -> np.ndarray:
        """Return float64[len(rows)]; the largest steps aside first when blocks run out."""
        return self.rank(rows, now)

    def ran(self, owner: np.ndarray, computed: np.ndarray, drawn: np.ndarray) -> None:
        """After each step: per row the owner code, the prompt tokens computed and the tokens drawn. For residents that count service."""
