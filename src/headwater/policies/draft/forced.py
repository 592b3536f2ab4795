"""draft/forced: what the row's grammar leaves no choice about (keys, quotes and brackets of a JSON schema, a closing marker)."""

from dataclasses import dataclass, field

import numpy as np

from headwater.core.registry import register
from headwater.policies.draft.api import NOTHING, Draft

SURE = 1 << 20                    # as a match: outbids every agreement of contexts


@register("draft", "forced")
@dataclass(slots=True)
class ForcedDraft:
    """Fast-forward tokens of the grammar engine as guesses. They are checked against the masked draw like any guess: where the mask has one id the
    draw must be it; where the grammar allows another cut of the same text into tokens, the model decides.

    Source: llguidance, "fast-forward tokens"; Willard and Louf, "Efficient Guided Generation" (2307.09702) for the masks.
    """

    _next: dict[int, np.ndarray] = field(default_factory=dict, init=False, repr=False)

    def begin(self, row: int, tokens: np.ndarray, salt: str) -> None:
        """The text so far says nothing; the executor does."""

    def extend(self, row: int, tokens: np.ndarray) -> None:
        """What was forced counts only behind the tokens that it was computed for."""
        self._next.pop(row, None)

    def force(self, row: int, ids: np.ndarray) -> None:
        """int32[k]: what must follow the tokens that the row has now."""
        self._next[row] = ids

    def propose(self, row: int, most: int) -> Draft:
        ids = self._next.get(row)
        return NOTHING if ids is None else Draft(ids[:most], SURE, "forced")

    def end(self, row: int) -> None:
        self._next.pop(row, None)
