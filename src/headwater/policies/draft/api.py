"""Room `draft`: which tokens to guess for a row that decodes. A wrong guess costs time, never an answer: the row draws for itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np


@dataclass(slots=True)
class Draft:
    """ids: int32[k], the guessed continuation. match: how many tokens of context agreed, the drafter's own measure of confidence (0 = none).

    source: under which name it is counted (`ngram`, `suffix`, `ssr_prefix`, `ssr_suffix`, `forced`, `model`).
    """

    ids: np.ndarray
    match: int = 0
    source: str = "other"


NOTHING = Draft(np.zeros(0, np.int32))


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


@runtime_checkable
class TakesForced(Protocol):
    """A drafter that wants to know what grammars force."""

    def force(self, row: int, ids: np.ndarray) -> None:
        """int32[k]: what must follow the tokens that the row has now; comes behind `extend`."""
