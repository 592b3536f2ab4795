"""Executor: runs plans somewhere (inline, in a process, simulated). CostModel: the one currency, seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from headwater.core.kvspec import KVSpec
from headwater.core.plan import StepFeatures, StepPlan, StepResult


@dataclass(frozen=True, slots=True)
class Caps:
    """What an executor offers. blocks: per cache group how many blocks exist; slots: recurrent state slots; identity: the numeric options that
    make two states comparable (model hash, kernel signature, KV format), the base of every KV identity (`design.md` 1.7); attend: the policy
    under which generated tokens read only part of the cache, empty = none. What they write is their own: it is never published; private: nor is
    anything else, because what was computed depends on how it was cut into steps."""

    spec: KVSpec
    blocks: tuple[int, ...]
    slots: int
    context: int
    vocabulary: int
    identity: str
    max_step_tokens: int = 8192
    attend: str = ""
    private: bool = False

    @property
    def fingerprint(self) -> str:
        """What the bits of an answer depend on: the identity of exact states, and the policy of generated tokens."""
        return f"{self.identity}/{self.attend}" if self.attend else self.identity


class Executor(Protocol):
    def caps(self) -> Caps: ...

    def submit(self, plan: StepPlan) -> None:
        """Start a step; at most one is in flight."""

    def collect(self, timeout: float | None = None) -> StepResult | None:
        """Wait for the step in flight; None when `timeout` seconds passed first."""

    def close(self) -> None: ...


class CostModel(Protocol):
    def step_seconds(self, f: StepFeatures) -> float:
        """Predicted seconds of a step."""

    def bound_seconds(self, f: StepFeatures) -> float:
        """Seconds that such a step hardly exceeds, by what predictions missed lately; what a budget is held against."""

    def learn(self, f: StepFeatures, seconds: float) -> None:
        """A step with these features took `seconds`."""
