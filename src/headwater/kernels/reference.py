"""What every operation computes, in numpy. `run` replays a recorded program with these definitions.

Two meanings of a product with a quantised weight: 'float' multiplies dequantised float32 weights with float32 activations (the judge of
accuracy), 'exact' follows the integer contract of ADR 001 to the bit (the judge of the native kernels).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headwater.kernels import reference_attention, reference_pattern, reference_select
from headwater.kernels.ops import Attend, GatedDelta
from headwater.kernels.pattern import Pattern
from headwater.kernels.program import Head, KVArrays, Op, Program, Replay, Rows, StateArrays, Step
from headwater.kernels.select import Selection
from headwater.kernels.weights import Part, Weight

BLOCK = 32


def fma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """float32 fused multiply-add, rounded once.

    The product of two float32 is exact in float64; the sum is rounded to odd there, so that the second rounding to float32 is the only one
    (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
    """
    product = a.astype(np.float64) * b.astype(np.float64)
    wide = np.asarray(c, np.float64)
    total = product + wide
    back = total - product
    error = (product - (total - back)) + (wide - back)
    even = (total.view(np.int64) & 1) == 0
    with np.errstate(invalid="ignore"):
        fixed = np.where((error != 0) & even, np.nextafter(total, np.where(error > 0, np.inf, -np.inf)), total)
    return fixed.astype(np.float32)


def quantise_rows(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x: f32[n, cols], cols a multiple of 32 -> int8[n, cols] in [-127, 127], f32[n, cols / 32] scales (amax / 127).

    A block below 1e-30 counts as zero; a block with a value that is not finite has the scale NaN.
    """
    blocks = x.reshape(len(x), x.shape[1] // BLOCK, BLOCK)
    amax = np.abs(blocks).max(axis=2)
    finite = np.isfinite(blocks).all(axis=2)
    tiny = finite & (amax < np.float32(1e-30))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        inverse = np.where(finite & ~tiny, np.float32(127) / amax, np.float32(0)).astype(np.float32)
        q = np.clip(np.rint(np.where(finite[..., None], blocks, 0) * inverse[..., None]), -127, 127).astype(np.int8)
        scale = np.where(tiny, np.float32(0), np.where(finite, amax / np.float32(127), np.float32(np.nan))).astype(np.float32)
    return q.reshape(x.shape), scale


def linear(x: np.ndarray, weight: Weight, bias: np.ndarray | None = None, mode: str = "float", fine: bool = False) -> np.ndarray:
    """x: f32[n, cols] -> f32[n, rows] = x · Wᵀ + bias. mode: 'float' or 'exact'. fine: the product of the activations' remainder is added."""
    if mode == "float":
        y = x @ weight.dequantise().T
    else:
        y = np.concatenate([_exact_floats(x, p) if p.layout.is_float else _exact_blocks(x, p) for p in weight.parts], axis=1)
    if bias is not None:
        y = (y + bias).astype(np.float32)
    if fine and mode == "exact":
        left = remainder(x)
        parts = [np.zeros((len(x), p.rows), np.float32) if p.layout.is_float else _exact_blocks(left, p) for p in weight.parts]
        y = (y + np.concatenate(parts, axis=1)).astype(np.float32)
    return y


def remainder(x: np.ndarray) -> np.ndarray:
    """What the rounding of activations leaves out: x - q · scale with one rounding, f32[n, cols]."""
    q, scale = quantise_rows(x)
    with np.errstate(invalid="ignore"):
        return fma(q.astype(np.float32), -np.repeat(scale, BLOCK, axis=1), x)


def _exact_floats(x: np.ndarray, part: Part) -> np.ndarray:
    """One fma per column, ascending."""
    w = part.dequantise()
    y = np.zeros((len(x), part.rows), np.float32)
    for k in range(part.cols):
        y = fma(w[:, k][None, :], x[:, k][:, None], y)
    return y


def _exact_blocks(x: np.ndarray, part: Part) -> np.ndarray:
    """Per block: acc = fma(float(dot), w_scale · a_scale, acc); then acc = fma(w_min, a_scale · float(a_sum), acc)."""
    codes = part.codes()
    scale, minimum = codes.scales()
    q, a_scale = quantise_rows(x)
    signed = codes.q.astype(np.int32) - codes.offset
    a = q.astype(np.int32)
    y = np.zeros((len(x), part.rows), np.float32)
    for s in range(part.cols // codes.gran):
        cols = slice(s * codes.gran, (s + 1) * codes.gran)
        dot = a[:, cols] @ signed[:, cols].T
        of_block = a_scale[:, s * codes.gran // BLOCK][:, None]
        y = fma(dot.astype(np.float32), scale[:, s][None, :] * of_block, y)
        if minimum is not None:
            y = fma(minimum[:, s][None, :], of_block * a[:, cols].sum(axis=1, keepdims=True).astype(np.float32), y)
    return y


def rms_norm(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    """x: f32[n, dim], weight: f32[width], width divides dim: every head of that width alone; mean of squares in float64."""
    heads = x.reshape(len(x), x.shape[1] // len(weight), len(weight)).astype(np.float64)
    return (heads / np.sqrt((heads**2).mean(axis=2, keepdims=True) + eps) * weight).reshape(x.shape).astype(np.float32)


def layer_norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float) -> np.ndarray:
    """x: f32[n, dim]; mean and variance over dim in float64."""
    wide = x.astype(np.float64)
    centred = wide - wide.mean(axis=1, keepdims=True)
    return (centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + eps) * weight + bias).astype(np.float32)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """float64, without overflow."""
    wide = x.astype(np.float64)
    e = np.exp(-np.abs(wide))
    return np.where(wide >= 0, 1.0, e) / (1.0 + e)


def silu_mul(gate_up: np.ndarray) -> np.ndarray:
    """f32[n, 2·d] -> silu(gate) · up, f32[n, d]."""
    gate, up = np.split(gate_up, 2, axis=1)
    return (gate * sigmoid(gate) * up).astype(np.float32)


def gelu_mul(gate_up: np.ndarray) -> np.ndarray:
    """f32[n, 2·d] -> gelu(gate) · up with the tanh form of gelu, f32[n, d]."""
    gate, up = (half.astype(np.float64) for half in np.split(gate_up, 2, axis=1))
    inner = np.sqrt(2.0 / np.pi) * (gate + 0.044715 * gate**3)
    return (0.5 * gate * (1.0 + np.tanh(inner)) * up).astype(np.float32)


def gelu(x: np.ndarray) -> np.ndarray:
    """x / 2 · (1 + erf(x / √2)), f32[n, d]."""
    from math import erf

    return (0.5 * x.astype(np.float64) * (1.0 + np.vectorize(erf, otypes=[float])(x / np.sqrt(2.0)))).astype(np.float32)


def sigmoid_mul(x: np.ndarray, gate: np.ndarray) -> np.ndarray:
    """x · sigmoid(gate)."""
    return (x * sigmoid(gate)).astype(np.float32)


def gated_rms_norm(x: np.ndarray, gate: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    """rms_norm(x) per head of len(weight), times silu(gate)."""
    return (rms_norm(x, weight, eps) * (gate * sigmoid(gate))).astype(np.float32)


def softcap(x: np.ndarray, scale: float, cap: float) -> np.ndarray:
    """cap · tanh(x · scale / cap); cap 0 = x · scale."""
    scaled = x * np.float32(scale)
    return scaled if cap == 0 else (np.tanh(scaled.astype(np.float64) / cap) * cap).astype(np.float32)


def short_conv(x: np.ndarray, weight: np.ndarray, past: np.ndarray, activation: bool) -> tuple[np.ndarray, np.ndarray]:
    """One sequence. x: f32[n, dim], weight: f32[dim, width], past: f32[dim, width - 1], oldest first -> (f32[n, dim], new past)."""
    width = weight.shape[1]
    inputs = np.concatenate((past.T, x))
    y = np.stack([(inputs[t : t + width].astype(np.float64) * weight.T).sum(axis=0) for t in range(len(x))]) if len(x) else x
    if activation:
        y = y * sigmoid(y)
    return y.astype(np.float32), np.ascontiguousarray(inputs[len(x) :].T)


def gated_delta(q: np.ndarray, k: np.ndarray, v: np.ndarray, beta: np.ndarray, decay: np.ndarray, a_log: np.ndarray, dt_bias: np.ndarray,
                spec: GatedDelta, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One sequence in float64. state: [value_heads, value_dim, key_dim] -> (f32[n, value_heads · value_dim], new state)."""
    n, share = len(q), spec.value_heads // spec.key_heads

    def heads(x: np.ndarray) -> np.ndarray:
        wide = x.reshape(n, spec.key_heads, spec.key_dim).astype(np.float64)
        return np.repeat(wide / np.sqrt((wide**2).sum(axis=2, keepdims=True) + 1e-6), share, axis=1)

    queries, keys = heads(q) / np.sqrt(spec.key_dim), heads(k)
    values = v.reshape(n, spec.value_heads, spec.value_dim).astype(np.float64)
    alpha = np.exp(-np.exp(a_log.astype(np.float64)) * np.logaddexp(0.0, decay.astype(np.float64) + dt_bias))
    strength = sigmoid(beta)
    s = state.astype(np.float64)
    out = np.empty((n, spec.value_heads, spec.value_dim))
    for t in range(n):
        s = s * alpha[t][:, None, None]
        update = strength[t][:, None] * (values[t] - np.einsum("hvk,hk->hv", s, keys[t]))
        s = s + update[:, :, None] * keys[t][:, None, :]
        out[t] = np.einsum("hvk,hk->hv", s, queries[t])
    return out.reshape(n, -1).astype(np.float32), s.astype(np.float32)


def logits(hidden: np.ndarray, head: Head, mode: str = "float") -> np.ndarray:
    """f32[n, dim] -> f32[n, vocabulary]."""
    return softcap(linear(hidden, head.weight, mode=mode, fine=head.fine), head.scale, head.softcap)


RECURRENT = ("short_conv", "gated_delta")


class ReferenceProgram:
    """A program run by the definitions above; the same interface as lower.NativeProgram."""

    def __init__(self, program: Program, mode: str = "float") -> None:
        self.program = program
        self.mode = mode
        self._kept: list[list[tuple[Op, list[np.ndarray]]]] = []    # by kept row: recurrent operations and their inputs

    def run(
        self, step: Step, kv: list[KVArrays], states: StateArrays | None = None, selection: Selection | Pattern | None = None,
    ) -> np.ndarray:
        """-> float32[n_reads, dim]; keys, values and states of the step are written."""
        self._kept = [[] for _ in range(0 if step.keep is None else len(step.keep))]
        return run(self.program, step, kv, states, self.mode, selection, self._kept)

    def replay(self, rows: Replay, states: StateArrays) -> None:
        """Recurrent layers take in the first tokens of kept rows."""
        for r, n, source, target in zip(rows.which.tolist(), rows.counts.tolist(), rows.state_in, rows.state_out, strict=True):
            one = Step(np.zeros(n, np.int32), np.zeros(n, np.int32), np.array([0, n], np.int32), np.zeros(0, np.int32), [],
                       np.array([source], np.int32), np.array([target], np.int32))
            for op, inputs in self._kept[r]:
                _OPS[op.kind](op, [x[:n] for x in inputs], one, [], states, self.mode)


def run(
    program: Program, step: Step, kv: list[KVArrays], states: StateArrays | None = None, mode: str = "float",
    selection: Selection | Pattern | None = None, kept: list[list[tuple[Op, list[np.ndarray]]]] | None = None,
    watch: Callable[[Attend, np.ndarray, np.ndarray, np.ndarray], np.ndarray] | None = None,
) -> np.ndarray:
    """Replay a program over one step -> float32[n_reads, dim]. selection: queries that read only part of the cache.

    kept: per row of `step.keep`, receives its recurrent operations with their inputs. watch: called for every attention instead of it with
    (what it reads, q, k, v) as `reference_attention.attend` takes them.
    """
    buffers: dict[int, np.ndarray] = {}

    def value(x: Rows) -> np.ndarray:
        return np.ascontiguousarray(buffers[x.buffer][:, x.start : x.start + x.dim])

    for op in program.ops:
        inputs = [value(x) for x in op.inputs]
        if kept and step.keep is not None and op.kind in RECURRENT:
            for into, r in zip(kept, step.keep.tolist(), strict=True):
                into.append((op, [x[step.row_start[r] : step.row_start[r + 1]] for x in inputs]))
        if op.kind == "attend" and watch is not None:
            buffers[op.output] = np.asarray(watch(op.attrs["spec"], *inputs), np.float32)
            continue
        if op.kind == "attend" and selection is not None and op.attrs["spec"].group == selection.group:
            q, k, v = inputs
            cache, spec = kv[selection.group], op.attrs["spec"]
            if isinstance(selection, Pattern):
                part = reference_pattern.attend(step, cache, spec, q, k, v, selection)
            else:
                part = reference_select.attend(step, cache, spec, q, k, v, selection)
            buffers[op.output] = part.astype(np.float32)
            continue
        buffers[op.output] = np.asarray(_OPS[op.kind](op, inputs, step, kv, states, mode), np.float32)
    assert program.hidden is not None
    return value(program.hidden)


def _attend(op: Op, x: list[np.ndarray], step: Step, kv: list[KVArrays]) -> np.ndarray:
    out, _ = reference_attention.attend(step, kv[op.attrs["spec"].group], op.attrs["spec"], *x)
    return out.reshape(len(x[0]), -1)


_OneRow = Callable[[slice, np.ndarray], tuple[np.ndarray, np.ndarray]]


def _by_row(step: Step, states: StateArrays | None, name: str, layer: int, one: _OneRow) -> np.ndarray:
    """Run `one(tokens of a row, its state)` for each row; states are read and written by slot."""
    assert states is not None and step.state_in is not None and step.state_out is not None
    slots = states.arrays[name][layer]
    outs = []
    for r, (a, b) in enumerate(zip(step.row_start[:-1], step.row_start[1:], strict=True)):
        before = np.zeros_like(slots[0]) if step.state_in[r] < 0 else slots[step.state_in[r]]
        y, after = one(slice(int(a), int(b)), before)
        if step.state_out[r] >= 0:
            slots[step.state_out[r]] = after
        outs.append(y)
    return np.concatenate(outs)


def _short_conv(op: Op, x: list[np.ndarray], step: Step, states: StateArrays | None) -> np.ndarray:
    a = op.attrs
    return _by_row(step, states, a["state"], a["layer"], lambda rows, past: short_conv(x[0][rows], a["weight"], past, a["activation"]))


def _gated_delta(op: Op, x: list[np.ndarray], step: Step, states: StateArrays | None) -> np.ndarray:
    a, spec = op.attrs, op.attrs["spec"]

    def one(rows: slice, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        q, k, v, beta, decay = (y[rows] for y in x)
        return gated_delta(q, k, v, beta, decay, a["a_log"], a["dt_bias"], spec, state)

    return _by_row(step, states, spec.state, spec.layer, one)


_Run = Callable[[Op, list[np.ndarray], Step, list[KVArrays], "StateArrays | None", str], Any]
_OPS: dict[str, _Run] = {
    "embed": lambda op, x, step, kv, st, mode: op.attrs["weight"].gather(step.tokens),
    "position_embed": lambda op, x, step, kv, st, mode: x[0] + op.attrs["weight"][step.positions],
    "rms_norm": lambda op, x, step, kv, st, mode: rms_norm(x[0], op.attrs["weight"], op.attrs["eps"]),
    "layer_norm": lambda op, x, step, kv, st, mode: layer_norm(x[0], op.attrs["weight"], op.attrs["bias"], op.attrs["eps"]),
    "linear": lambda op, x, step, kv, st, mode: linear(x[0], op.attrs["weight"], op.attrs["bias"], mode, op.attrs["fine"]),
    "rope": lambda op, x, step, kv, st, mode: reference_attention.rope(x[0], step.positions, op.attrs["head_dim"], op.attrs["spec"]),
    "attend": lambda op, x, step, kv, st, mode: _attend(op, x, step, kv),
    "silu_mul": lambda op, x, step, kv, st, mode: silu_mul(x[0]),
    "gelu_mul": lambda op, x, step, kv, st, mode: gelu_mul(x[0]),
    "gelu": lambda op, x, step, kv, st, mode: gelu(x[0]),
    "reads": lambda op, x, step, kv, st, mode: x[0][step.reads],
    "add": lambda op, x, step, kv, st, mode: x[0] + x[1],
    "scale": lambda op, x, step, kv, st, mode: x[0] * np.float32(op.attrs["factor"]),
    "short_conv": lambda op, x, step, kv, st, mode: _short_conv(op, x, step, st),
    "gated_delta": lambda op, x, step, kv, st, mode: _gated_delta(op, x, step, st),
    "gated_rms_norm": lambda op, x, step, kv, st, mode: gated_rms_norm(x[0], x[1], op.attrs["weight"], op.attrs["eps"]),
    "sigmoid_mul": lambda op, x, step, kv, st, mode: sigmoid_mul(x[0], x[1]),
}
