"""Attention in cache format 'i16' by its definition (ADR 011): whole numbers where the native kernels have them, float64 everywhere else."""

from __future__ import annotations

import numpy as np

from headwater.kernels.kv_formats import codes_i16, quantise_i16, split_i16
from headwater.kernels.program import BLOCK_TOKENS

CHUNK = 256                       # positions of a partial (ADR 001)
WEIGHT_BITS, UNIT = 14, 128       # the largest weight of a chunk lies just below 2^14; products of codes are counted in units of 128
LOG2E = np.float32(1.44269504088896341)


def products(high: np.ndarray, low: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Codes 128 · high + low [n] times codes int[m, n] -> int64[m], in units of 128 and without low · low."""
    return codes.astype(np.int64) @ high.astype(np.int64) + split_i16(codes)[0].astype(np.int64) @ low.astype(np.int64)


def chunk_partial(
    query: tuple[np.ndarray, np.ndarray, float], keys: np.ndarray, key_scales: np.ndarray, values: np.ndarray, exponents: np.ndarray, softcap: float
) -> tuple[np.ndarray, float, float]:
    """The partial of one query over at most 256 positions: output [head_dim], sum and the reference (base 2) that both are relative to.

    query: high and low codes, scale. keys, values: codes int[n, head_dim]; exponents: of the values' scales.
    """
    high, low, scale = query
    scores = products(high, low, keys) * (UNIT * scale * key_scales)
    if softcap:
        scores = np.tanh(scores) * (softcap * float(LOG2E))
    lifted = scores + exponents
    reference = np.floor(lifted.max() + 2.0**-10) - (WEIGHT_BITS - 1)
    weights = np.exp2(np.maximum(lifted - reference, -100.0))
    codes = np.rint(weights).astype(np.int64)
    total = (weights / np.exp2(exponents)).sum() / UNIT
    return products(codes >> 7, codes & 127, values.T).astype(np.float64), float(total), float(reference + np.log2(UNIT))


def answer(
    q: np.ndarray, table: np.ndarray, k: np.ndarray, v: np.ndarray, lo: int, hi: int, scale: float, softcap: float
) -> tuple[np.ndarray, float]:
    """One query f32[head_dim] over positions [lo, hi) of a row: output float64[head_dim] and the natural log-sum-exp.

    table: int32[width]; k, v: uint8[blocks, bytes], the blocks of one kv head.
    """
    factor = np.float32(scale) / np.float32(softcap) if softcap else np.float32(scale) * LOG2E
    codes, step = quantise_i16(q.astype(np.float32) * factor, key=True)
    query = (*split_i16(codes), float(step))
    out, total, top = np.zeros(len(q)), 0.0, -np.inf
    for chunk in range(lo // CHUNK, (hi - 1) // CHUNK + 1):
        positions = range(max(lo, chunk * CHUNK), min(hi, (chunk + 1) * CHUNK))
        stored = [(codes_i16(k[None, b], len(q), s, key=True), codes_i16(v[None, b], len(q), s, key=False))
                  for b, s in ((table[p // BLOCK_TOKENS], p % BLOCK_TOKENS) for p in positions)]
        (keys, key_scales), (values, exponents) = ((np.stack([c[0] for c, _ in part]), np.array([float(s[0]) for _, s in part]))
                                                   for part in zip(*stored, strict=True))
        part, part_sum, reference = chunk_partial(query, keys, key_scales, values, exponents, softcap)
        peak = max(top, reference)
        out = out * 2.0 ** (top - peak) + part * 2.0 ** (reference - peak)
        total, top = total * 2.0 ** (top - peak) + part_sum * 2.0 ** (reference - peak), peak
    return out / total, float(np.log(2.0) * top + np.log(total))
