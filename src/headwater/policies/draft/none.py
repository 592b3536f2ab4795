"""draft/none: no guesses; plain decoding."""

from dataclasses import dataclass

import numpy as np

from headwater.core.registry import register
from headwater.policies.draft.api import NOTHING, Draft


@register("draft", "none")
@dataclass(slots=True)
class NoDraft:
    """Guess nothing."""

    def begin(self, row: int, tokens: np.ndarray, salt: str) -> None:
        """Nothing to remember."""

    def extend(self, row: int, tokens: np.ndarray) -> None:
        """Nothing to remember."""

    def propose(self, row: int, most: int) -> Draft:
        return NOTHING

    def end(self, row: int) -> None:
        """Nothing to forget."""
