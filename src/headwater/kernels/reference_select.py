"""What selective attention computes, in plain numpy: the definition that `csrc/attend/select_isa.cpp` and `index_isa.cpp` come close to.

`wave` follows RetroInfer (2505.02922): spherical k-means over centred keys, retrieval and estimation zones by the group's summed soft-max.
Clusters are made inside anchored segments, each alone, so that an index depends on absolute positions only. `quest` follows Quest (2406.10774).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.kernels.ops import Attend
from headwater.kernels.program import BLOCK_TOKENS, KVArrays, Step
from headwater.kernels.reference_attention import attend as attend_densely
from headwater.kernels.reference_attention import gather_kv
from headwater.kernels.select import QUEST, WINDOW, Selection, SelectSpec


@dataclass(frozen=True, slots=True)
class Clusters:
    """One segment of one kv head. assigned int[segment], -1 for sinks; centroids, means float64[vectors, head_dim]; variances of keys per channel;
    sizes int[vectors]."""

    assigned: np.ndarray
    centroids: np.ndarray
    means: np.ndarray
    variances: np.ndarray
    sizes: np.ndarray


def cluster(keys: np.ndarray, values: np.ndarray, first: int, vectors: int, iterations: int) -> Clusters:
    """keys, values [segment, head_dim]; members before `first` belong to no cluster."""
    members = keys[first:].astype(np.float64)
    mean = members.mean(0)
    x = members - mean
    n = len(x)
    centres = _unit(x[(2 * np.arange(vectors) + 1) * n // (2 * vectors)], np.zeros((vectors, keys.shape[1])))
    assigned = np.argmax(x @ centres.T, axis=1)
    for _ in range(iterations - 1):
        centres = _unit(_sums(x, assigned, vectors), centres)
        assigned = np.argmax(x @ centres.T, axis=1)
    sizes = np.bincount(assigned, minlength=vectors)
    share = np.where(sizes > 0, 1.0 / np.maximum(sizes, 1), 0.0)[:, None]
    centre = _sums(x, assigned, vectors) * share
    variances = _sums((x - centre[assigned]) ** 2, assigned, vectors) * share
    means = _sums(values[first:].astype(np.float64), assigned, vectors) * share
    return Clusters(np.concatenate([np.full(first, -1), assigned]), centre + mean, means, variances, sizes)


def _unit(rows: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    norm = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.where(norm > 0, rows / np.where(norm > 0, norm, 1.0), otherwise)


def _sums(x: np.ndarray, assigned: np.ndarray, vectors: int) -> np.ndarray:
    out = np.zeros((vectors, x.shape[1]))
    np.add.at(out, assigned, x)
    return out


def ranked(scores: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """scores [group, n] -> ids of the allowed ones by their soft-max summed over the group, largest first, ties to the lower id."""
    scores = np.where(allowed, scores, -np.inf)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    share = (weights / weights.sum(1, keepdims=True)).sum(0)
    ids = np.flatnonzero(allowed)
    return ids[np.lexsort((ids, -share[ids]))]


def _exact(q: np.ndarray, keys: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """q [group, head_dim] scaled; -> (scores [group, n], values [n, head_dim]) as parts of one soft-max."""
    return q @ keys.T, values


def select_one(spec: SelectSpec, q: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """One query of one kv head: q [group, head_dim], already scaled; keys, values [p + 1, head_dim] -> [group, head_dim]."""
    n = len(keys)
    end = spec.indexed_end(n - 1)
    if spec.kind == WINDOW:
        start = max(n - spec.local, min(spec.sinks, n))
        parts = [_exact(q, keys[: min(spec.sinks, n)], values[: min(spec.sinks, n)]), _exact(q, keys[start:], values[start:])]
    elif spec.kind == QUEST:
        parts = [_quest(spec, q, keys[:end], values[:end])] if end else []
        parts.append(_exact(q, keys[end:], values[end:]))
    else:
        parts = [*(_wave(spec, q, keys[:end], values[:end]) if end else []), _exact(q, keys[end:], values[end:])]
    scores = np.concatenate([s for s, _ in parts], axis=1)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights @ np.concatenate([v for _, v in parts]) / weights.sum(1, keepdims=True)


def _quest(spec: SelectSpec, q: np.ndarray, keys: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    pages = keys.reshape(-1, BLOCK_TOKENS, keys.shape[1])
    low, high = pages.min(1), pages.max(1)
    bounds = np.maximum(q[:, None] * low, q[:, None] * high).sum(2)
    forced = np.arange(len(pages)) < -(-spec.sinks // BLOCK_TOKENS)
    read = ranked(bounds, ~forced)[: max(1, round(spec.retrieve * len(pages)))]
    chosen = np.sort(np.concatenate([np.flatnonzero(forced), read]))
    at = (chosen[:, None] * BLOCK_TOKENS + np.arange(BLOCK_TOKENS)).ravel()
    return _exact(q, keys[at], values[at])


def _wave(spec: SelectSpec, q: np.ndarray, keys: np.ndarray, values: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    segments = [
        cluster(keys[s : s + spec.segment], values[s : s + spec.segment], max(0, spec.sinks - s), spec.vectors, spec.iterations)
        for s in range(0, len(keys), spec.segment)
    ]
    centroids, means = (np.concatenate([getattr(c, name) for c in segments]) for name in ("centroids", "means"))
    sizes = np.concatenate([c.sizes for c in segments])
    assigned = np.concatenate([np.where(c.assigned < 0, -1, c.assigned + i * spec.vectors) for i, c in enumerate(segments)])
    scores = q @ centroids.T + 0.5 * spec.second * q**2 @ np.concatenate([c.variances for c in segments]).T
    order = ranked(scores, sizes > 0)
    read = max(1, round(spec.retrieve * len(sizes)))
    estimated = order[read : read + round(spec.estimate * len(sizes))]
    at = np.flatnonzero(np.isin(assigned, order[:read]))
    sinks = _exact(q, keys[: spec.sinks], values[: spec.sinks])
    return [sinks, _exact(q, keys[at], values[at]), (scores[:, estimated] + np.log(sizes[estimated]), means[estimated])]


def attend(step: Step, cache: KVArrays, spec: Attend, q: np.ndarray, k: np.ndarray, v: np.ndarray, selection: Selection) -> np.ndarray:
    """`reference_attention.attend`, with queries from `exact_until` on answered selectively; the index is made anew for every query (slow)."""
    out, _ = attend_densely(step, cache, spec, q, k, v)
    if spec.window or spec.softcap or not spec.causal or spec.layer < selection.spec.dense_layers:
        return out
    group = spec.heads // spec.kv_heads
    queries = q.reshape(len(step.tokens), spec.kv_heads, group, spec.head_dim).astype(np.float64) * spec.scale
    out = out.reshape(len(step.tokens), spec.kv_heads, group, spec.head_dim)
    for row in range(len(step.row_start) - 1):
        for t in range(int(step.row_start[row]), int(step.row_start[row + 1])):
            position = int(step.positions[t])
            if position < selection.exact_until[row]:
                continue
            keys, values = gather_kv(step.tables[spec.group][row], cache, spec, 0, position + 1)
            for h in range(spec.kv_heads):
                out[t, h] = select_one(selection.spec, queries[t, h], keys[:, h], values[:, h])
    return out.reshape(len(step.tokens), -1)
