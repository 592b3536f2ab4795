"""What selective attention computes, in plain numpy: the definition that `csrc/attend/select_isa.cpp` and `index_isa.cpp` come close to.

`wave` follows RetroInfer (2505.02922): spherical k-means over centred keys, retrieval and estimation zones by the group's summed soft-max.
Clusters are made inside anchored segments, each alone, so that an index depends on absolute positions only. `quest` follows Quest (2406.10774).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.kernels.ops import Attend, Rope
from headwater.kernels.program import BLOCK_TOKENS, CHUNK_TOKENS, KVArrays, Step
from headwater.kernels.reference_attention import attend as attend_densely
from headwater.kernels.reference_attention import gather_kv, rope
from headwater.kernels.select import BLASST, DUAL_CHUNK, TREE, WINDOW, Selection, SelectSpec


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
    if spec.kind == BLASST:
        return _blasst(spec, q, keys, values)
    if spec.kind == WINDOW:
        start = max(n - spec.local, min(spec.sinks, n))
        parts = [_exact(q, keys[: min(spec.sinks, n)], values[: min(spec.sinks, n)]), _exact(q, keys[start:], values[start:])]
    elif spec.paged:
        at = np.concatenate([(_tree if spec.kind == TREE else _quest)(spec, q, keys[:end]) if end else np.zeros(0, int), np.arange(end, n)])
        parts = [_exact(q, keys[at], values[at])]
    else:
        parts = [*(_wave(spec, q, keys[:end], values[:end]) if end else []), _exact(q, keys[end:], values[end:])]
    scores = np.concatenate([s for s, _ in parts], axis=1)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights @ np.concatenate([v for _, v in parts]) / weights.sum(1, keepdims=True)


def _moved(selection: Selection, q: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Keys before the near ones are seen from other positions: chunk by chunk as if the chunk came right before the last trained position
    (2402.17463), or the sinks from the end of a cache that holds nothing but them and the window (2309.17453)."""
    spec, position = selection.spec, len(keys) - 1
    turn = Rope(selection.inv_freq, selection.interleaved)
    near = spec.near_from(position)
    scores = np.full((len(q), len(keys)), -np.inf)
    scores[:, near:] = q @ keys[near:].T
    if spec.kind == DUAL_CHUNK:
        far = [(first, first + spec.segment, first + spec.trained - 1) for first in range(0, near, spec.segment)]
    else:
        far = [(0, min(spec.sinks, near), min(position, spec.sinks + spec.local - 1))]
    for first, last, seen_from in far:
        moved = rope(q.reshape(1, -1), np.array([seen_from - position]), q.shape[1], turn).reshape(q.shape)
        scores[:, first:last] = moved @ keys[first:last].T
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights @ values / weights.sum(1, keepdims=True)


