"""Room `draft`: which tokens to guess for a row that decodes. A wrong guess costs time, never an answer: the row draws for itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from headwater.core.registry import require


class Branch(NamedTuple):
    """Another way on: ids int32[k], from the row's next token on, alike with the draft's until it leaves it. share: of what the drafter knows to have
    left the draft at that place, the part that went this way, 0..1."""

    ids: np.ndarray
    share: float


@dataclass(slots=True)
class Draft:
    """ids: int32[k], the guessed continuation; branches beside it, best first. match: how many tokens of context agreed, the drafter's own measure
    of confidence (0 = none).

    source: under which name it is counted (`ngram`, `suffix`, `ssr_prefix`, `ssr_suffix`, `forced`, `model`).
    """

    ids: np.ndarray
    match: int = 0
    source: str = "other"
    branches: tuple[Branch, ...] = ()
    laws: np.ndarray | None = None                                  # float64[k, vocabulary] that ids were drawn from: for rejection sampling


NOTHING = Draft(np.zeros(0, np.int32))


def bounded(name: str, value: int, least: int, most: int = 1 << 30) -> int:
    """A whole number of a drafter. Raises UserInputError naming the bounds."""
    return require("draft", name, value, least <= value <= most, f"from {least:,} to {most:,}")


class Drafter(Protocol):
    """Rows are named by integers that are never reused. All calls are deterministic given the calls before."""

    def begin(self, row: int, tokens: np.ndarray, salt: str) -> None:
        """A row starts to decode; tokens int32[n] are known. Nothing of one salt may serve another."""

    def extend(self, row: int, tokens: np.ndarray) -> None:
        """The row has drawn these tokens."""

    def propose(self, row: int, most: int) -> Draft:
        """At most `most` tokens that may come next."""

    def end(self, row: int) -> None:
        """The row is over; its tokens may serve later rows of the same salt."""


def members(drafter: Drafter | None) -> list[Drafter]:
    """The drafters that a drafter is made of (its field `drafters`), or itself."""
    return [] if drafter is None else list(getattr(drafter, "drafters", [drafter]))


class Fork(NamedTuple):
    """A row that a drafter wants beside another: `prompt` int32[n], of which the first `shared` tokens are those of `row`; it draws at most `most`
    tokens, greedily. key: names it in `adopt` and `offer`."""

    key: int
    row: int
    prompt: np.ndarray
    shared: int
    most: int


class SmallModel(Protocol):
    """A model that drafts."""

    def __call__(self, tokens: np.ndarray, most: int, salt: str) -> np.ndarray:
        """int32[n] tokens -> int32[≤ most], their greedy continuation."""

    def sample(self, tokens: np.ndarray, most: int, salt: str, temperature: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """-> (int32[k ≤ most] drawn one behind the other, float64[k, vocabulary] that each was drawn from)."""


@runtime_checkable
class NeedsModel(Protocol):
    """A drafter that asks another model. file: which, as for `--model`."""

    file: str

    def attach(self, model: SmallModel) -> None:
        """Who computes; before the first row."""


@runtime_checkable
class Forks(Protocol):
    """A drafter that lets the model itself draft, in rows forked from those it drafts for. guarded: only while that pays."""

    guarded: bool

    def mark(self, start: tuple[int, ...], end: tuple[int, ...]) -> None:
        """Ids of the model's markers around thinking; before the first row."""

    def adopt(self, row: int, key: int) -> None:
        """The row that has just begun is fork `key`."""

    def forks(self) -> tuple[list[Fork], list[int]]:
        """(forks to start, keys of forks that need not go on), since the last call."""

    def offer(self, key: int, ids: np.ndarray) -> None:
        """int32[k]: fork `key` has drawn these."""

    def points(self, row: int) -> list[int]:
        """Positions behind which the row will be forked, as far as known: worth a checkpoint."""


@runtime_checkable
class TakesForced(Protocol):
    """A drafter that wants to know what grammars force."""

    def force(self, row: int, ids: np.ndarray) -> None:
        """int32[k]: what must follow the tokens that the row has now; comes behind `extend`."""


@runtime_checkable
class TakesSampling(Protocol):
    """A drafter that draws as its row does."""

    def sampling(self, row: int, temperature: float, seed: int) -> None:
        """How the row is drawn (temperature 0 = greedily); comes behind `begin`."""
