"""What attention, the KV cache and the rotary embedding compute, in plain numpy (float64 inside).

The native kernels in `csrc/attend` follow the operation order of ADR 001; this page only fixes the values they must come close to.
"""

from __future__ import annotations

import numpy as np

from headwater.kernels import reference_i16
from headwater.kernels.kv_formats import block_bytes, get, put
from headwater.kernels.ops import Attend, Rope
from headwater.kernels.program import BLOCK_TOKENS, KVArrays, Step


def new_cache(layers: int, blocks: int, kv_heads: int, head_dim: int, format: str = "f16") -> KVArrays:
    """A zeroed cache of one group.

    'f16': k float16[layers, blocks, kv_heads, head_dim, 16], v float16[layers, blocks, kv_heads, 16, head_dim].
    Coded formats (`kv_formats.py`): k and v uint8[layers, blocks, kv_heads, bytes]: the codes in the same order, then the scales, of
    'q8': of k as [ceil(head_dim / 32)][16 positions], of v as [16 positions][ceil(head_dim / 32)].
    """
    if format == "f16":
        return KVArrays(np.zeros((layers, blocks, kv_heads, head_dim, BLOCK_TOKENS), np.float16),
                        np.zeros((layers, blocks, kv_heads, BLOCK_TOKENS, head_dim), np.float16), format)
    k, v = (np.zeros((layers, blocks, kv_heads, block_bytes(format, head_dim, key=key)), np.uint8) for key in (True, False))
    return KVArrays(k, v, format)


