"""draft/suffix: what followed the longest matching suffix, in this row and in past outputs of the same tenant."""

import math
from dataclasses import dataclass, field

import numpy as np

from headwater.core.registry import register, require
from headwater.kernels.history import LONGEST, TokenHistory
from headwater.policies.draft.api import Branch, Draft, bounded


@dataclass(slots=True)
class _Row:
    salt: str
    local: TokenHistory
    recent: np.ndarray                                              # int32[4 LONGEST]: the newest tokens, its first `filled` places
    filled: int = 0
    drawn: list[np.ndarray] = field(default_factory=list)


@register("draft", "suffix")
@dataclass(slots=True)
class SuffixDraft:
    """Longest suffix match over this row (prompt and output) and over finished outputs; the longer match wins, this row on ties.

    Source: Oliaro et al., "SuffixDecoding" (2411.04975); here the longest match among the newest occurrences instead of a counted tree.
    A long match drafts long: at most `factor` times the matched length plus `offset`. As a tree, the ways on that other occurrences took are drafted
    beside the chain, those that most of them took first.

    history: tokens of past outputs kept per tenant. tenants: how many tenants' histories are kept; the one used longest ago leaves. tree: whether
    branches are drafted; branches: at most so many beside the chain.
    """

    history: int = 1_000_000
    tenants: int = 16
    factor: float = 2.0
    offset: int = 1
    tree: bool = False
    branches: int = 3
    _rows: dict[int, _Row] = field(default_factory=dict, init=False, repr=False)
    _past: dict[str, TokenHistory] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        for name, least in (("history", 1), ("tenants", 1), ("offset", 0), ("branches", 0)):
            bounded(name, getattr(self, name), least)
        require("draft", "factor", self.factor, 0 <= self.factor < math.inf, "a finite number of at least 0")

    def begin(self, row: int, tokens: np.ndarray, salt: str) -> None:
        r = self._rows[row] = _Row(salt, TokenHistory(max(2 * len(tokens), 1024)), np.zeros(4 * LONGEST, np.int32))
        self._grow(r, tokens)

    def extend(self, row: int, tokens: np.ndarray) -> None:
        r = self._rows[row]
        r.drawn.append(tokens)
        self._grow(r, tokens)

    def _grow(self, r: _Row, tokens: np.ndarray) -> None:
        ids = np.ascontiguousarray(tokens, np.int32)
        r.local.extend(ids)
        if r.filled + len(ids) > len(r.recent):
            kept = np.concatenate([r.recent[: r.filled], ids])[-LONGEST:]
            r.recent[: len(kept)] = kept
            r.filled = len(kept)
        else:
            r.recent[r.filled : r.filled + len(ids)] = ids
            r.filled += len(ids)

    def propose(self, row: int, most: int) -> Draft:
        r = self._rows[row]
        tail = r.recent[max(0, r.filled - LONGEST) : r.filled]
        ids, match = r.local.find(tail, most)
        past = self._past.get(r.salt)
        if past is not None:
            others, longer = past.find(tail, most)
            if longer > match:
                ids, match = others, longer
        ids = ids[: int(self.factor * match) + self.offset]
        if not self.tree or not len(ids):
            return Draft(ids, match, "suffix")
        known = [h.occurrences(tail, len(ids)) for h in (r.local, past) if h is not None]
        following, matches = (np.concatenate(parts) for parts in zip(*known, strict=True))
        return Draft(ids, match, "suffix", leaving(ids, following[2 * matches >= match], self.branches))

    def end(self, row: int) -> None:
        r = self._rows.pop(row, None)
        if r is None or not r.drawn:
            return
        past = self._past.pop(r.salt, None) or TokenHistory(self.history)
        self._past[r.salt] = past                                   # newest last
        while len(self._past) > self.tenants:
            del self._past[next(iter(self._past))]
        past.begin()
        past.extend(np.concatenate(r.drawn).astype(np.int32))


def leaving(chain: np.ndarray, following: np.ndarray, most: int) -> tuple[Branch, ...]:
    """The ways on that leave int32[n] `chain`, by how many of int32[k, n] `following` (padded with -1) took them; at most `most`. Of those that
    leave at the same place with the same token the first counts."""
    same = np.cumprod(following == chain, axis=1).sum(axis=1)       # where each leaves
    ways: dict[tuple[int, int], list[int]] = {}
    left: dict[int, int] = {}
    for i, at in enumerate(same.tolist()):
        if at < len(chain) and following[i, at] >= 0:
            ways.setdefault((at, int(following[i, at])), []).append(i)
            left[at] = left.get(at, 0) + 1
    best = sorted(ways.items(), key=lambda w: (-len(w[1]), w[0][0]))[:most]
    return tuple(Branch(following[rows[0]][following[rows[0]] >= 0], len(rows) / left[at]) for (at, _), rows in best)
