"""StepPlan and StepResult: what the scheduler wants done and what came back. Flat numpy arrays per batch; nothing is per token in Python."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntFlag
from typing import NamedTuple

import numpy as np

from headwater.core.kvspec import BLOCK_TOKENS
from headwater.core.params import SamplingParams
from headwater.core.request import ReadResult, ReadSpec, TokenLogprobs


class Ragged(NamedTuple):
    """flat int32[total]; start int32[rows + 1]."""

    flat: np.ndarray
    start: np.ndarray

    def row(self, i: int) -> np.ndarray:
        return self.flat[self.start[i] : self.start[i + 1]]

    @staticmethod
    def of(parts: list[np.ndarray]) -> Ragged:
        start = np.zeros(len(parts) + 1, np.int32)
        np.cumsum([len(p) for p in parts], out=start[1:])
        flat = np.concatenate(parts).astype(np.int32, copy=False) if parts else np.zeros(0, np.int32)
        return Ragged(flat, start)


MOST_GUESSES = 32                 # per row and step, of a chain and of each branch beside it
MOST_BRANCHES = 8                 # per step, of all rows
BRANCH_BLOCKS = 1 + -(-MOST_GUESSES // BLOCK_TOKENS)               # that a branch may touch, wherever in a block it begins


class Branches(NamedTuple):
    """Other ways on beside the chains of a step. row: int32[k], index of the row among those of the step; ids row j: the guesses of branch j, from
    behind the row's last sure token on; at least one, at most as many as the row's chain has."""

    row: np.ndarray
    ids: Ragged

    @staticmethod
    def of(parts: list[tuple[int, np.ndarray]]) -> Branches | None:
        """From (row, ids) pairs; None of nothing."""
        return Branches(np.array([r for r, _ in parts], np.int32), Ragged.of([ids for _, ids in parts])) if parts else None


class Guesses(NamedTuple):
    """What a step guesses: a chain per row, and branches beside them. laws: of chains that were drawn at random and are to be verified by rejection
    sampling: index of the row -> float64[guesses, vocabulary], what each guess was drawn from. A chain without a law is checked against the row's
    own draws, which is right for every chain."""

    chains: Ragged
    branches: Branches | None = None
    laws: dict[int, np.ndarray] | None = None


class Want(IntFlag):
    """What a row wants from this step. SAMPLE draws after its last token; READ serves its ReadSpec; MASK applies its grammar."""

    NONE = 0
    SAMPLE = 1
    READ = 2
    MASK = 4


@dataclass(slots=True)
class RowInit:
    """A row that the worker meets for the first time. tables: per cache group int32[blocks], -1 where nothing is kept (behind a window).

    history: the tokens known at the start (for penalties); prompt_len of them are the request's prompt. state_from: recurrent slot to start
    from, -1 = zeros. stop_ids are banned until `min_tokens` were drawn.
    """

    row: int
    request_id: str
    params: SamplingParams
    seed: int
    history: np.ndarray
    prompt_len: int
    tables: tuple[np.ndarray, ...]
    stop_ids: np.ndarray
    reads: ReadSpec = field(default_factory=ReadSpec)
    mask: str | None = None


@dataclass(slots=True)
class StepPlan:
    """One step. Row i of the plan is table row rows[i]; it computes tokens[i] at positions n_done[i] … n_done[i] + n_new[i] - 1.

    The last n_guess[i] of them are drafts to verify. new_blocks: per group, blocks appended to each row's table this step;
    trims: per group (row, block index) pairs whose table entry becomes -1. copies: int32[k, 3] of (group, from block, to block),
    done before anything is computed. state_in/state_out: recurrent slots per row (-1 = zeros / none).
    branches: further guesses for rows that have a chain; the path that holds longest counts, the chain on ties.
    Order in the worker: leaves, joins, trims, new_blocks, copies, compute, state_copies; a row index that leaves may join again in the same plan.
    """

    step: int
    rows: np.ndarray                                 # int32[R]
    n_done: np.ndarray                               # int32[R]
    n_new: np.ndarray                                # int32[R]
    n_guess: np.ndarray                              # int32[R]
    want: np.ndarray                                 # uint8[R], Want bits
    tokens: Ragged
    new_blocks: tuple[Ragged, ...]
    copies: np.ndarray
    joins: list[RowInit] = field(default_factory=list)
    leaves: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    trims: tuple[np.ndarray, ...] = ()               # per group int32[k, 2]
    state_in: np.ndarray | None = None               # int32[R]
    state_out: np.ndarray | None = None              # int32[R]
    state_copies: np.ndarray | None = None           # int32[k, 2] (from slot, to slot), done after the step: checkpoints
    branches: Branches | None = None
    laws: dict[int, np.ndarray] | None = None        # plan row index -> float64[n_guess, vocabulary], see `Guesses`

    @property
    def n_tokens(self) -> int:
        return int(self.tokens.start[-1])


@dataclass(slots=True)
class StepFeatures:
    """What a step costs by: new tokens, rows, read rows of the output matrix, KV positions attended to (sum over new tokens of their context:
    arithmetic), guessed tokens, KV positions held by the rows (each read from memory once, however many new tokens attend to it)."""

    tokens: int
    rows: int
    reads: int
    kv_positions: int
    guesses: int = 0
    kv_held: int = 0


@dataclass(slots=True)
class StepResult:
    """tokens: per plan row what was drawn (accepted drafts plus one; empty while a prompt is unfinished). n_ok: int32[R], computed tokens whose
    state is valid (n_new minus refused guesses; of a branch that held longer than the chain, its own). branch: plan row index -> that branch.
    reads, logprobs: by plan row index. failed: plan row index -> reason; a bad row fails alone.

    forced: plan row index -> ids that the row's grammar wants next (guesses like any other: they are checked against the masked draw).
    rollback_seconds: spent on what refused guesses leave behind: recurrent states that take in what held, blocks of a branch; part of `seconds`."""

    step: int
    tokens: Ragged
    n_ok: np.ndarray
    reads: dict[int, ReadResult] = field(default_factory=dict)
    logprobs: dict[int, list[TokenLogprobs]] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    seconds: float = 0.0
    forced: dict[int, np.ndarray] = field(default_factory=dict)
    rollback_seconds: float = 0.0
    branch: dict[int, int] = field(default_factory=dict)
