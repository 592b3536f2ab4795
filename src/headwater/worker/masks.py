"""Grammar masks by name: which tokens a row may draw next. Matchers are made elsewhere (they know text); here they only see ids."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Protocol

import numpy as np


class Matcher(Protocol):
    """State of one sequence in a grammar. `accept` takes ids in order and says how many were legal; `rollback` undoes the last n accepted;
    `fill` writes uint32[ceil(vocabulary / 32)] bits, bit t of the row set where token t may come next. `forced` names tokens that the text
    leaves no choice about: good guesses, no more (a mask may allow another cut of the same text into tokens)."""

    def accept(self, ids: np.ndarray) -> int: ...

    def rollback(self, n: int) -> None: ...

    def fill(self, bits: np.ndarray, row: int) -> None: ...

    def forced(self) -> Sequence[int]: ...


class Masks:
    """Matchers by mask id, each with the count of tokens it has seen behind the prompt. `add` may come from another thread than the rest."""

    def __init__(self, vocabulary: int) -> None:
        self.words = -(-vocabulary // 32)
        self._lock = threading.Lock()
        self._matchers: dict[str, Matcher] = {}
        self._seen: dict[str, int] = {}

    def add(self, mask: str, matcher: Matcher) -> None:
        with self._lock:
            self._matchers[mask] = matcher
            self._seen[mask] = 0

    def drop(self, mask: str) -> None:
        with self._lock:
            self._matchers.pop(mask, None)
            self._seen.pop(mask, None)

    def fill(self, mask: str, drawn: np.ndarray, guesses: np.ndarray, bits: np.ndarray) -> int:
        """Bits for the position behind `drawn` and behind each guess. bits: uint32[1 + guesses, words].

        drawn: all ids behind the prompt; the matcher catches up with those it has not seen (and goes back where a row was preempted).
        Returns how many of the guesses are legal; rows of `bits` beyond them are untouched. Raises ValueError where a drawn id is illegal.
        """
        matcher = self._catch_up(mask, drawn)
        matcher.fill(bits, 0)
        ok = 0
        for k in range(len(guesses)):
            if matcher.accept(guesses[k : k + 1]) < 1:
                break
            ok += 1
            matcher.fill(bits, ok)
        matcher.rollback(ok)
        return ok

    def forced(self, mask: str, drawn: np.ndarray) -> np.ndarray:
        """int32[k]: what must come behind `drawn` (all ids behind the prompt), empty where there is a choice. Raises as `fill`."""
        return np.array(self._catch_up(mask, drawn).forced(), np.int32)

    def _catch_up(self, mask: str, drawn: np.ndarray) -> Matcher:
        matcher = self._matchers[mask]
        seen = self._seen[mask]
        if seen > len(drawn):
            matcher.rollback(seen - len(drawn))
            seen = len(drawn)
        if len(drawn) > seen:
            legal = matcher.accept(drawn[seen:])
            if legal < len(drawn) - seen:
                self._seen[mask] = seen + legal
                raise ValueError(f"grammar: token {int(drawn[seen + legal])} is not legal at output position {seen + legal}")
        self._seen[mask] = len(drawn)
        return matcher
