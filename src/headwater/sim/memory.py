"""An executor with the memory of a real one and a toy model: what a cache holds decides what is drawn, so a wrong block becomes a wrong token.

Each cache slot of position p holds a hash of all tokens up to p. Reading a row checks every slot that attention would read; recurrent slots hold the
hash as state. The next token is a function of (hash, seed, position): any sharing mistake of scheduler or kv changes outputs or raises.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.core.executor import Caps
from headwater.core.plan import Ragged, RowInit, StepPlan, StepResult, Want
from headwater.core.request import ReadResult

_A = 0x9E3779B97F4A7C15 | 1
_MASK = 2**64 - 1
_START = 0x1234567


class Corruption(AssertionError):
    """A row would have read state that is not its own."""


def hashes(ids: np.ndarray, before: int = _START) -> np.ndarray:
    """uint64[len(ids)]: hash of all tokens up to each one; h_p = A · h_{p-1} + id + 1 modulo 2^64."""
    out = np.empty(len(ids), np.uint64)
    h = before
    for i, token in enumerate(ids.tolist()):
        h = (h * _A + token + 1) & _MASK
        out[i] = h
    return out


def draw(h: int, seed: int, pos: int, vocabulary: int) -> int:
    """The token at position `pos` after tokens with hash `h`."""
    z = ((h ^ (seed * 0xD6E8FEB86659FD93)) + pos) & _MASK           # splitmix64 finaliser
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return (z ^ (z >> 31)) % vocabulary


def linear(prompt: np.ndarray, seed: int, max_new: int, stop_ids: frozenset[int], vocabulary: int) -> list[int]:
    """What a request must yield: the tokens of an undisturbed run, without the stop id."""
    h, out = int(hashes(prompt)[-1]), []
    for i in range(max_new):
        token = draw(h, seed, len(prompt) + i, vocabulary)
        if token in stop_ids:
            break
        out.append(token)
        h = (h * _A + token + 1) & _MASK
    return out


@dataclass(slots=True)
class _Row:
    init: RowInit
    tables: list[np.ndarray]
    ids: np.ndarray               # tokens with state, and the ones fed last
    chain: np.ndarray             # their hashes


class MemoryExecutor:
    """Executor over hashes. Raises Corruption where a plan reads foreign or missing state; `last` is the plan in flight."""

    def __init__(self, caps: Caps, block: int = 16) -> None:
        self._caps, self.block = caps, block
        self.content = [np.zeros((n, block), np.uint64) for n in caps.blocks]
        self.state = np.zeros(max(caps.slots, 1), np.uint64)
        self.rows: dict[int, _Row] = {}
        self.last: StepPlan | None = None

    def caps(self) -> Caps:
        return self._caps

    def submit(self, plan: StepPlan) -> None:
        assert self.last is None, "one plan in flight"
        self.last = plan

    def collect(self, timeout: float | None = None) -> StepResult | None:
        plan, self.last = self.last, None
        return None if plan is None else self.run(plan)

    def close(self) -> None:
        self.rows.clear()

    def run(self, plan: StepPlan) -> StepResult:
        """Execute a plan, checking everything it reads."""
        self._tables(plan)
        for g, src, dst in plan.copies.tolist():
            self.content[g][dst] = self.content[g][src]
        drawn: list[np.ndarray] = []
        n_ok = plan.n_new.copy()
        reads: dict[int, ReadResult] = {}
        branch: dict[int, int] = {}
        states: list[tuple[int, int]] = []
        for i, row in enumerate(plan.rows.tolist()):
            fed, winner = self._path(plan, i, self.rows[row])
            if winner >= 0:
                branch[i] = winner
            ids, ok, state = self._row(plan, i, self.rows[row], fed)
            drawn.append(ids)
            n_ok[i] = ok
            if plan.state_out is not None:
                states.append((int(plan.state_out[i]), state))
            if plan.want[i] & Want.READ:
                reads[i] = ReadResult(hidden=np.array([[int(plan.n_done[i]), int(plan.n_done[i] + plan.n_new[i])]], np.float32))
        for slot, state in states:
            self.state[slot] = state
        if plan.state_copies is not None:
            for src, dst in plan.state_copies.tolist():
                self.state[dst] = self.state[src]
        return StepResult(plan.step, Ragged.of(drawn), n_ok, reads, branch=branch)

    def _tables(self, plan: StepPlan) -> None:
        for row in plan.leaves.tolist():
            del self.rows[row]
        for init in plan.joins:
            if init.row in self.rows:
                raise Corruption(f"row {init.row} joins twice")
            self.rows[init.row] = _Row(init, [t.copy() for t in init.tables], init.history.copy(), hashes(init.history))
        for g, trims in enumerate(plan.trims):
            for row, b in trims.tolist():
                self.rows[row].tables[g][b] = -1
        for g, new in enumerate(plan.new_blocks):
            for i, row in enumerate(plan.rows.tolist()):
                self.rows[row].tables[g] = np.concatenate([self.rows[row].tables[g], new.row(i)])

    def _path(self, plan: StepPlan, i: int, row: _Row) -> tuple[np.ndarray, int]:
        """What a row feeds: its chain, or the branch (and its number) that the draws follow further."""
        fed = plan.tokens.row(i)
        branches = plan.branches
        mine = [] if branches is None else np.flatnonzero(branches.row == i).tolist()
        if branches is None or not mine:
            return fed, -1
        done = int(plan.n_done[i])
        sure = fed[: len(fed) - int(plan.n_guess[i])]
        h = int(hashes(sure, int(row.chain[done - 1]) if done else _START)[-1])
        true: list[int] = []                                        # what will be drawn
        for k in range(int(plan.n_guess[i])):
            true.append(draw(h, row.init.seed, done + len(sure) + k, self._caps.vocabulary))
            h = (h * _A + true[-1] + 1) & _MASK

        def holds(ids: np.ndarray) -> int:
            return int(np.cumprod(ids == np.array(true[: len(ids)])).sum())

        best = max(mine, key=lambda j: holds(branches.ids.row(j)))
        if holds(branches.ids.row(best)) <= holds(fed[len(sure) :]):
            return fed, -1
        return np.concatenate([sure, branches.ids.row(best)]), best

    def _row(self, plan: StepPlan, i: int, row: _Row, fed: np.ndarray) -> tuple[np.ndarray, int, int]:
        done, guesses = int(plan.n_done[i]), int(plan.n_guess[i]) - (int(plan.n_new[i]) - len(fed))
        if done + len(fed) - guesses > len(row.ids) or not np.array_equal(row.ids[done : done + len(fed) - guesses], fed[: len(fed) - guesses]):
            raise Corruption(f"{row.init.request_id}: the plan feeds other tokens than the row knows")
        if guesses:
            row.ids = np.concatenate([row.ids[: done + 1], fed[1:]])
            row.chain = np.concatenate([row.chain[: done + 1], hashes(fed[1:], int(row.chain[done]))])
        self._verify(plan, i, row, done)
        for g, table in enumerate(row.tables):
            pos = np.arange(done, done + len(fed))
            at = table[pos // self.block]
            if (at < 0).any():
                raise Corruption(f"{row.init.request_id}: no block for position {int(pos[at < 0][0])}")
            self.content[g][at, pos % self.block] = row.chain[pos]
        ok, ids = len(fed), np.zeros(0, np.int32)
        if plan.want[i] & Want.SAMPLE:
            ids, ok = self._sample(row, done, len(fed), guesses)
        return ids, ok, int(row.chain[done + ok - 1])

    def _sample(self, row: _Row, done: int, n: int, guesses: int) -> tuple[np.ndarray, int]:
        """Accept guesses while they equal the draw, then one more draw."""
        out: list[int] = []
        at = done + n - guesses - 1
        while True:
            token = draw(int(row.chain[at]), row.init.seed, at + 1, self._caps.vocabulary)
            out.append(token)
            if at + 1 < done + n and row.ids[at + 1] == token:
                at += 1
                continue
            break
        row.ids = np.append(row.ids[: at + 1], np.int32(token))
        row.chain = np.append(row.chain[: at + 1], hashes(row.ids[-1:], int(row.chain[at])))
        return np.array(out, np.int32), at + 1 - done

    def _verify(self, plan: StepPlan, i: int, row: _Row, done: int) -> None:
        """Everything that the row reads is its own history."""
        for g, group in enumerate(self._caps.spec.groups):
            first = max(done - group.window + 1, 0) if group.kind == "window" else 0
            pos = np.arange(first, done)
            at = row.tables[g][pos // self.block]
            if (at < 0).any() or not np.array_equal(self.content[g][at, pos % self.block], row.chain[pos]):
                raise Corruption(f"{row.init.request_id}: cache group {g} does not hold the row's history before position {done}")
        if plan.state_in is not None:
            slot = int(plan.state_in[i])
            if (slot < 0) != (done == 0) or (slot >= 0 and self.state[slot] != row.chain[done - 1]):
                raise Corruption(f"{row.init.request_id}: recurrent state is not the one after {done} tokens")
