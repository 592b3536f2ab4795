"""How many tokens to guess for each decoding row: drafters propose, acceptance and cost decide, nothing is spent where nothing comes back."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from headwater.core.executor import CostModel
from headwater.core.plan import Ragged, StepFeatures
from headwater.policies.draft.api import Drafter
from headwater.sched.seq import Seq
from headwater.sched.table import Rows

BUCKETS = (0, 4, 8, 16, 32)       # lower ends of the match lengths that share one acceptance estimate
FADE = 0.9                        # weight of the past in an acceptance estimate, per draft
START = 0.6                       # acceptance believed before any draft was checked
FLOOR = 0.35                      # below this acceptance of the first token a row only probes
PROBE_EVERY = 64                  # passes between two probes of a row that guesses in vain
LONGEST = 32                      # guesses per row and pass


@dataclass(slots=True)
class DraftCounts:
    """What drafting did so far. by_position[i]: (drafted, accepted) at place i of a draft; lengths: how often a draft was so long."""

    passes: int = 0
    drafted: int = 0
    accepted: int = 0
    by_position: np.ndarray = field(default_factory=lambda: np.zeros((LONGEST, 2), np.int64))
    lengths: Counter[int] = field(default_factory=Counter)

    @property
    def alpha(self) -> float:
        """Accepted per drafted token."""
        return self.accepted / self.drafted if self.drafted else 0.0


@dataclass(slots=True)
class _RowState:
    name: int                     # what the drafter calls the row; never reused
    seq: Seq
    fed: int                      # tokens the drafter knows
    guess: np.ndarray             # the draft that is out, empty if none
    match: int = 0
    alpha: float = START          # chance that the first guess holds, this row
    idle: int = 0                 # passes since the last draft


class Guesser:
    """The `guess` of a scheduler. drafter: a resident of the room `draft`; cost: prices one more guessed token (None = a quarter of a plain step).

    The scheduler sets `rows` before the first call.
    """

    def __init__(self, drafter: Drafter, cost: CostModel | None = None) -> None:
        self.drafter = drafter
        self.cost = cost
        self.rows: Rows | None = None
        self.counts = DraftCounts()
        self._states: dict[int, _RowState] = {}                     # by table row
        self._names = 0
        self._by_match = np.full(len(BUCKETS), START)               # chance that the first guess of such a match holds, all rows

    def __call__(self, idx: np.ndarray, most: np.ndarray) -> Ragged:
        """idx, most: int32[rows]: decoding table rows and the most guesses each may get -> guesses per row."""
        assert self.rows is not None
        self._forget()
        self.counts.passes += len(idx)
        price = self._price(idx)
        drafts = [self._draft(int(row), int(limit), price) for row, limit in zip(idx, most, strict=True)]
        return Ragged.of(drafts)

    def _draft(self, row: int, limit: int, price: float) -> np.ndarray:
        s = self._catch_up(row)
        s.guess = s.guess[:0]
        probing = s.alpha < FLOOR
        if limit < 1 or (probing and s.idle < PROBE_EVERY):
            s.idle += 1
            return s.guess
        draft = self.drafter.propose(s.name, min(limit, LONGEST))
        length = min(len(draft.ids), self._length(s, draft.match, price), 1 if probing else LONGEST)
        s.idle = 0 if length else s.idle + 1
        s.guess, s.match = draft.ids[:length].astype(np.int32), draft.match
        if length:
            self.counts.drafted += length
            self.counts.by_position[:length, 0] += 1
            self.counts.lengths[length] += 1
        return s.guess

    def _length(self, s: _RowState, match: int, price: float) -> int:
        """Guesses until the chance that one more holds is worth less than it costs; price in plain row-steps."""
        alpha = min(0.98, 0.5 * (s.alpha + float(self._by_match[_bucket(match)])))
        if s.alpha < FLOOR:
            return 1
        if alpha <= price:
            return 0
        return max(1, int(np.log(max(price, 1e-3)) / np.log(alpha)))

    def _price(self, idx: np.ndarray) -> float:
        """Seconds of one more token in this step, as a share of what a row's step costs now."""
        if self.cost is None:
            return 0.25
        assert self.rows is not None
        n = len(idx)
        context = int(self.rows.known[idx].sum())
        plain = self.cost.step_seconds(StepFeatures(n, n, n, context, 0, context))
        more = self.cost.step_seconds(StepFeatures(n + 4 * n, n, n + 4 * n, 5 * context, 4 * n, context))
        return max(0.01, (more - plain) / (4 * n) / (plain / n)) if plain > 0 else 0.25

    def _catch_up(self, row: int) -> _RowState:
        """Tell the drafter what the row has drawn, and learn from the draft that was out."""
        assert self.rows is not None
        seq, known = self.rows.at(row), int(self.rows.known[row])
        s = self._states.get(row)
        if s is None or s.seq is not seq or known < s.fed:
            if s is not None:
                self.drafter.end(s.name)
            s = self._states[row] = _RowState(self._names, seq, known, np.zeros(0, np.int32))
            self._names += 1
            self.drafter.begin(s.name, self.rows.tokens[row, :known].copy(), seq.request.cache_salt)
            return s
        new = self.rows.tokens[row, s.fed : known].copy()
        if len(s.guess) and len(new):
            self._learn(s, new)
        if len(new):
            self.drafter.extend(s.name, new)
            s.fed = known
        return s

    def _learn(self, s: _RowState, new: np.ndarray) -> None:
        k = min(len(s.guess), len(new))
        wrong = np.flatnonzero(s.guess[:k] != new[:k])
        held = int(wrong[0]) if len(wrong) else k
        self.counts.accepted += held
        self.counts.by_position[:held, 1] += 1
        rate = held / (held + 1) if held < len(s.guess) else 1.0     # maximum likelihood of a geometric run, cut off at the draft's end
        s.alpha = FADE * s.alpha + (1 - FADE) * rate if held else FADE * FADE * s.alpha
        b = _bucket(s.match)
        self._by_match[b] = FADE * self._by_match[b] + (1 - FADE) * rate

    def _forget(self) -> None:
        """Rows that have left; what they drew may serve others."""
        assert self.rows is not None
        gone = [row for row, s in self._states.items() if self.rows.seqs[row] is not s.seq]
        for row in gone:
            self.drafter.end(self._states.pop(row).name)


def _bucket(match: int) -> int:
    return sum(match >= low for low in BUCKETS) - 1
