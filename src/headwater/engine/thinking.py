"""Thinking apart from the answer, as a matcher: a budget of thinking tokens, the text that closes it, and a grammar that begins behind it.

A budget is a mask like any other: behind the last token of the budget exactly one id is allowed at each place, until the closing text stands there.
So drafts, forks, seeds and log-probabilities need to know nothing of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

CLOSING = "\nI have thought long enough; I answer with what I have.\n"   # budget forcing: stands before the end marker
EFFORTS = {"minimal": 256, "low": 1024, "medium": 4096}              # tokens of thinking; other efforts have no budget


@dataclass(frozen=True, slots=True)
class Thinking:
    """How a request thinks. All in token ids.

    end: the marker behind which the answer begins. budget: most tokens before `closing` is forced, counted from the first drawn one (None = no
    bound). closing: what is forced then; ends with `end`. start: what opens the thinking, () where the prompt has opened it: an output that begins
    otherwise does not think, and has no budget. withheld: ids that may not be drawn while thinking (ends of turn, for models without markers).
    """

    end: tuple[int, ...]
    budget: int | None = None
    closing: tuple[int, ...] = ()
    start: tuple[int, ...] = ()
    withheld: frozenset[int] = frozenset()


class Inner(Protocol):
    """The matcher of `text.grammar`."""

    def accept(self, ids: list[int]) -> int: ...

    def rollback(self, n: int) -> None: ...

    def fill(self, bits: np.ndarray, row: int) -> None: ...

    def forced(self) -> Sequence[int]: ...


class AnyText:
    """A matcher that allows everything."""

    def accept(self, ids: list[int]) -> int:
        return len(ids)

    def rollback(self, n: int) -> None:
        """Nothing is remembered."""

    def fill(self, bits: np.ndarray, row: int) -> None:
        bits[row] = 0xFFFFFFFF

    def forced(self) -> Sequence[int]:
        return ()


class AfterThinking:
    """Wraps `inner`, which decides behind the end of thinking."""

    def __init__(self, inner: Inner, thinking: Thinking) -> None:
        self._inner, self._t = inner, thinking
        self._ids: list[int] = []                                   # accepted while thinking, markers included
        self._over = False
        self._inside = 0                                            # accepted by `inner`

    def accept(self, ids: np.ndarray) -> int:
        """Advance; returns how many ids were legal."""
        tokens = [int(t) for t in ids]
        for taken, token in enumerate(tokens):
            if self._over:
                n = self._inner.accept(tokens[taken:])
                self._inside += n
                return taken + n
            forced = self._must()
            if token != forced[0] if forced else token in self._t.withheld:
                return taken
            self._ids.append(token)
            self._over = self._ended()
        return len(tokens)

    def rollback(self, n: int) -> None:
        """Take back the last n accepted tokens, over the border too."""
        back = min(n, self._inside)
        if back:
            self._inner.rollback(back)
            self._inside -= back
        if n > back:
            del self._ids[len(self._ids) - (n - back) :]
            self._over = False                                      # the border was crossed by the last of `_ids`

    def fill(self, bits: np.ndarray, row: int) -> None:
        """All tokens while thinking, but those withheld; the closing text, id by id, when the budget is used up."""
        if self._over:
            self._inner.fill(bits, row)
            return
        forced = self._must()
        bits[row] = 0 if forced else 0xFFFFFFFF
        if forced:
            bits[row, forced[0] >> 5] = np.uint32(1 << (forced[0] & 31))
        for token in () if forced else self._t.withheld:
            bits[row, token >> 5] &= np.uint32(0xFFFFFFFF ^ (1 << (token & 31)))

    def forced(self) -> Sequence[int]:
        """The rest of the closing text once the budget is used up; behind the thinking what the grammar forces."""
        return self._inner.forced() if self._over else self._must()

    def _must(self) -> tuple[int, ...]:
        """What is left of the closing text, () while the budget lasts."""
        used = len(self._ids)
        if self._t.budget is None or used < self._t.budget:
            return ()
        return self._t.closing[used - self._t.budget :]

    def _ended(self) -> bool:
        ids, t = self._ids, self._t
        if len(ids) >= len(t.end) and tuple(ids[len(ids) - len(t.end) :]) == t.end:
            return True
        return isinstance(self._inner, AnyText) and tuple(ids[: len(t.start)]) != t.start[: len(ids)]   # it does not think at all
