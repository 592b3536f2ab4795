"""Token history for drafting: what followed the same tokens before. Native where it can be had; the definition in Python below."""

from __future__ import annotations

from typing import Any

import numpy as np

from headwater.kernels import native

ANCHOR = 3                        # shortest match in tokens
LONGEST = 64                      # longest match that counts
LINKS = 32                        # newest occurrences of the anchor that are looked at


class TokenHistory:
    """Sequences of ids in a ring of at least `capacity` tokens; the oldest leave when it is full. No match crosses a sequence's beginning."""

    def __init__(self, capacity: int) -> None:
        self._impl: Any = native.library().TokenHistory(capacity) if native.available() else ReferenceHistory(capacity)

    def begin(self) -> None:
        """Start a new sequence."""
        self._impl.begin()

    def extend(self, ids: np.ndarray) -> None:
        """More tokens of the newest sequence; ids int32[n], not negative."""
        self._impl.extend(ids)

    def find(self, tail: np.ndarray, most: int) -> tuple[np.ndarray, int]:
        """-> (int32[≤ most] that followed, how many tokens agreed). The longest agreement (ANCHOR to LONGEST) with the end of `tail` among the
        LINKS newest occurrences of its last ANCHOR tokens that something follows; of equally long ones the newest."""
        out = np.empty(most, np.int32)
        match, length = self._impl.find(tail[-LONGEST:], out)
        return out[:length], match

    def occurrences(self, tail: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
        """-> (int32[k, most], what followed each of the occurrences that `find` looks at, newest first, padded with -1; int32[k], how many tokens
        agreed there). Something follows each."""
        out, matches = np.empty((LINKS, most), np.int32), np.empty(LINKS, np.int32)
        n = self._impl.occurrences(tail[-LONGEST:], out, matches)
        return out[:n], matches[:n]

    @property
    def size(self) -> int:
        return int(self._impl.size)

    @property
    def bytes(self) -> int:
        return int(self._impl.bytes)


class ReferenceHistory:
    """The definition: the same answers as the native one, in plain Python."""

    def __init__(self, capacity: int) -> None:
        size = 64
        while size < capacity:
            size *= 2
        self._capacity = size
        self._tokens: list[int] = []                                # position - base
        self._places: dict[tuple[int, ...], list[int]] = {}
        self._end = self._start = 0

    @property
    def _first(self) -> int:
        return max(0, self._end - self._capacity)

    def begin(self) -> None:
        if self._end > self._start:
            self._tokens.append(-1)
            self._end += 1
            self._start = self._end

    def extend(self, ids: np.ndarray) -> None:
        for token in ids.tolist():
            self._tokens.append(token)
            self._end += 1
            if self._end - max(self._start, self._first) >= ANCHOR:
                self._places.setdefault(tuple(self._tokens[-ANCHOR:]), []).append(self._end - 1)

    def find(self, tail: np.ndarray, out: np.ndarray) -> tuple[int, int]:
        found = self._matches(tail.tolist()) if len(out) else []
        at, match = max(found, key=lambda f: f[1], default=(-1, 0))     # of equal ones the first is the newest
        return match, self._copy(at, out) if at >= 0 else 0

    def occurrences(self, tail: np.ndarray, out: np.ndarray, matches: np.ndarray) -> int:
        found = self._matches(tail.tolist())
        for i, (at, match) in enumerate(found):
            out[i, self._copy(at, out[i]) :] = -1
            matches[i] = match
        return len(found)

    def _matches(self, t: list[int]) -> list[tuple[int, int]]:
        """(position behind it, tokens that agree) of each occurrence that something follows, newest first."""
        found = []
        for p in reversed(self._places.get(tuple(t[-ANCHOR:]), ())[-LINKS:]) if len(t) >= ANCHOR else ():
            if p - ANCHOR + 1 < self._first:
                break
            match = 0
            while match < len(t) and p - match >= self._first and self._tokens[p - match] == t[-1 - match]:
                match += 1
            if p + 1 < self._end and self._tokens[p + 1] >= 0:
                found.append((p + 1, match))
        return found

    def _copy(self, at: int, out: np.ndarray) -> int:
        n = 0
        while n < len(out) and at + n < self._end and self._tokens[at + n] >= 0:
            out[n] = self._tokens[at + n]
            n += 1
        return n

    @property
    def size(self) -> int:
        return self._end - self._first

    @property
    def bytes(self) -> int:
        return 4 * len(self._tokens)
