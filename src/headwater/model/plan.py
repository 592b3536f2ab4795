"""The memory plan: what a model will take, known from its file's tables before a weight is read."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.core.kvspec import KVSpec
from headwater.kernels.layouts import LAYOUT_OF, LAYOUTS
from headwater.kernels.lower import fuse_residuals, place
from headwater.kernels.program import Program
from headwater.model.load.tensors import Matrix, MatrixPart

FLOAT_TYPES = ("F32", "F16", "BF16")
QUANTISED_AS = {"q8": "Q8_0", "q4": "Q4_1"}
WEIGHT_OPTIONS = ("as-is", *QUANTISED_AS)


def packed_type(part: MatrixPart, weights: str, *, table: bool) -> str:
    """The encoding that a matrix of the file ends up in. table: it is the embedding or the output matrix, which stay at eight bits under 'q4'."""
    if weights == "as-is" or part.ggml_type not in FLOAT_TYPES or part.cols % 32:
        return part.ggml_type
    return QUANTISED_AS["q8" if table else weights]


def packed_nbytes(matrix: Matrix, weights: str, *, table: bool) -> int:
    """Bytes of a weight in memory."""
    return sum(LAYOUTS[LAYOUT_OF[packed_type(p, weights, table=table)]].nbytes(p.rows, p.cols) for p in matrix.parts)


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes of a loaded model.

    weights: packed matrices. vectors: norms, biases and tables in float32. kv_per_token: growth per position (groups that keep everything);
    kv_per_block_window: one block of all window groups. state_per_row: recurrent state of one row or checkpoint.
    scratch_per_token, scratch_per_read: what the native executor's arena takes per token of a step and per row that is read (logits included).
    """

    weights: int
    vectors: int
    kv: KVSpec
    scratch_per_token: int
    scratch_per_read: int

    @property
    def kv_per_token(self) -> int:
        return self.kv.bytes_per_token

    @property
    def state_per_row(self) -> int:
        return self.kv.bytes_per_slot

    def kv_bytes(self, tokens: int, rows: int = 1) -> int:
        """Cache for `rows` rows of `tokens` positions each: whole blocks, windows capped at what they can still read, one state slot a row."""
        total = 0
        for g in self.kv.groups:
            kept = min(tokens, g.window + 16) if g.kind == "window" else tokens
            total += rows * -(-kept // 16) * g.bytes_per_block
        return total + rows * self.state_per_row

    def total(self, tokens: int, rows: int, step_tokens: int) -> int:
        """Weights, cache and the scratch of steps of up to `step_tokens` tokens."""
        return self.weights + self.vectors + self.kv_bytes(tokens, rows) + step_tokens * self.scratch_per_token + rows * self.scratch_per_read


def plan_program(program: Program, weights: int, vectors: int, kv: KVSpec) -> MemoryPlan:
    """The plan of a recorded program (its weights may still be stand-ins)."""
    ops = fuse_residuals(program)
    ends = [at + dim for at, dim in zip(place(program, ops), program.dims, strict=True)]      # buffers share the executor's arena
    per_token = 4 * max((e for e, per_read in zip(ends, program.per_read, strict=True) if not per_read), default=0)
    per_read = 4 * max((e for e, per_read in zip(ends, program.per_read, strict=True) if per_read), default=0)
    per_token += max((x.dim for op in ops if op.kind == "linear" for x in op.inputs[:1]), default=0) * 3 // 2     # int8 rows, 16 bytes per 32
    vocab = program.head.weight.rows if program.head else 0
    return MemoryPlan(weights, vectors, kv, per_token, per_read + 4 * vocab)


def vector_bytes(program: Program) -> int:
    """Bytes of the unpacked arrays that a program holds."""
    arrays = {id(a): a.nbytes for op in program.ops for a in op.attrs.values() if hasattr(a, "nbytes") and hasattr(a, "dtype")}
    return sum(arrays.values())
