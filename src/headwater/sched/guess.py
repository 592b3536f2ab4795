"""How many tokens to guess for each decoding row: drafters propose, acceptance and cost decide, nothing is spent where nothing comes back."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from headwater.core.drafting import DraftCounts, DraftPass
from headwater.core.executor import CostModel
from headwater.core.plan import MOST_BRANCHES, MOST_GUESSES, Branches, Guesses, Ragged, StepFeatures, StepPlan, StepResult
from headwater.core.request import Output
from headwater.policies.draft.api import NOTHING, Draft, Drafter, Forks, TakesForced, TakesSampling, members
from headwater.sched.branches import common, worthwhile
from headwater.sched.seq import Seq
from headwater.sched.table import Rows

BUCKETS = (0, 4, 8, 16, 32)       # lower ends of the match lengths that share one acceptance estimate
FADE = 0.9                        # weight of the past in an acceptance estimate, per draft
START = 0.6                       # acceptance believed before any draft was checked
SURE = {"forced": 0.97}           # and where the source has its own reasons
FLOOR = 0.35                      # below this acceptance of the first token a source only probes in this row
PROBE_EVERY = 64                  # passes between two probes of a row that guesses in vain
BRANCH_START = 0.3                # chance believed that a branch holds where the chain does not
NO_IDS = np.zeros(0, np.int32)


@dataclass(slots=True)
class _RowState:
    name: int                     # what the drafter calls the row; never reused
    seq: Seq
    drafter: Drafter              # all of them for a client's row, the one that forks for its own
    fed: int                      # tokens the drafter knows
    match: int = 0                # of the draft that is out, and its source
    source: str = ""
    alphas: dict[str, float] = field(default_factory=dict)          # chance that the first guess of a source holds, this row
    idle: int = 0                 # passes since the last draft


class Guesser:
    """The `guess` of a scheduler. drafter: a resident of the room `draft`; cost: prices one more guessed token (None = a quarter of a plain step).

    The scheduler sets `rows` before the first call, and reports every applied step to `verified`. counts: totals since the start.
    """

    def __init__(self, drafter: Drafter, cost: CostModel | None = None) -> None:
        self.drafter = drafter
        self.cost = cost
        self.rows: Rows | None = None
        self.counts = DraftCounts()
        self.price = 0.25                                           # `_price` of the newest step
        self.forker = next((d for d in members(drafter) if isinstance(d, Forks)), None)
        self.children: dict[str, int] = {}                          # request id of a drafter's fork -> its key
        self._states: dict[int, _RowState] = {}                     # by table row
        self._names = 0
        self._by_match: dict[tuple[str, int], float] = {}           # (source, bucket) -> chance that the first guess holds, all rows
        self._by_branch: dict[str, float] = {}                      # source -> chance that a branch holds where its chain does not, all rows
        self._passes: dict[str, DraftPass] = {}                     # of the step that is being applied, by request id
        self._forced: dict[int, tuple[Seq, np.ndarray]] = {}        # table row -> what its grammar wants next

    def __call__(self, idx: np.ndarray, most: np.ndarray) -> Guesses:
        """idx, most: int32[rows]: decoding table rows and the most guesses each may get, those of branches included -> guesses per row."""
        assert self.rows is not None
        self.forget()
        price = self.price = self._price(idx)
        branches: list[tuple[int, np.ndarray]] = []
        laws: dict[int, np.ndarray] = {}
        chains = [self._draft(i, int(row), int(limit), price, branches, laws) for i, (row, limit) in enumerate(zip(idx, most, strict=True))]
        self._forced.clear()
        if not any(map(len, chains)):
            return Guesses(Ragged(NO_IDS, np.zeros(len(idx) + 1, np.int32)))
        return Guesses(Ragged.of(chains), Branches.of(branches), laws or None)

    def verified(self, plan: StepPlan, result: StepResult) -> None:
        """A step is about to be applied: count, and learn from the drafts that were checked."""
        assert self.rows is not None
        drawn = np.diff(result.tokens.start).tolist()
        self._passes.clear()
        beside: dict[int, list[np.ndarray]] = {}
        if plan.branches is not None:
            for j, i in enumerate(plan.branches.row.tolist()):
                beside.setdefault(i, []).append(plan.branches.ids.row(j))
        for i, (row, n) in enumerate(zip(plan.rows.tolist(), plan.n_guess.tolist(), strict=True)):
            seq = self.rows.seqs[row]
            if seq is None or i in result.failed:
                continue
            if i in result.forced:
                self._forced[row] = seq, result.forced[i]
            s = self._states.get(row)
            if s is None or s.seq is not seq or not drawn[i]:
                continue
            done = DraftPass(n, n - int(plan.n_new[i] - result.n_ok[i]), s.source if n else "")
            if i in beside:
                winner = plan.branches.ids.row(result.branch[i]) if plan.branches is not None and i in result.branch else None
                done = self._branched(plan.tokens.row(i)[-n:], beside[i], winner, done)
            if n:
                self._learn(s, n, done.accepted)
            if seq.request.request_id not in self.children:
                self.counts.add(done, drawn[i])
                self._passes[seq.request.request_id] = done

    def attach(self, outputs: list[Output]) -> None:
        """Say with each output of the step what was checked for it."""
        for out in outputs:
            out.draft = self._passes.get(out.request_id)

    def _branched(self, chain: np.ndarray, branches: list[np.ndarray], winner: np.ndarray | None, done: DraftPass) -> DraftPass:
        """What a pass with branches checked, and whether a branch was right where the chain was not. done: with all that held as `accepted`."""
        leave = [common(chain, ids) for ids in branches]
        held = done.accepted if winner is None else common(chain, winner)
        if held in leave and held < len(chain):
            before = self._by_branch.get(done.source, BRANCH_START)
            self._by_branch[done.source] = FADE * before + (1 - FADE) * (winner is not None)
        fresh = sum(len(ids) - d for ids, d in zip(branches, leave, strict=True))
        return DraftPass(done.drafted, held, done.source, len(branches), fresh, done.accepted - held)

    def _draft(self, i: int, row: int, limit: int, price: float, branches: list[tuple[int, np.ndarray]], laws: dict[int, np.ndarray]) -> np.ndarray:
        """The chain of row `row`, the i-th of the step; its branches join `branches`, what it was drawn from `laws`."""
        s = self._catch_up(row)
        draft = self._proposed(s, row, min(limit, MOST_GUESSES)) if limit > 0 else NOTHING
        if not len(draft.ids) or (s.idle < PROBE_EVERY and self._alpha(s, draft.source, draft.match) < FLOOR):
            s.idle += 1
            return NO_IDS
        length = min(len(draft.ids), self._length(s, draft, price))
        s.idle = 0 if length else s.idle + 1
        s.match, s.source = draft.match, draft.source
        chain = draft.ids[:length].astype(np.int32, copy=False)
        if draft.laws is not None and length:
            laws[i] = draft.laws
        elif draft.branches and length and self._alpha(s, draft.source, draft.match) >= FLOOR:
            hold = self._by_branch.get(draft.source, BRANCH_START)
            paying = worthwhile(chain, draft.branches, self._chance(s, draft), hold, price, limit - length, MOST_BRANCHES - len(branches))
            branches += [(i, ids) for ids in paying]
        return chain

    def _proposed(self, s: _RowState, row: int, most: int) -> Draft:
        if self._forced and row in self._forced and isinstance(s.drafter, TakesForced):
            seq, ids = self._forced[row]
            if seq is s.seq:
                s.drafter.force(s.name, ids)
        return s.drafter.propose(s.name, most)

    def _length(self, s: _RowState, draft: Draft, price: float) -> int:
        """Guesses until the chance that one more holds is worth less than it costs; price in plain row-steps."""
        alpha = self._chance(s, draft)
        if self._alpha(s, draft.source, draft.match) < FLOOR:
            return 1
        if alpha <= price:
            return 0
        return max(1, int(np.log(max(price, 1e-3)) / np.log(alpha)))

    def _chance(self, s: _RowState, draft: Draft) -> float:
        """That a guess of the draft holds when those before it did: this row's and all rows' experience, half each."""
        return min(0.98, 0.5 * (self._alpha(s, draft.source, draft.match) + self._seen(draft.source, draft.match)))

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
        """Tell the drafter what the row has drawn."""
        assert self.rows is not None
        seq, known = self.rows.at(row), int(self.rows.known[row])
        s = self._states.get(row)
        if s is None or s.seq is not seq or known < s.fed:
            if s is not None:
                s.drafter.end(s.name)
            return self._begin(row, seq, known)
        if known > s.fed:
            s.drafter.extend(s.name, self.rows.tokens[row, s.fed : known].copy())
            s.fed = known
        return s

    def _begin(self, row: int, seq: Seq, known: int) -> _RowState:
        assert self.rows is not None
        key, drafter = self.children.get(seq.request.request_id), self.drafter
        if key is not None and self.forker is not None:
            drafter = cast(Drafter, self.forker)
        s = self._states[row] = _RowState(self._names, seq, drafter, known)
        self._names += 1
        drafter.begin(s.name, self.rows.tokens[row, :known].copy(), seq.request.cache_salt)
        if isinstance(drafter, TakesSampling):
            params = seq.request.params
            drafter.sampling(s.name, 0.0 if params.greedy else params.temperature, seq.request.seed)
        if self.forker is not None:
            if key is not None:
                self.forker.adopt(s.name, key)
            for pos in self.forker.points(s.name):
                if pos not in seq.borders and pos > known:
                    insort(seq.borders, pos)
        return s

    def _alpha(self, s: _RowState, source: str, match: int) -> float:
        """Chance that the source's first guess holds in this row; a row that knows nothing yet believes the others where they saw little hold."""
        return s.alphas.get(source, min(SURE.get(source, START), self._seen(source, match)))

    def _seen(self, source: str, match: int) -> float:
        """Chance that the first guess of such a match holds, all rows."""
        return self._by_match.get((source, _bucket(match)), SURE.get(source, START))

    def _learn(self, s: _RowState, drafted: int, held: int) -> None:
        rate = held / (held + 1) if held < drafted else 1.0          # maximum likelihood of a geometric run, cut off at the draft's end
        own = self._alpha(s, s.source, s.match)
        if held and own < FLOOR:
            own = FLOOR                                             # a probe that holds buys further tries, however often it failed before
        s.alphas[s.source] = FADE * own + (1 - FADE) * rate if held else FADE * FADE * own
        key = s.source, _bucket(s.match)
        self._by_match[key] = FADE * self._seen(s.source, s.match) + (1 - FADE) * rate

    def forget(self) -> None:
        """Rows that have left; what they drew may serve others."""
        assert self.rows is not None
        gone = [row for row, s in self._states.items() if self.rows.seqs[row] is not s.seq]
        for row in gone:
            s = self._states.pop(row)
            last = s.seq.known[s.fed :]                             # drawn in the step with which it left
            if len(last):
                s.drafter.extend(s.name, last)
            s.drafter.end(s.name)

    def seq(self, name: int) -> Seq | None:
        """The sequence that the drafters call `name`, while it has a row."""
        return next((s.seq for s in self._states.values() if s.name == name), None)


def _bucket(match: int) -> int:
    return sum(match >= low for low in BUCKETS) - 1