def write_kv(step: Step, cache: KVArrays, spec: Attend, k: np.ndarray, v: np.ndarray) -> None:
    """Store the step's keys and values, f32[n, kv_heads · head_dim], rounded to the cache format, at their rows' blocks."""
    n = len(step.tokens)
    k = k[:n].reshape(n, spec.kv_heads, spec.head_dim)
    v = v[:n].reshape(n, spec.kv_heads, spec.head_dim)
    row_of = np.repeat(np.arange(len(step.row_start) - 1), np.diff(step.row_start))
    for t in range(n):
        pos = int(step.positions[t])
        block, slot = step.tables[spec.group][row_of[t], pos // BLOCK_TOKENS], pos % BLOCK_TOKENS
        if cache.format == "f16":
            cache.k[spec.layer, block, :, :, slot] = k[t].astype(np.float16)
            cache.v[spec.layer, block, :, slot, :] = v[t].astype(np.float16)
            continue
        put(cache.k[spec.layer, block], cache.format, slot, k[t], key=True)
        put(cache.v[spec.layer, block], cache.format, slot, v[t], key=False)


def gather_kv(table: np.ndarray, cache: KVArrays, spec: Attend, lo: int, hi: int) -> tuple[np.ndarray, np.ndarray]:
    """Keys and values of positions [lo, hi) of the row whose blocks are `table` int32[width]: float64[hi - lo, kv_heads, head_dim] each."""
    keys, values = [], []
    for pos in range(lo, hi):
        block, slot = table[pos // BLOCK_TOKENS], pos % BLOCK_TOKENS
        if cache.format == "f16":
            keys.append(cache.k[spec.layer, block, :, :, slot].astype(np.float64))
            values.append(cache.v[spec.layer, block, :, slot, :].astype(np.float64))
            continue
        keys.append(get(cache.k[spec.layer, block], cache.format, slot, spec.head_dim, key=True))
        values.append(get(cache.v[spec.layer, block], cache.format, slot, spec.head_dim, key=False))
    return np.stack(keys), np.stack(values)


def visible(position: int, end: int, spec: Attend) -> tuple[int, int]:
    """Which positions [lo, hi) a query at `position` sees in a row whose last token is at `end` - 1.

    A window counts the newest positions, itself included; without causality it reaches as far forward as it does back.
    """
    lo = max(0, position - spec.window + 1) if spec.window else 0
    if spec.causal:
        return lo, position + 1
    return lo, min(end, position + spec.window) if spec.window else end


def attend(step: Step, cache: KVArrays, spec: Attend, q: np.ndarray, k: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Write k, v and attend. q f32[n, heads · head_dim]; returns out float64[n, heads · head_dim], natural log-sum-exp float64[n, heads].

    softcap: scores become softcap · tanh(score · scale / softcap) (Gemma 2). Format 'i16' has an arithmetic of its own (`reference_i16.py`).
    """
    write_kv(step, cache, spec, k, v)
    n, group = len(step.tokens), spec.heads // spec.kv_heads
    out = np.zeros((n, spec.heads, spec.head_dim))
    lse = np.zeros((n, spec.heads))
    queries = q[:n].reshape(n, spec.heads, spec.head_dim).astype(np.float64)
    for row in range(len(step.row_start) - 1):
        first, last = int(step.row_start[row]), int(step.row_start[row + 1])
        if first == last:
            continue
        end = int(step.positions[last - 1]) + 1
        for t in range(first, last):
            if cache.format == "i16":
                seen = visible(int(step.positions[t]), end, spec)
                for h in range(spec.heads):
                    k_head, v_head = (x[spec.layer, :, h // group] for x in (cache.k, cache.v))
                    out[t, h], lse[t, h] = reference_i16.answer(
                        queries[t, h], step.tables[spec.group][row], k_head, v_head, *seen, spec.scale, spec.softcap)
                continue
            keys, values = gather_kv(step.tables[spec.group][row], cache, spec, *visible(int(step.positions[t]), end, spec))
            for h in range(spec.heads):
                scores = keys[:, h // group] @ queries[t, h] * spec.scale
                if spec.softcap:
                    scores = spec.softcap * np.tanh(scores / spec.softcap)
                weights = np.exp(scores - scores.max())
                lse[t, h] = scores.max() + np.log(weights.sum())
                out[t, h] = weights @ values[:, h // group] / weights.sum()
    return out.reshape(n, -1), lse


def merge_parts(outs: np.ndarray, lses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Join attention over disjoint parts: outs [parts, n, heads, head_dim], lses [parts, n, heads] -> out [n, heads, head_dim], lse [n, heads].

    A part that saw nothing has log-sum-exp -inf and is skipped whatever its output holds; if all are empty, out is 0 and lse -inf.
    """
    lses = lses.astype(np.float64)
    top = lses.max(0)
    weights = np.exp(lses - np.where(np.isneginf(top), 0.0, top))
    total = weights.sum(0)
    parts = np.where(weights[..., None] > 0, outs, 0).astype(np.float64)
    out = np.einsum("pnh,pnhd->nhd", weights, parts) / np.where(total > 0, total, 1.0)[..., None]
    with np.errstate(divide="ignore"):
        return out, top + np.log(total)


def copy_blocks(cache: KVArrays, pairs: np.ndarray) -> None:
    """Copy whole blocks in all layers; pairs int32[m, 2] of (from, to)."""
    for source, target in pairs:
        cache.k[:, target] = cache.k[:, source]
        cache.v[:, target] = cache.v[:, source]


def rope(x: np.ndarray, positions: np.ndarray, head_dim: int, spec: Rope) -> np.ndarray:
    """x f32[n, heads · head_dim] -> float64, every head turned by position · inv_freq (Su et al., 2104.09864, 3.2.2)."""
    n, half = len(positions), len(spec.inv_freq)
    heads = x.reshape(n, -1, head_dim).astype(np.float64)
    # the angle is a float32 product by definition, as everywhere else: at position 30,000 its rounding is worth 1e-3 radian
    angle = (positions.astype(np.float32)[:, None] * spec.inv_freq.astype(np.float32)).astype(np.float64)[:, None, :]
    cos, sin = np.cos(angle) * spec.mscale, np.sin(angle) * spec.mscale
    out = heads.copy()
    first = slice(0, 2 * half, 2) if spec.interleaved else slice(0, half)
    second = slice(1, 2 * half, 2) if spec.interleaved else slice(half, 2 * half)
    out[..., first] = heads[..., first] * cos - heads[..., second] * sin
    out[..., second] = heads[..., second] * cos + heads[..., first] * sin
    return out.reshape(n, -1)
