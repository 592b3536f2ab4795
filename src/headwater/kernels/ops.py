"""The words that model families are written in. Each records one operation; definitions: `reference.py`, choices: `table.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headwater.kernels.program import Program, Rows

if TYPE_CHECKING:
    from headwater.kernels.weights import Weight


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary embedding. inv_freq: float32[dims / 2], angles are position · inv_freq; the first `dims` channels of each head turn.

    interleaved: pairs (2i, 2i + 1) (GPT-J and GGUF llama order) instead of (i, i + dims / 2) (GPT-NeoX order). mscale multiplies cos and sin.
    """

    inv_freq: np.ndarray
    interleaved: bool = False
    mscale: float = 1.0

    @property
    def dims(self) -> int:
        return 2 * len(self.inv_freq)


@dataclass(frozen=True, slots=True)
class Attend:
    """What one layer's attention reads. window: how many newest positions a query sees, itself included; 0 = all. softcap: 0 = none."""

    group: int                    # cache group
    layer: int                    # index of the layer inside its group
    heads: int
    kv_heads: int
    head_dim: int
    scale: float
    window: int = 0
    softcap: float = 0.0
    causal: bool = True


def embed(program: Program, weight: Weight) -> Rows:
    """tokens int32[n], weight [vocabulary, dim] -> f32[n, dim]; rows are dequantised."""
    return program.record("embed", (), weight.cols, per_read=False, weight=weight)


def position_embed(x: Rows, weight: np.ndarray) -> Rows:
    """x + weight[positions]; weight: f32[context, dim] (BERT)."""
    return x.program.record("position_embed", (x,), x.dim, weight=weight)


def rms_norm(x: Rows, weight: np.ndarray, eps: float) -> Rows:
    """x: f32[n, dim], weight: f32[dim or head_dim]. A shorter weight normalises each head of that width by itself."""
    if x.dim % len(weight):
        raise ValueError(f"rms_norm: width {x.dim} is not a multiple of {len(weight)}")
    return x.program.record("rms_norm", (x,), x.dim, weight=weight, eps=float(eps))


def layer_norm(x: Rows, weight: np.ndarray, bias: np.ndarray, eps: float) -> Rows:
    """x: f32[n, dim] -> f32[n, dim], mean and variance over dim, then weight and bias f32[dim]."""
    return x.program.record("layer_norm", (x,), x.dim, weight=weight, bias=bias, eps=float(eps))


def linear(x: Rows, weight: Weight, bias: np.ndarray | None = None, *, fine: bool = False) -> Rows:
    """x: f32[n, cols] · weightᵀ [rows, cols] + bias f32[rows] -> f32[n, rows].

    fine: activations as two int8 terms, the value and what its rounding left out, where their error costs most (ADR 006).
    """
    if x.dim != weight.cols:
        raise ValueError(f"linear: input is {x.dim} wide, the weight wants {weight.cols}")
    return x.program.record("linear", (x,), weight.rows, weight=weight, bias=bias, fine=fine)


def split(x: Rows, *dims: int) -> tuple[Rows, ...]:
    """Column ranges of x, in order, without a copy; dims must add up to x.dim."""
    if sum(dims) != x.dim:
        raise ValueError(f"split: {dims} does not add up to {x.dim}")
    starts = np.cumsum((0, *dims[:-1]))
    return tuple(Rows(x.program, x.buffer, x.start + int(s), d) for s, d in zip(starts, dims, strict=True))


def rope(x: Rows, head_dim: int, spec: Rope) -> Rows:
    """x: f32[n, heads · head_dim], each head turned by its token's position."""
    return x.program.record("rope", (x,), x.dim, head_dim=head_dim, spec=spec)


def attend(q: Rows, k: Rows, v: Rows, spec: Attend) -> Rows:
    """Write k, v f32[n, kv_heads · head_dim] to the cache (rounded to its format), then attend with q over the row's blocks.

    q: f32[n, heads · head_dim] -> f32[n, heads · head_dim].
    """
    return q.program.record("attend", (q, k, v), spec.heads * spec.head_dim, spec=spec)


def silu_mul(gate_up: Rows) -> Rows:
    """f32[n, 2·d] = [gate | up] -> silu(gate) · up, f32[n, d]."""
    return gate_up.program.record("silu_mul", (gate_up,), gate_up.dim // 2)


def gelu_mul(gate_up: Rows) -> Rows:
    """f32[n, 2·d] = [gate | up] -> gelu_tanh(gate) · up, f32[n, d]."""
    return gate_up.program.record("gelu_mul", (gate_up,), gate_up.dim // 2)


def gelu(x: Rows) -> Rows:
    """Exact gelu (erf), f32[n, d] (BERT)."""
    return x.program.record("gelu", (x,), x.dim)


def reads(x: Rows) -> Rows:
    """Keep the rows that somebody reads: f32[n, dim] -> f32[n_reads, dim]."""
    return x.program.record("reads", (x,), x.dim, per_read=True)


def short_conv(x: Rows, weight: np.ndarray, state: str, layer: int, *, activation: bool) -> Rows:
    """Causal depthwise convolution over time. weight: f32[dim, width]; the last width - 1 inputs of a row live in state `state`.

    activation: silu after it.
    """
    return x.program.record("short_conv", (x,), x.dim, weight=weight, state=state, layer=layer, activation=activation)


@dataclass(frozen=True, slots=True)
class GatedDelta:
    """Gated delta rule (Yang et al., 2412.06464): S ← α S; S ← S + β (v − S k) kᵀ; o = S q / sqrt(key_dim), q and k l2-normalised per head.

    key_heads divides value_heads; state `state` is f32[value_heads, value_dim, key_dim] per slot.
    """

    state: str
    layer: int
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int


def gated_delta(q: Rows, k: Rows, v: Rows, beta: Rows, decay: Rows, a_log: np.ndarray, dt_bias: np.ndarray, spec: GatedDelta) -> Rows:
    """Sequential float32 update in token order. beta, decay: f32[n, value_heads] raw.

    Inside: β = sigmoid(beta), α = exp(−exp(a_log) · softplus(decay + dt_bias)).
    """
    return q.program.record("gated_delta", (q, k, v, beta, decay), spec.value_heads * spec.value_dim, a_log=a_log, dt_bias=dt_bias, spec=spec)


def gated_rms_norm(x: Rows, gate: Rows, weight: np.ndarray, eps: float) -> Rows:
    """rms_norm(x) per head of len(weight), times silu(gate)."""
    return x.program.record("gated_rms_norm", (x, gate), x.dim, weight=weight, eps=float(eps))


def sigmoid_mul(x: Rows, gate: Rows) -> Rows:
    """x · sigmoid(gate), elementwise (gated attention output)."""
    return x.program.record("sigmoid_mul", (x, gate), x.dim)
