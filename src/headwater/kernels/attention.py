"""Native attention over the paged cache, rotary embedding and cache copies; definitions: `reference_attention.py`, contract: ADR 001.

Bits depend on a query's own row only: not on the other rows of the step, on how a row is cut into steps, on which rows share blocks,
on the number of threads or on the instruction set.
"""

from __future__ import annotations

import numpy as np

from headwater.kernels import native
from headwater.kernels.kv_formats import NUMBERS as FORMATS
from headwater.kernels.ops import Attend, Rope
from headwater.kernels.pattern import Pattern
from headwater.kernels.program import KVArrays, Step
from headwater.kernels.select import Selection


def attend(step: Step, cache: KVArrays, spec: Attend, q: np.ndarray, k: np.ndarray, v: np.ndarray, *,
           out: np.ndarray | None = None, lse: np.ndarray | None = None, selection: Selection | Pattern | None = None) -> np.ndarray:
    """Write k, v f32[n, kv_heads · head_dim] to the cache, rounded to its format, then attend with q f32[n, heads · head_dim].

    Returns out f32[n, heads · head_dim]; lse f32[n, heads], if given, receives the natural log-sum-exp of the scores.
    selection: which queries read only part of the cache (a Selection gives no lse).
    Rows of q, k, v and out may be columns of wider arrays. The positions of a row must be consecutive.
    ValueError: a table lacks a block that a query may see, or shapes do not fit.
    """
    if out is None:
        out = np.empty((len(step.positions), spec.heads * spec.head_dim), np.float32)
    native.library().attend(
        step.positions, step.row_start, step.tables[spec.group], cache.k.view(np.uint8), cache.v.view(np.uint8), FORMATS[cache.format],
        spec.layer, spec.heads, spec.head_dim, spec.window, spec.scale, spec.softcap, spec.causal, q, k, v, out, lse,
        selection)
    return out


def merge_parts(outs: np.ndarray, lses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Join attention over disjoint parts, in the order given: outs f32[parts, n, heads, head_dim], lses f32[parts, n, heads].

    Returns out f32[n, heads, head_dim] and lse f32[n, heads]. A part with lse -inf saw nothing and is skipped.
    """
    parts, n, heads, dim = outs.shape
    out, lse = np.empty((n * heads, dim), np.float32), np.empty(n * heads, np.float32)
    native.library().merge_parts(np.ascontiguousarray(outs, np.float32).reshape(parts, n * heads, dim),
                                 np.ascontiguousarray(lses, np.float32).reshape(parts, n * heads), out, lse)
    return out.reshape(n, heads, dim), lse.reshape(n, heads)


def copy_blocks(cache: KVArrays, pairs: np.ndarray, head_dim: int) -> None:
    """Copy whole blocks in all layers, in the order given; pairs int32[m, 2] of (from, to)."""
    native.library().copy_blocks(cache.k.view(np.uint8), cache.v.view(np.uint8), FORMATS[cache.format], head_dim,
                                 np.ascontiguousarray(pairs, np.int32).reshape(-1, 2))


def rope(x: np.ndarray, positions: np.ndarray, head_dim: int, spec: Rope, *, out: np.ndarray | None = None) -> np.ndarray:
    """x f32[n, heads · head_dim], positions int32[n] -> f32[n, heads · head_dim]; out may be x itself."""
    if out is None:
        out = np.empty(x.shape, np.float32)
    native.library().rope(x, positions, head_dim, np.ascontiguousarray(spec.inv_freq, np.float32), spec.interleaved, spec.mscale, out)
    return out
