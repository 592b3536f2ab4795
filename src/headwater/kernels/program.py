"""A model as a recorded program: a family runs its page once on symbolic `Rows`; executors replay the operations on every step.

Recording removes Python from the hot path (one native call per step) and gives the reference and the native executor the same input.
A program turns the tokens of a step into the final hidden rows that somebody wants to read; `Program.head` turns hidden rows into logits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from headwater.kernels.weights import Weight

BLOCK_TOKENS = 16                 # positions per KV block; lane = position mod 16 (ADR 001)
CHUNK_TOKENS = 256                # positions per attention partial (ADR 001)


@dataclass(frozen=True, slots=True)
class Rows:
    """A float32[n, dim] array of the step that is not computed yet: columns [start, start + dim) of buffer `buffer`.

    n is the number of tokens of the step, or of read rows after `ops.reads`.
    """

    program: Program = field(repr=False)
    buffer: int
    start: int
    dim: int

    def __add__(self, other: Rows) -> Rows:
        return self.program.record("add", (self, other), self.dim)

    def __mul__(self, factor: float) -> Rows:
        return self.program.record("scale", (self,), self.dim, factor=float(factor))


@dataclass(frozen=True, slots=True)
class Op:
    """One recorded operation. `inputs` are Rows, `output` a whole buffer; `attrs` hold weights, numpy arrays and numbers."""

    kind: str
    inputs: tuple[Rows, ...]
    output: int
    attrs: dict[str, Any]


class Program:
    """The operations of one model in execution order. `dims[b]` is the width of buffer b, `per_read[b]` tells token rows from read rows."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.dims: list[int] = []
        self.per_read: list[bool] = []
        self.hidden: Rows | None = None          # what `run` returns: float32[n_reads, dim]
        self.head: Head | None = None

    def record(self, kind: str, inputs: tuple[Rows, ...], dim: int, *, per_read: bool | None = None, **attrs: Any) -> Rows:
        """Append an operation that fills a new buffer of width `dim`; inputs must be of this program and of one row kind."""
        if any(x.program is not self for x in inputs):
            raise ValueError(f"{kind}: inputs of another program")
        kinds = {self.per_read[x.buffer] for x in inputs}
        if len(kinds) > 1:
            raise ValueError(f"{kind}: mixes token rows and read rows")
        out = len(self.dims)
        self.dims.append(dim)
        self.per_read.append(bool(kinds and kinds.pop()) if per_read is None else per_read)
        self.ops.append(Op(kind, inputs, out, attrs))
        return Rows(self, out, 0, dim)


@dataclass(frozen=True, slots=True)
class Head:
    """The output matrix: logits = softcap(hidden · weightᵀ · scale). fine: see `ops.linear`."""

    weight: Weight
    softcap: float = 0.0
    scale: float = 1.0
    fine: bool = True


@dataclass(slots=True)
class Step:
    """One step's arrays, flat over rows (no padding). Row r owns tokens [row_start[r], row_start[r + 1]).

    tokens, positions: int32[n]; row_start: int32[rows + 1]; reads: int32[n_reads], indices into the n tokens.
    tables: per cache group int32[rows, width]; tables[g][r, p // 16] is the block of position p, -1 where nothing is kept.
    state_in, state_out: int32[rows], slots of recurrent state to read (-1 = zeros) and to write (-1 = none: the row's state stays what it was).
    keep: int32[k], rows whose recurrent layers' inputs stay until the next run, for `replay`.
    border: int32[rows], the position from which on a row's queries may read selectively (its prompt's length).
    """

    tokens: np.ndarray
    positions: np.ndarray
    row_start: np.ndarray
    reads: np.ndarray
    tables: list[np.ndarray]
    state_in: np.ndarray | None = None
    state_out: np.ndarray | None = None
    border: np.ndarray | None = None
    keep: np.ndarray | None = None


@dataclass(slots=True)
class Replay:
    """Rows kept by the last run, each at most once: which int32[n], their index in its `keep`; counts int32[n], how many of their tokens their state
    takes in; state_in, state_out int32[n], slots to start from (-1 = zeros) and to write."""

    which: np.ndarray
    counts: np.ndarray
    state_in: np.ndarray
    state_out: np.ndarray


@dataclass(slots=True)
class KVArrays:
    """The cache of one group of layers.

    format 'f16': k float16[layers, blocks, kv_heads, head_dim, 16], v float16[layers, blocks, kv_heads, 16, head_dim].
    """

    k: np.ndarray
    v: np.ndarray
    format: str = "f16"


@dataclass(slots=True)
class StateArrays:
    """Recurrent state by slot: name -> float32[layers, slots, ...]."""

    arrays: dict[str, np.ndarray]
