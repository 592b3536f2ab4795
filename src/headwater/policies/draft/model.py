"""draft/model: a second, smaller model of the same vocabulary guesses, greedily or by drawing."""

from dataclasses import dataclass, field

import numpy as np

from headwater.core.registry import register
from headwater.policies.draft.api import NOTHING, Draft, SmallModel, bounded


@register("draft", "model")
@dataclass(slots=True)
class ModelDraft:
    """Greedy continuations of another model as deterministic guesses: they are checked against the target's own draws: no answer changes.

    With `rejection`, rows that sample get drafts drawn at their temperature, which rejection sampling accepts more often than equal draws would: the
    distribution of the answer stays, its draws do not, so such answers are not those of plain decoding. Counted under `rejection`.

    Source: Leviathan, Kalman, Matias (2211.17192).

    file: a known name or a file, as for `--model`. length: tokens per draft; each costs a step of the small model. match: counts as an agreement of
    so many tokens where several drafters bid. rejection: see above.
    """

    file: str = ""
    length: int = 4
    match: int = 8
    rejection: bool = False
    _rows: dict[int, np.ndarray] = field(default_factory=dict, init=False, repr=False)
    _salts: dict[int, str] = field(default_factory=dict, init=False, repr=False)
    _sampling: dict[int, tuple[float, int]] = field(default_factory=dict, init=False, repr=False)
    _model: SmallModel | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        bounded("length", self.length, 1)
        bounded("match", self.match, 0)

    def attach(self, model: SmallModel) -> None:
        """Who computes; before the first row."""
        self._model = model

    def begin(self, row: int, tokens: np.ndarray, salt: str) -> None:
        self._rows[row], self._salts[row] = tokens.astype(np.int32), salt

    def extend(self, row: int, tokens: np.ndarray) -> None:
        self._rows[row] = np.concatenate([self._rows[row], tokens.astype(np.int32)])

    def propose(self, row: int, most: int) -> Draft:
        if self._model is None or most < 1:
            return NOTHING
        temperature, seed = self._sampling.get(row, (0.0, 0))
        if self.rejection and temperature > 0:
            ids, laws = self._model.sample(self._rows[row], min(most, self.length), self._salts[row], temperature, seed)
            return Draft(ids, self.match, "rejection", laws=laws)
        return Draft(self._model(self._rows[row], min(most, self.length), self._salts[row]), self.match, "model")

    def sampling(self, row: int, temperature: float, seed: int) -> None:
        """How the row is drawn."""
        self._sampling[row] = temperature, seed

    def end(self, row: int) -> None:
        self._rows.pop(row, None)
        self._sampling.pop(row, None)
        self._salts.pop(row, None)
