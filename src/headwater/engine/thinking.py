"""A grammar that begins behind the model's thinking: everything is allowed until one token id, then the inner matcher decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np


class Inner(Protocol):
    """The matcher of `text.grammar`."""

    def accept(self, ids: list[int]) -> int: ...

    def rollback(self, n: int) -> None: ...

    def fill(self, bits: np.ndarray, row: int) -> None: ...

    def forced(self) -> Sequence[int]: ...


class AfterToken:
    """Wraps `inner`; `after` is the end-of-thinking id. free: tokens accepted up to and including it; inside: tokens behind it."""

    def __init__(self, inner: Inner, after: int) -> None:
        self._inner, self._after = inner, after
        self._free, self._inside, self._begun = 0, 0, False

    def accept(self, ids: np.ndarray) -> int:
        """Advance; returns how many ids were legal."""
        tokens = [int(t) for t in ids]
        taken = 0
        if not self._begun:
            taken = tokens.index(self._after) + 1 if self._after in tokens else len(tokens)
            self._begun = self._after in tokens
            self._free += taken
        if self._begun and taken < len(tokens):
            n = self._inner.accept(tokens[taken:])
            self._inside += n
            taken += n
        return taken

    def rollback(self, n: int) -> None:
        """Take back the last n accepted tokens, over the border too."""
        back = min(n, self._inside)
        if back:
            self._inner.rollback(back)
            self._inside -= back
        if n > back:
            self._free -= n - back
            self._begun = False

    def fill(self, bits: np.ndarray, row: int) -> None:
        """All tokens while thinking."""
        if self._begun:
            self._inner.fill(bits, row)
        else:
            bits[row] = 0xFFFFFFFF

    def forced(self) -> Sequence[int]:
        """Nothing while thinking."""
        return self._inner.forced() if self._begun else ()
