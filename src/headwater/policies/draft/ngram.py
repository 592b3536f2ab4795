"""draft/ngram: prompt lookup. What followed the same last n tokens earlier in this very row."""

from dataclasses import dataclass, field

import numpy as np

from headwater.core.registry import register
from headwater.policies.draft.api import NOTHING, Draft, bounded


@dataclass(slots=True)
class _Row:
    tokens: list[int]
    last: dict[tuple[int, ...], int] = field(default_factory=dict)  # n-gram -> position behind its newest occurrence but the tail's own


@register("draft", "ngram")
@dataclass(slots=True)
class NgramDraft:
    """Longest n-gram first (longest … shortest), newest occurrence, copy what followed.

    Source: Saxena, "Prompt Lookup Decoding" (2023); the control arm for every other drafter.

    shortest, longest: n in tokens, 1 ≤ shortest ≤ longest ≤ 64 (every token is entered under each).
    """

    shortest: int = 2
    longest: int = 4
    _rows: dict[int, _Row] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        bounded("shortest", self.shortest, 1, 64)
        bounded("longest", self.longest, self.shortest, 64)

    def begin(self, row: int, tokens: np.ndarray, salt: str) -> None:
        self._rows[row] = _Row([])
        self.extend(row, tokens)

    def extend(self, row: int, tokens: np.ndarray) -> None:
        r = self._rows[row]
        for token in tokens.tolist():
            end = len(r.tokens)
            for n in range(self.shortest, min(self.longest, end) + 1):  # n-grams that end before this token: something follows them
                r.last[tuple(r.tokens[end - n : end])] = end
            r.tokens.append(token)

    def propose(self, row: int, most: int) -> Draft:
        r = self._rows[row]
        for n in range(min(self.longest, len(r.tokens)), self.shortest - 1, -1):
            at = r.last.get(tuple(r.tokens[-n:]))
            if at is not None:
                return Draft(np.array(r.tokens[at : at + most], np.int32), n, "ngram")
        return NOTHING

    def end(self, row: int) -> None:
        self._rows.pop(row, None)