def _blasst(spec: SelectSpec, q: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Chunks whose best weight is below `threshold` of the best of the chunks that count before them are left out (2512.12087)."""
    scores = q @ keys.T
    for row in scores:
        top = -np.inf
        for c in range(0, len(row), CHUNK_TOKENS):
            best = row[c : c + CHUNK_TOKENS].max()
            if best < top + np.log(spec.threshold):
                row[c : c + CHUNK_TOKENS] = -np.inf
            top = max(top, best)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights @ values / weights.sum(1, keepdims=True)


def _quest(spec: SelectSpec, q: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Positions that are read of the indexed ones."""
    pages = keys.reshape(-1, BLOCK_TOKENS, keys.shape[1])
    low, high = pages.min(1), pages.max(1)
    bounds = np.maximum(q[:, None] * low, q[:, None] * high).sum(2)
    forced = np.arange(len(pages)) < -(-spec.sinks // BLOCK_TOKENS)
    read = ranked(bounds, ~forced)[: max(1, round(spec.retrieve * len(pages)))]
    return _of_pages(np.concatenate([np.flatnonzero(forced), read]))


def _of_pages(pages: np.ndarray) -> np.ndarray:
    return (np.sort(pages)[:, None] * BLOCK_TOKENS + np.arange(BLOCK_TOKENS)).ravel()


def _tree(spec: SelectSpec, q: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Positions that are read of the indexed ones: a beam search from the finest level of at most 2 · beam nodes to the pages."""
    counts = [len(keys) // spec.segment * c for c in spec.levels()]
    level = next((i for i, c in enumerate(counts) if c <= 2 * spec.beam), len(counts) - 1)
    forced = np.arange(-(-spec.sinks // BLOCK_TOKENS))
    nodes = np.arange(counts[level])
    while True:
        width = BLOCK_TOKENS * spec.fanout**level
        scores = np.stack([_node_score(spec, q, keys, n * width, (n + 1) * width, len(forced) * BLOCK_TOKENS) for n in nodes], axis=1)
        if level == 0:
            read = nodes[ranked(scores, ~np.isin(nodes, forced))[: max(1, round(spec.retrieve * counts[0]))]]
            return _of_pages(np.concatenate([forced, read]))
        best = np.sort(nodes[ranked(scores, np.ones(len(nodes), bool))[: spec.beam]])
        nodes = (best[:, None] * spec.fanout + np.arange(spec.fanout)).ravel()
        level -= 1


def _node_score(spec: SelectSpec, q: np.ndarray, keys: np.ndarray, first: int, last: int, always: int) -> np.ndarray:
    """float64[group]: what the keys [first, last) may be worth; those before `always` do not count unless there are no others."""
    x = keys[max(first, always) : last] if always < last else keys[first:last]
    if not spec.mass:
        return np.maximum(q * x.min(0), q * x.max(0)).sum(1)
    mean, variance = (stored.astype(np.float16).astype(np.float64) for stored in (x.mean(0), np.minimum(x.var(0), 65504)))    # as an index keeps them
    return q @ mean + 0.5 * q**2 @ variance


def clusters_of(spec: SelectSpec, keys: np.ndarray, values: np.ndarray) -> list[Clusters]:
    """Every segment of keys, values [segments · segment, head_dim], each alone."""
    return [
        cluster(keys[s : s + spec.segment], values[s : s + spec.segment], max(0, spec.sinks - s), spec.vectors, spec.iterations)
        for s in range(0, len(keys), spec.segment)
    ]


def read_positions(spec: SelectSpec, q: np.ndarray, keys: np.ndarray, clusters: list[Clusters]) -> tuple[np.ndarray, np.ndarray]:
    """Which positions the query at the end of keys [p + 1, head_dim] reads, and which it estimates: bool[p + 1] each. q as in `select_one`.

    clusters: `clusters_of` the indexed keys; only WAVE looks at it.
    """
    n = len(keys)
    end = spec.indexed_end(n - 1)
    read, estimated = np.zeros(n, bool), np.zeros(n, bool)
    if spec.kind == WINDOW:
        read[: spec.sinks] = read[max(0, n - spec.local) :] = True
        return read, estimated
    read[end:] = True
    if end and spec.paged:
        read[(_tree if spec.kind == TREE else _quest)(spec, q, keys[:end])] = True
    elif end:
        members, chosen, guessed, _ = _zones(spec, q, clusters)
        read[: spec.sinks] = True
        read[:end] |= np.isin(members, chosen)
        estimated[:end] = np.isin(members, guessed)
    return read, estimated


def _zones(spec: SelectSpec, q: np.ndarray, segments: list[Clusters]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Cluster of every position (-1: none), clusters that are read, clusters that are estimated, scores [group, clusters]."""
    centroids = np.concatenate([c.centroids for c in segments])
    sizes = np.concatenate([c.sizes for c in segments])
    members = np.concatenate([np.where(c.assigned < 0, -1, c.assigned + i * spec.vectors) for i, c in enumerate(segments)])
    scores = q @ centroids.T + 0.5 * spec.second * q**2 @ np.concatenate([c.variances for c in segments]).T
    order = ranked(scores, sizes > 0)
    read = max(1, round(spec.retrieve * len(sizes)))
    return members, order[:read], order[read : read + round(spec.estimate * len(sizes))], scores


def _wave(spec: SelectSpec, q: np.ndarray, keys: np.ndarray, values: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    segments = clusters_of(spec, keys, values)
    means, sizes = np.concatenate([c.means for c in segments]), np.concatenate([c.sizes for c in segments])
    members, chosen, estimated, scores = _zones(spec, q, segments)
    at = np.flatnonzero(np.isin(members, chosen))
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
                if selection.spec.moves:
                    out[t, h] = _moved(selection, queries[t, h], keys[:, h], values[:, h])
                    continue
                out[t, h] = select_one(selection.spec, queries[t, h], keys[:, h], values[:, h])
    return out.reshape(len(step.tokens), -1)
