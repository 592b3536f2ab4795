"""What several family pages share: where tensors come from, what attention reads, how a page ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from headwater.kernels import ops
from headwater.kernels.program import Head, Program, Rows
from headwater.model.config import ModelConfig

if TYPE_CHECKING:
    from headwater.kernels.weights import Weight


class Tensors(Protocol):
    """The tensors of a model under their GGUF names. Every look-up states the expected shape and raises FormatError where the file differs.

    A page is run twice: once to check and plan, once with the weights packed.
    """

    def under(self, prefix: str) -> Tensors:
        """The same tensors, all names prefixed."""

    def has(self, name: str) -> bool: ...

    def vector(self, name: str, size: int) -> np.ndarray:
        """float32[size]."""

    def table(self, name: str, rows: int, cols: int) -> np.ndarray:
        """float32[rows, cols], never packed: tables that are added or convolved."""

    def matrix(self, name: str, rows: int, cols: int) -> Weight:
        """A packed matrix [rows, cols]."""

    def stack(self, cols: int, *named_rows: tuple[str, int]) -> Weight:
        """Matrices on top of each other, each packed in its own encoding: one product for several outputs of one input."""


def attention(c: ModelConfig, layer: int) -> ops.Attend:
    """What layer `layer` reads."""
    group, index = c.place(layer)
    return ops.Attend(
        group, index, c.heads, c.kv_heads, c.head_dim, c.attn_scale, window=c.windows[layer], softcap=c.attn_softcap, causal=c.causal
    )


def biases(t: Tensors, *named_sizes: tuple[str, int], required: bool = False) -> np.ndarray | None:
    """Biases of stacked outputs side by side, or None where the file has none of them."""
    if not required and not any(t.has(name) for name, _ in named_sizes):
        return None
    return np.concatenate([t.vector(name, size) for name, size in named_sizes])


def keep_reads(c: ModelConfig, layer: int, *rows: Rows) -> tuple[Rows, ...]:
    """After the last layer's attention nobody looks at other tokens: go on with the rows that are read."""
    return tuple(ops.reads(x) for x in rows) if layer == c.layers - 1 else rows


def swiglu(h: Rows, c: ModelConfig, t: Tensors) -> Rows:
    """silu(gate) · up, then down (Shazeer, 2002.05202)."""
    gate_up = t.stack(c.dim, ("ffn_gate.weight", c.ffn), ("ffn_up.weight", c.ffn))
    return ops.linear(ops.silu_mul(ops.linear(h, gate_up)), t.matrix("ffn_down.weight", c.dim, c.ffn))


def finish(x: Rows, c: ModelConfig, t: Tensors, embedding: Weight) -> Program:
    """Final norm and the output matrix: the file's own, or the embedding again."""
    own = not c.tied if c.tied is not None else t.has("output.weight")
    program = x.program
    program.hidden = ops.rms_norm(x, t.vector("output_norm.weight", c.dim), c.eps)
    program.head = Head(t.matrix("output.weight", c.vocab, c.dim) if own else embedding, softcap=c.logit_softcap, scale=c.logit_scale)
    return program
