"""A recorded program on one whole sequence in float64: no cache, no blocks, no quantised activations, no kernels of ours.

The yardstick for pages (against recorded logits of another library) and for executors (against the same program).
"""

from __future__ import annotations

import math

import numpy as np

from headwater.kernels.program import Op, Program

F = np.float64


def forward(program: Program, ids: np.ndarray, weights: dict[int, np.ndarray] | None = None) -> np.ndarray:
    """float64[n, vocab] logits of all positions (hidden rows for programs without an output matrix). weights: cache of dequantised matrices."""
    cache: dict[int, np.ndarray] = {} if weights is None else weights
    buffers: list[np.ndarray] = [np.empty(0)] * len(program.dims)
    for op in program.ops:
        inputs = [buffers[r.buffer][:, r.start : r.start + r.dim] for r in op.inputs]
        buffers[op.output] = _run(op, inputs, ids, cache)
    last = program.hidden
    assert last is not None
    hidden = buffers[last.buffer][:, last.start : last.start + last.dim]
    if program.head is None:
        return hidden
    logits = hidden @ _dense(program.head.weight, cache).T * program.head.scale
    return program.head.softcap * np.tanh(logits / program.head.softcap) if program.head.softcap else logits


def _dense(weight, cache: dict[int, np.ndarray]) -> np.ndarray:
    if id(weight) not in cache:
        cache[id(weight)] = weight.dequantise().astype(F)
    return cache[id(weight)]


def _run(op: Op, x: list[np.ndarray], ids: np.ndarray, cache: dict[int, np.ndarray]) -> np.ndarray:
    a = op.attrs
    match op.kind:
        case "embed":
            return _dense(a["weight"], cache)[ids]
        case "position_embed":
            return x[0] + a["weight"][: len(ids)].astype(F)
        case "linear":
            return x[0] @ _dense(a["weight"], cache).T + (0.0 if a["bias"] is None else a["bias"].astype(F))
        case "rms_norm":
            return _rms(x[0], a["weight"], a["eps"])
        case "gated_rms_norm":
            return _rms(x[0], a["weight"], a["eps"]) * _silu(x[1])
        case "layer_norm":
            centred = x[0] - x[0].mean(-1, keepdims=True)
            return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + a["eps"]) * a["weight"] + a["bias"]
        case "add":
            return x[0] + x[1]
        case "scale":
            return x[0] * a["factor"]
        case "silu_mul":
            gate, up = np.split(x[0], 2, axis=1)
            return _silu(gate) * up
        case "gelu_mul":
            gate, up = np.split(x[0], 2, axis=1)
            return 0.5 * gate * (1 + np.tanh(math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3))) * up
        case "gelu":
            return 0.5 * x[0] * (1 + np.vectorize(math.erf)(x[0] / math.sqrt(2)))
        case "sigmoid_mul":
            return x[0] / (1 + np.exp(-x[1]))
        case "reads":
            return x[0]
        case "rope":
            return _rope(x[0], a["head_dim"], a["spec"])
        case "attend":
            return _attend(*x, a["spec"])
        case "short_conv":
            return _conv(x[0], a["weight"].astype(F), a["activation"])
        case "gated_delta":
            return _delta(*x, a["a_log"].astype(F), a["dt_bias"].astype(F), a["spec"])
    raise NotImplementedError(op.kind)


def _silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


def _rms(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    heads = x.reshape(len(x), -1, len(weight))
    return (heads / np.sqrt((heads**2).mean(-1, keepdims=True) + eps) * weight).reshape(x.shape)


def _rope(x: np.ndarray, head_dim: int, spec) -> np.ndarray:
    """As a multiplication of complex numbers, pair by pair."""
    heads = x.reshape(len(x), -1, head_dim).copy()
    turn = spec.mscale * np.exp(1j * np.arange(len(x))[:, None] * spec.inv_freq.astype(F))[:, None, :]
    half = spec.dims // 2
    first, second = (slice(0, spec.dims, 2), slice(1, spec.dims, 2)) if spec.interleaved else (slice(0, half), slice(half, spec.dims))
    turned = (heads[..., first] + 1j * heads[..., second]) * turn
    heads[..., first], heads[..., second] = turned.real, turned.imag
    return heads.reshape(x.shape)


def _attend(q: np.ndarray, k: np.ndarray, v: np.ndarray, spec) -> np.ndarray:
    n = len(q)
    q = q.reshape(n, spec.heads, spec.head_dim)
    k, v = (np.repeat(y.reshape(n, spec.kv_heads, spec.head_dim), spec.heads // spec.kv_heads, axis=1) for y in (k, v))
    scores = np.einsum("qhd,khd->hqk", q, k) * spec.scale
    if spec.softcap:
        scores = spec.softcap * np.tanh(scores / spec.softcap)
    behind = np.arange(n)[:, None] - np.arange(n)[None, :]
    seen = (behind >= (0 if spec.causal else -n)) & (behind < (spec.window or n + 1))
    scores = np.where(seen, scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hqk,khd->qhd", p / p.sum(-1, keepdims=True), v).reshape(n, -1)


def _conv(x: np.ndarray, weight: np.ndarray, activation: bool) -> np.ndarray:
    width = weight.shape[1]
    padded = np.concatenate([np.zeros((width - 1, x.shape[1])), x])
    y = sum(padded[i : i + len(x)] * weight[:, i] for i in range(width))
    return _silu(y) if activation else y


def _delta(q, k, v, beta, decay, a_log, dt_bias, spec) -> np.ndarray:
    n = len(q)
    q, k = (y.reshape(n, spec.key_heads, spec.key_dim) for y in (q, k))
    q, k = (y / np.sqrt((y**2).sum(-1, keepdims=True) + 1e-6) for y in (q, k))
    v = v.reshape(n, spec.value_heads, spec.value_dim)
    beta, alpha = 1 / (1 + np.exp(-beta)), np.exp(-np.exp(a_log) * np.log1p(np.exp(decay + dt_bias)))
    out = np.empty_like(v)
    group = spec.value_heads // spec.key_heads
    for h in range(spec.value_heads):
        state = np.zeros((spec.value_dim, spec.key_dim))
        for t in range(n):
            key = k[t, h // group]
            state *= alpha[t, h]
            state += beta[t, h] * np.outer(v[t, h] - state @ key, key)
            out[t, h] = state @ q[t, h // group] / math.sqrt(spec.key_dim)
    return out.reshape(n, -1)
