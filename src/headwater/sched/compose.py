"""StepBuilder: collects what a step does and turns it into the flat arrays of a StepPlan."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from headwater.core.cost import with_branches
from headwater.core.plan import Branches, Ragged, RowInit, StepFeatures, StepPlan, Want
from headwater.kv.chain import Start
from headwater.sched.board import Board
from headwater.sched.seq import Seq

_NONE = np.zeros(0, np.int32)
_NO_PAIRS = np.zeros((0, 2), np.int32)


@dataclass(slots=True)
class Border:
    """A checkpoint to be made when the step is applied: plan index, table row, position, recurrent slot that receives the copy (-1 = none)."""

    index: int
    row: int
    pos: int
    slot: int


@dataclass(slots=True)
class StepBuilder:
    """Rows with one token to compute are arrays (the hot path); prompt chunks and joins are lists."""

    board: Board
    single: np.ndarray = field(default_factory=lambda: _NONE)       # rows with one token (plus guesses)
    guesses: Ragged | None = None
    branches: Branches | None = None                               # beside the chains of `single`
    laws: dict[int, np.ndarray] | None = None                       # of chains, by index in `single`
    chunks: list[tuple[int, int]] = field(default_factory=list)     # (row, tokens)
    grown: dict[int, int] = field(default_factory=dict)             # row -> its number of blocks before this step
    joins: list[tuple[Seq, Start, int]] = field(default_factory=list)
    borders: list[Border] = field(default_factory=list)
    full: bool = False                                              # no seconds are left
    features: StepFeatures = field(default_factory=lambda: StepFeatures(0, 0, 0, 0))

    @property
    def empty(self) -> bool:
        return not len(self.single) and not self.chunks

    def with_chunk(self, done: int, n: int, reads: int) -> StepFeatures:
        """Features of the step if n more tokens after position `done` joined it."""
        f = self.features
        return StepFeatures(f.tokens + n, f.rows + 1, f.reads + reads, f.kv_positions + n * done + n * (n + 1) // 2, f.guesses,
                            f.kv_held + done + n)

    def add_chunk(self, row: int, n: int) -> None:
        rows = self.board.rows
        self.features = self.with_chunk(int(rows.done[row]), n, int(rows.done[row] + n >= rows.known[row]))
        self.chunks.append((row, n))

    def add_single(self, idx: np.ndarray, guesses: Ragged | None, branches: Branches | None = None) -> None:
        rows, f = self.board.rows, self.features
        extra = np.diff(guesses.start).astype(np.int64) if guesses is not None else np.zeros(len(idx), np.int64)
        n, done = 1 + extra, rows.done[idx].astype(np.int64)
        total = int(n.sum())
        self.features = StepFeatures(f.tokens + total, f.rows + len(idx), f.reads + total, f.kv_positions + int((n * done + n * (n + 1) // 2).sum()),
                                     f.guesses + int(extra.sum()), f.kv_held + int((n + done).sum()))
        if branches is not None:
            self.features = with_branches(self.features, done[branches.row], np.diff(branches.ids.start))
        self.single, self.guesses, self.branches = idx.astype(np.int32), guesses, branches

    def grew(self, row: int, before: int) -> None:
        self.grown.setdefault(row, before)

    def stop_at_borders(self) -> None:
        """Cut chunks at checkpoints that were asked for while the step was planned."""
        forest, rows = self.board.forest, self.board.rows
        if not self.board.kv.can_cut:
            ends = [(row, int(rows.done[row]), n) for row, n in self.chunks]
            self.chunks = [(row, forest.next_border(rows.at(row), done, done + n) - done) for row, done, n in ends]

    def add_join(self, seq: Seq, start: Start, kept: int) -> None:
        """A row that starts in this step with `kept` shared or copied blocks; the blocks behind them are new."""
        self.joins.append((seq, start, kept))
        self.grown[seq.row] = kept

    # ---- arrays -----------------------------------------------------------------------------------------------------------------

    def build(self, step: int, now: float) -> StepPlan:
        table = self.board.rows
        rows = np.concatenate([self.single, np.array([r for r, _ in self.chunks], np.int32)])
        n_guess = np.zeros(len(rows), np.int32)
        if self.guesses is not None:
            n_guess[: len(self.single)] = np.diff(self.guesses.start)
        n_new = 1 + n_guess
        n_new[len(self.single) :] = [n for _, n in self.chunks]
        n_done = table.done[rows]
        want = np.where(n_done + n_new - n_guess >= table.known[rows], table.want[rows], 0).astype(np.uint8)
        reading = table.reading[rows]
        for i in np.flatnonzero(reading).tolist() if reading.any() else ():
            if table.at(int(rows[i])).wants_read(int(n_done[i] + n_new[i])):
                want[i] |= Want.READ
        plan = StepPlan(step, rows, n_done, n_new, n_guess, want, self._tokens(n_new), self._new_blocks(rows), self._copies(),
                        joins=[self._join(seq, start, kept) for seq, start, kept in self.joins], branches=self.branches, laws=self.laws)
        plan.leaves = np.array(self.board.leaves, np.int32)
        self.board.leaves.clear()
        plan.trims = self._trims()
        self._checkpoints(plan, now)
        return plan

    def _tokens(self, n_new: np.ndarray) -> Ragged:
        table, idx = self.board.rows, self.single
        start = np.zeros(len(n_new) + 1, np.int32)
        np.cumsum(n_new, out=start[1:])
        last = table.tokens[idx, table.done[idx]]
        if self.guesses is None:
            parts = [last]
        else:
            parts = []
            for i, token in enumerate(last):
                parts += [np.array([token], np.int32), self.guesses.row(i)]
        parts += [table.tokens[row, table.done[row] : table.done[row] + n] for row, n in self.chunks]
        return Ragged(np.concatenate(parts).astype(np.int32, copy=False) if parts else _NONE, start)

    def _new_blocks(self, rows: np.ndarray) -> tuple[Ragged, ...]:
        kv, table = self.board.kv, self.board.rows
        spec = kv.caps.spec.groups
        start = np.zeros(len(rows) + 1, np.int32)
        if not self.grown:
            return tuple(Ragged(_NONE, start) for _ in spec)
        where = [(i, row, self.grown[row]) for i, row in enumerate(rows.tolist()) if row in self.grown]
        chains = [table.at(row).chain for _, row, _ in where]
        for (i, _, before), chain in zip(where, chains, strict=True):
            assert chain is not None
            start[i + 1] = chain.n - before
        np.cumsum(start, out=start)
        out: list[Ragged] = []
        for g in range(len(spec)):
            parts = []
            for (_, _, before), chain in zip(where, chains, strict=True):
                assert chain is not None
                if g in kv.full:
                    parts.append(kv.nodes.blocks[kv.full.index(g), chain.nodes[before : chain.n]])
                else:
                    parts.append(chain.windows[kv.windowed.index(g)][before : chain.n])
            out.append(Ragged(np.concatenate(parts) if parts else _NONE, start))
        return tuple(out)

    def _copies(self) -> np.ndarray:
        return np.array([c for _, start, _ in self.joins for c in start.copies], np.int32).reshape(-1, 3)

    def _join(self, seq: Seq, start: Start, kept: int) -> RowInit:
        """kept: how many blocks of the chain the row starts with (shared and copied); later ones are this step's new blocks."""
        kv, request, chain = self.board.kv, seq.request, start.chain
        tables: list[np.ndarray] = []
        for g in range(len(kv.caps.spec.groups)):
            if g in kv.full:
                tables.append(kv.nodes.blocks[kv.full.index(g), chain.nodes[:kept]])
            else:
                tables.append(chain.windows[kv.windowed.index(g)][:kept].copy())
        return RowInit(seq.row, request.request_id, request.params, request.seed, seq.known, seq.prompt_len, tuple(tables),
                       np.array(sorted(request.stop_ids), np.int32), request.reads, request.mask)

    def _trims(self) -> tuple[np.ndarray, ...]:
        groups = len(self.board.kv.caps.spec.groups)
        if not self.board.trims:
            return (_NO_PAIRS,) * groups
        joined = {seq.row for seq, _, _ in self.joins}
        pairs: list[list[tuple[int, int]]] = [[] for _ in range(groups)]
        for row, gone in self.board.trims.items():
            if row not in joined:
                for g, b in gone:
                    pairs[g].append((row, b))
        self.board.trims.clear()
        return tuple(np.array(p, np.int32).reshape(-1, 2) for p in pairs)

    def _checkpoints(self, plan: StepPlan, now: float) -> None:
        board, kv = self.board, self.board.kv
        if kv.can_cut:
            return
        starts = {seq.row: start.state_from for seq, start, _ in self.joins}
        slots = np.full(len(plan.rows), -1, np.int32)
        before = np.full(len(plan.rows), -1, np.int32)
        copies = []
        for i, row in enumerate(plan.rows.tolist()):
            seq = board.rows.at(row)
            assert seq.chain is not None
            slots[i] = seq.chain.slot
            before[i] = starts.get(row, seq.chain.slot if plan.n_done[i] else -1)
            end = int(plan.n_done[i] + plan.n_new[i])
            if board.forest.is_border(seq, end):
                slot = kv.checkpoint_slot(now)
                if slot is None:
                    continue
                if slot >= 0:
                    copies.append((seq.chain.slot, slot))
                self.borders.append(Border(i, row, end, slot))
        if kv.stateful:
            plan.state_in, plan.state_out = before, slots
            plan.state_copies = np.array(copies, np.int32).reshape(-1, 2)
