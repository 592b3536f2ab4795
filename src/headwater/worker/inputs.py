"""Per-row state of the worker, updated from plan differences: block tables, known tokens, sampling parameters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headwater.core.kvspec import BLOCK_TOKENS, KVSpec
from headwater.core.plan import RowInit, StepPlan
from headwater.kernels.program import Step

COLUMNS = {
    "temperature": np.float32, "top_p": np.float32, "top_k": np.int32, "min_p": np.float32, "presence_penalty": np.float32,
    "frequency_penalty": np.float32, "repetition_penalty": np.float32, "logprobs": np.int32, "min_tokens": np.int32,
    "seed": np.uint64, "prompt_len": np.int32, "penalised": np.bool_,
}                                                                   # logprobs: -1 = none


class Inputs:
    """Struct of arrays over table rows; arrays double when a row id does not fit.

    tables[g]: int32[rows, context blocks], -1 where nothing is kept; history: int32[rows, context + 1], of which known[row] tokens are valid.
    columns: name -> array[rows] (COLUMNS). inits: the RowInit of each present row. bias: (ids, float32 values), allowed: uint32 bits over the
    vocabulary, of rows that have them.
    """

    def __init__(self, spec: KVSpec, context: int, vocabulary: int, rows: int = 32) -> None:
        self.vocabulary = vocabulary
        self.width = -(-context // BLOCK_TOKENS)
        self.tables = [np.full((rows, self.width), -1, np.int32) for _ in spec.groups]
        self.history = np.zeros((rows, self.width * BLOCK_TOKENS + 1), np.int32)   # one more: the token drawn at the very end
        self.known = np.zeros(rows, np.int32)
        self.filled = np.zeros((len(spec.groups), rows), np.int32)  # table entries in use, per group
        self.columns: dict[str, np.ndarray] = {name: np.zeros(rows, kind) for name, kind in COLUMNS.items()}
        self.inits: dict[int, RowInit] = {}
        self.bias: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self.allowed: dict[int, np.ndarray] = {}

    def update(self, plan: StepPlan) -> None:
        """Leaves, joins, appended and trimmed blocks, then the step's tokens into the history (drafts stay unknown until accepted)."""
        for row in plan.leaves.tolist():
            for known in (self.inits, self.bias, self.allowed):
                known.pop(row, None)
        for init in plan.joins:
            self._join(init)
        for g, (table, blocks) in enumerate(zip(self.tables, plan.new_blocks, strict=True)):
            counts = np.diff(blocks.start)
            for i in np.flatnonzero(counts).tolist():
                row = int(plan.rows[i])
                at = int(self.filled[g, row])
                table[row, at : at + counts[i]] = blocks.row(i)
                self.filled[g, row] = at + counts[i]
        for table, pairs in zip(self.tables, plan.trims, strict=False):
            table[pairs[:, 0], pairs[:, 1]] = -1
        row_of = np.repeat(plan.rows, plan.n_new)
        self.history[row_of, positions_of(plan)] = plan.tokens.flat
        self.known[plan.rows] = plan.n_done + plan.n_new - plan.n_guess

    def _join(self, init: RowInit) -> None:
        row = init.row
        while row >= len(self.known):
            self._grow()
        self.inits[row] = init
        n = len(init.history)
        self.history[row, :n] = init.history
        self.known[row] = n
        for g, blocks in enumerate(init.tables):
            self.tables[g][row, : self.filled[g, row]] = -1
            self.tables[g][row, : len(blocks)] = blocks
            self.filled[g, row] = len(blocks)
        p = init.params
        values = {
            "temperature": 0.0 if p.greedy else p.temperature, "top_p": p.top_p, "top_k": max(p.top_k, 0), "min_p": p.min_p,
            "presence_penalty": p.presence_penalty, "frequency_penalty": p.frequency_penalty, "repetition_penalty": p.repetition_penalty,
            "logprobs": -1 if p.logprobs is None else p.logprobs, "min_tokens": p.min_tokens, "seed": init.seed, "prompt_len": init.prompt_len,
            "penalised": bool(p.presence_penalty or p.frequency_penalty or p.repetition_penalty != 1.0),
        }
        for name, value in values.items():
            self.columns[name][row] = value
        if p.logit_bias:
            self.bias[row] = np.array(list(p.logit_bias), np.int32), np.array(list(p.logit_bias.values()), np.float32)
        if p.allowed_token_ids is not None:
            self.allowed[row] = token_bits(p.allowed_token_ids, self.vocabulary)

    def borrow(self, count: int) -> np.ndarray:
        """int32[count] table rows that nobody has, until `give_back`."""
        while len(self.known) - len(self.inits) < count:
            self._grow()
        return np.array([r for r in range(len(self.known)) if r not in self.inits][:count], np.int32)

    def fork(self, parent: int, row: int) -> None:
        """Everything of `parent` also for `row`: blocks, known tokens, sampling."""
        self.inits[row] = self.inits[parent]
        if parent in self.bias:
            self.bias[row] = self.bias[parent]
        if parent in self.allowed:
            self.allowed[row] = self.allowed[parent]
        for g, table in enumerate(self.tables):
            table[row] = table[parent]
            self.filled[g, row] = self.filled[g, parent]
        n = int(self.known[parent])
        self.history[row, :n] = self.history[parent, :n]
        self.known[row] = n
        for column in self.columns.values():
            column[row] = column[parent]

    def give_back(self, rows: np.ndarray) -> None:
        """Rows that were borrowed are nobody's again."""
        for row in rows.tolist():
            for known in (self.inits, self.bias, self.allowed):
                known.pop(row, None)

    def _grow(self) -> None:
        def twice(a: np.ndarray, fill: int = 0) -> np.ndarray:
            return np.concatenate([a, np.full_like(a, fill)])

        history = np.zeros((2 * len(self.known), self.history.shape[1]), np.int32)
        for row in self.inits:                                      # only rows in use: untouched pages stay untouched
            if row < len(self.known):
                history[row, : self.known[row]] = self.history[row, : self.known[row]]
        self.history = history
        self.tables = [twice(t, -1) for t in self.tables]
        self.known = twice(self.known)
        self.filled = np.concatenate([self.filled, np.zeros_like(self.filled)], axis=1)
        self.columns = {name: twice(a) for name, a in self.columns.items()}

    def step(self, plan: StepPlan, reads: np.ndarray) -> Step:
        """The arrays that a program runs on. Tables are cut to the widest row of the step."""
        width = max(1, -(-int((plan.n_done + plan.n_new).max(initial=1)) // BLOCK_TOKENS))
        return Step(
            tokens=plan.tokens.flat, positions=positions_of(plan), row_start=plan.tokens.start, reads=reads,
            tables=[np.ascontiguousarray(t[plan.rows, :width]) for t in self.tables],
            state_in=plan.state_in, state_out=plan.state_out, border=self.columns["prompt_len"][plan.rows],
        )


def drop_rows(step: Step, drop: np.ndarray) -> Step:
    """The step without rows `drop` (none of `keep`) and what is read of them; the other `reads` and `keep` are renumbered."""
    keep = np.ones(len(step.row_start) - 1, bool)
    keep[drop] = False
    counts = np.diff(step.row_start)
    kept = np.repeat(keep, counts)
    renumber = np.cumsum(kept) - 1
    start = np.concatenate([[0], np.cumsum(counts[keep])]).astype(np.int32)
    reads = step.reads[kept[step.reads]]

    def rows(a: np.ndarray | None) -> np.ndarray | None:
        return None if a is None else a[keep]

    tables = [np.ascontiguousarray(t[keep]) for t in step.tables]
    return Step(step.tokens[kept], step.positions[kept], start, renumber[reads].astype(np.int32), tables,
                rows(step.state_in), rows(step.state_out), rows(step.border),
                None if step.keep is None else (np.cumsum(keep) - 1)[step.keep].astype(np.int32))


def positions_of(plan: StepPlan) -> np.ndarray:
    """int32[tokens]: the absolute position of each token of the step."""
    return np.arange(plan.n_tokens, dtype=np.int32) + np.repeat(plan.n_done - plan.tokens.start[:-1], plan.n_new)


def token_bits(ids: Sequence[int], vocabulary: int) -> np.ndarray:
    """uint32[ceil(vocabulary / 32)], bit t set for each t in ids."""
    bits = np.zeros(-(-vocabulary // 32) * 32, np.uint8)
    bits[np.asarray(ids)] = 1
    return np.packbits(bits, bitorder="little").view(np.uint32)
