"""draft/model: a second, smaller model of the same vocabulary guesses greedily."""

from dataclasses import dataclass, field

import numpy as np

from headwater.core.registry import register
from headwater.policies.draft.api import NOTHING, Continue, Draft


@register("draft", "model")
@dataclass(slots=True)
class ModelDraft:
    """Greedy continuations of another model as deterministic guesses: they are checked against the target's own draws: no answer changes.

    Source: Leviathan, Kalman, Matias (2211.17192) for drafting with a model; their rejection sampling, which would need the draft's probabilities,
    is not what is done here.

    file: a known name or a file, as for `--model`. length: tokens per draft; each costs a step of the small model. match: counts as an agreement of
    so many tokens where several drafters bid.
    """

    file: str = ""
    length: int = 4
    match: int = 8
    _rows: dict[int, np.ndarray] = field(default_factory=dict, init=False, repr=False)
    _salts: dict[int, str] = field(default_factory=dict, init=False, repr=False)
    _continue: Continue | None = field(default=None, init=False, repr=False)

    def attach(self, model: Continue) -> None:
        """Who computes; before the first row."""
        self._continue = model

    def begin(self, row: int, tokens: np.ndarray, salt: str) -> None:
        self._rows[row], self._salts[row] = tokens.astype(np.int32), salt

    def extend(self, row: int, tokens: np.ndarray) -> None:
        self._rows[row] = np.concatenate([self._rows[row], tokens.astype(np.int32)])

    def propose(self, row: int, most: int) -> Draft:
        if self._continue is None or most < 1:
            return NOTHING
        return Draft(self._continue(self._rows[row], min(most, self.length), self._salts[row]), self.match, "model")

    def end(self, row: int) -> None:
        self._rows.pop(row, None)
        self._salts.pop(row, None)
