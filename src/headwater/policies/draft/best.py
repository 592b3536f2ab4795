"""draft/a+b: several drafters; the one whose context agreed longest speaks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.policies.draft.api import NOTHING, Draft, Drafter, TakesForced, TakesSampling


@dataclass(slots=True)
class BestDraft:
    """Ask all, take the longest match; on ties the one named first."""

    drafters: list[Drafter]

    def begin(self, row: int, tokens: np.ndarray, salt: str) -> None:
        for d in self.drafters:
            d.begin(row, tokens, salt)

    def extend(self, row: int, tokens: np.ndarray) -> None:
        for d in self.drafters:
            d.extend(row, tokens)

    def propose(self, row: int, most: int) -> Draft:
        drafts = [d.propose(row, most) for d in self.drafters]
        return max((d for d in drafts if len(d.ids)), key=lambda d: d.match, default=NOTHING)

    def force(self, row: int, ids: np.ndarray) -> None:
        for d in self.drafters:
            if isinstance(d, TakesForced):
                d.force(row, ids)

    def sampling(self, row: int, temperature: float, seed: int) -> None:
        for d in self.drafters:
            if isinstance(d, TakesSampling):
                d.sampling(row, temperature, seed)

    def end(self, row: int) -> None:
        for d in self.drafters:
            d.end(row)
