"""Token trees in one pass: a branch is a row forked for the length of a step. It shares its parent's blocks by index; the partly filled block is
copied, and what it writes goes into scratch blocks behind the pool, so that the parent and its other branches never see it.

A branch computes the last sure token again instead of reading what its parent computes in the same step: position by position it is a row like any
other, with the bits of one. Sibling rows whose guesses begin alike draw alike, so the path that holds longest is what plain decoding would say.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from headwater.core.kvspec import BLOCK_TOKENS
from headwater.core.plan import BRANCH_BLOCKS, MOST_BRANCHES, Ragged, StepPlan, StepResult
from headwater.worker.inputs import Inputs

SCRATCH_BLOCKS = MOST_BRANCHES * BRANCH_BLOCKS                     # per cache group, behind those that the scheduler gives out


@dataclass(frozen=True, slots=True)
class Fan:
    """A step whose branches are rows. plan: of all rows, those of the step first; owner: int32[branches], whose branch each further row is; copies:
    int32[k, 3] of (group, from block, to block), before anything is computed."""

    plan: StepPlan
    owner: np.ndarray
    copies: np.ndarray


def spread(plan: StepPlan, inputs: Inputs, blocks: tuple[int, ...]) -> Fan:
    """blocks: how many each group has; scratch blocks come behind them. The branches take table rows that nobody has; `gather` gives them back."""
    branches = plan.branches
    assert branches is not None
    owner = branches.row
    rows = inputs.borrow(len(owner))
    copies = []
    for j, (i, row) in enumerate(zip(owner.tolist(), rows.tolist(), strict=True)):
        done, ids = int(plan.n_done[i]), branches.ids.row(j)
        first, last = done // BLOCK_TOKENS, (done + len(ids)) // BLOCK_TOKENS
        parent = int(plan.rows[i])
        inputs.fork(parent, row)
        for g, (table, n) in enumerate(zip(inputs.tables, blocks, strict=True)):
            scratch = n + j * BRANCH_BLOCKS
            if done % BLOCK_TOKENS:
                copies.append((g, int(table[parent, first]), scratch))
            table[row, first : last + 1] = np.arange(scratch, scratch + last + 1 - first)
        inputs.history[row, done + 1 : done + 1 + len(ids)] = ids
    length = np.diff(branches.ids.start)
    sure = plan.tokens.flat[plan.tokens.start[owner]]
    tokens = [np.append(sure[j : j + 1], branches.ids.row(j)) for j in range(len(owner))]
    flat = np.concatenate([plan.tokens.flat, *tokens]).astype(np.int32, copy=False)
    start = np.append(plan.tokens.start, plan.tokens.start[-1] + np.cumsum(length + 1)).astype(np.int32)

    def both(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.concatenate([a, b]).astype(a.dtype, copy=False)

    wide = replace(
        plan, rows=both(plan.rows, rows), n_done=both(plan.n_done, plan.n_done[owner]), n_new=both(plan.n_new, length + 1),
        n_guess=both(plan.n_guess, length), want=both(plan.want, plan.want[owner]), tokens=Ragged(flat, start), branches=None,
        state_in=None if plan.state_in is None else both(plan.state_in, plan.state_in[owner]),
        state_out=None if plan.state_out is None else both(plan.state_out, np.full(len(owner), -1)),
    )
    return Fan(wide, owner, np.array(copies, np.int32).reshape(-1, 3))


def gather(fan: Fan, result: StepResult, inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
    """Fold what the branches brought into their owners' part of the result and of the histories.

    -> (int32[rows], the row of the wide plan whose path counts; int32[k, 3], copies (group, from, to) of scratch blocks that are to stay).
    """
    n = len(fan.plan.rows) - len(fan.owner)
    counts = np.diff(result.tokens.start)
    best = np.arange(n)
    for j, i in enumerate(fan.owner.tolist()):
        if counts[n + j] > counts[best[i]]:
            best[i] = n + j
    copies = []
    for i in np.flatnonzero(best != np.arange(n)).tolist():
        j = int(best[i])
        row, branch, done, ok = int(fan.plan.rows[i]), int(fan.plan.rows[j]), int(fan.plan.n_done[i]), int(result.n_ok[j])
        result.branch[i] = j - n
        inputs.history[row, done + 1 : done + ok + 1] = inputs.history[branch, done + 1 : done + ok + 1]
        span = slice(done // BLOCK_TOKENS, (done + ok - 1) // BLOCK_TOKENS + 1)
        for g, table in enumerate(inputs.tables):
            copies += [(g, a, b) for a, b in zip(table[branch, span].tolist(), table[row, span].tolist(), strict=True)]
    result.tokens = Ragged.of([result.tokens.row(j) for j in best.tolist()])
    result.n_ok = result.n_ok[best]
    result.logprobs = {i: result.logprobs[j] for i, j in enumerate(best.tolist()) if j in result.logprobs}
    result.failed = {i: result.failed[j] for i, j in enumerate(best.tolist()) if j in result.failed}
    inputs.give_back(fan.plan.rows[n:])
    return best.astype(np.int32), np.array(copies, np.int32).reshape(-1, 3)
