"""What prompts under a pattern compute, in plain numpy (float64): the definition that `csrc/attend/pattern*.cpp` come close to.

CRISP (2609.01925), MInference's vertical slash (2407.02490), FlexPrefill's router and coverage (as restated by CRISP) and XAttention's antidiagonals
(2503.16428), all decided per absolute tile from the samples before it; with `whole` from the last queries of the row's part of a step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.kernels.ops import Attend
from headwater.kernels.pattern import CRISP, VERTICAL_SLASH, XATTENTION, Pattern, PatternSpec, sample_slot
from headwater.kernels.program import BLOCK_TOKENS, KVArrays, Step
from headwater.kernels.reference_attention import attend as attend_densely
from headwater.kernels.reference_attention import gather_kv


@dataclass(frozen=True, slots=True)
class Evidence:
    """Of one head, float64[blocks of 16 before the tile] each: soft-max mass by block, by distance [16 o, 16 o + 16), mean score in base 2,
    mass of antidiagonals; means over the samples."""

    vertical: np.ndarray
    slash: np.ndarray
    pooled: np.ndarray
    strided: np.ndarray


@dataclass(frozen=True, slots=True)
class Choice:
    """bool[blocks]: blocks of 16 that are read wherever the query is, and distances; pooled: the head was decided by block means."""

    vertical: np.ndarray
    slash: np.ndarray
    pooled: bool = False


def evidence(q: np.ndarray, at: np.ndarray, keys: np.ndarray, antidiagonals: bool = False) -> Evidence:
    """q [samples, head_dim], scaled; at int[samples], their positions; keys [start, head_dim], those before the tile."""
    blocks = -(-len(keys) // BLOCK_TOKENS)
    vertical, slash, pooled, strided = (np.zeros(blocks) for _ in range(4))
    if antidiagonals:
        return Evidence(vertical, slash, pooled, _antidiagonals(q, at, keys))
    count = np.zeros(blocks)
    for row, p in zip(q, at.tolist(), strict=True):
        scores = keys[: p + 1] @ row
        block = np.arange(p + 1) // BLOCK_TOKENS
        saw = np.bincount(block, minlength=blocks)
        pooled += np.bincount(block, scores, blocks) / np.maximum(saw, 1) / np.log(2)
        count += saw > 0
        weights = np.exp(scores - scores.max())
        weights /= weights.sum() * len(q)
        vertical += np.bincount(block, weights, blocks)
        slash += np.bincount((p - np.arange(p + 1)) // BLOCK_TOKENS, weights, blocks)
    return Evidence(vertical, slash, pooled / np.maximum(count, 1), strided)


def _antidiagonals(q: np.ndarray, at: np.ndarray, keys: np.ndarray) -> np.ndarray:
    out, before = np.zeros(len(keys) // BLOCK_TOKENS), int(at[0]) // BLOCK_TOKENS
    for s in range(0, len(q), BLOCK_TOKENS):
        turned = np.zeros((BLOCK_TOKENS, q.shape[1]))
        turned[BLOCK_TOKENS - 1 - at[s : s + BLOCK_TOKENS] % BLOCK_TOKENS] = q[s : s + BLOCK_TOKENS]
        scores = np.einsum("bld,ld->b", keys[: before * BLOCK_TOKENS].reshape(before, BLOCK_TOKENS, -1), turned) / BLOCK_TOKENS
        weights = np.exp(scores - scores.max(initial=-np.inf))
        out[:before] += weights / max(weights.sum(), 1e-300) / (len(q) // BLOCK_TOKENS)
    return out


def choose(spec: PatternSpec, e: Evidence) -> Choice:
    """What the pattern keeps."""
    return {CRISP: _crisp, VERTICAL_SLASH: _vertical_slash, XATTENTION: _xattention}[spec.kind](spec, e)


def _runs(x: np.ndarray, per: int) -> np.ndarray:
    """Sums over runs of `per`."""
    return np.add.reduceat(x, np.arange(0, len(x), per))


def _ranked(x: np.ndarray) -> np.ndarray:
    return np.lexsort((np.arange(len(x)), -x))


def _marked(ids: np.ndarray, blocks: int, per: int) -> np.ndarray:
    return np.isin(np.arange(blocks) // per, ids)


def _covering(x: np.ndarray, share: float, least: int) -> np.ndarray:
    ids = _ranked(x)
    before = np.cumsum(x[ids]) - x[ids]
    return ids[: max(1, least, int((before < share * x.sum()).sum()))]


def _above_floor(spec: PatternSpec, p: np.ndarray) -> np.ndarray:
    n = len(p)
    if n <= spec.least + 2:
        return np.arange(n)
    floor = max(1 - p[0] - p[-1], 0) / (n - 2)
    return _ranked(p)[: min(n, max(spec.least, int((p > spec.alpha * floor).sum())))]


def _divergence(a: np.ndarray, b: np.ndarray) -> float:
    m = (a + b) / 2
    return float(np.sqrt(sum(0.5 * (x[x > 0] * np.log(x[x > 0] / m[x > 0])).sum() for x in (a, b))))


def _crisp(spec: PatternSpec, e: Evidence) -> Choice:
    per, n = spec.block // BLOCK_TOKENS, len(e.vertical)
    columns, distances = _runs(e.vertical, per), _runs(e.slash, per)
    means = _runs(e.pooled, per) / _runs(np.ones(n), per)
    means = np.exp2(means - means.max())
    means /= means.sum()
    anchored = e.vertical[: -(-spec.sinks // BLOCK_TOKENS)].sum() + e.slash[: -(-spec.local // BLOCK_TOKENS)].sum()
    structured = (anchored >= spec.tau, _divergence(means, columns) >= spec.tau, True, False)[spec.route]
    if not structured:
        return Choice(_marked(_covering(means, spec.gamma, spec.least), n, per), np.zeros(n, bool), True)
    vertical, slash = (_covering(p, spec.gamma, spec.least) if spec.coverage else _above_floor(spec, p) for p in (columns, distances))
    return Choice(_marked(vertical, n, per), _marked(slash, n, per))


def _vertical_slash(spec: PatternSpec, e: Evidence) -> Choice:
    n = len(e.vertical)
    kept = (_ranked(x)[: -(-size // BLOCK_TOKENS)] for x, size in ((e.vertical, spec.vertical), (e.slash, spec.slash)))
    vertical, slash = (_marked(ids, n, 1) for ids in kept)
    return Choice(vertical, slash)


def _xattention(spec: PatternSpec, e: Evidence) -> Choice:
    per, n = spec.block // BLOCK_TOKENS, len(e.strided)
    return Choice(_marked(_covering(_runs(e.strided, per), spec.gamma, 1), n, per), np.zeros(n, bool))


def mask(spec: PatternSpec, choice: Choice, start: int, first: int) -> np.ndarray:
    """bool[first // 16 + 1 ...]: the blocks of 16 that queries [first, first + rows) read, up to their own last; start: of the tile."""
    blocks = np.arange((first + spec.rows - 1) // BLOCK_TOKENS + 1)
    low = blocks * BLOCK_TOKENS
    out = (low < spec.sinks) | (low + BLOCK_TOKENS > first - spec.local)
    if not spec.whole:
        out |= low >= start
    known = min(len(choice.vertical), first // BLOCK_TOKENS)
    out[:known] |= choice.vertical[:known]
    for o in np.flatnonzero(choice.slash) * BLOCK_TOKENS:
        out |= (low + BLOCK_TOKENS > first - o - BLOCK_TOKENS + 1) & (low <= first + spec.rows - 1 - o)
    return out


def attend(step: Step, cache: KVArrays, spec: Attend, q: np.ndarray, k: np.ndarray, v: np.ndarray, pattern: Pattern) -> np.ndarray:
    """`reference_attention.attend`, with prompts under the pattern; samples are kept (slow)."""
    out, _ = attend_densely(step, cache, spec, q, k, v)
    if spec.window or spec.softcap or not spec.causal or spec.layer < pattern.spec.dense_layers:
        return out
    n = len(step.tokens)
    queries, out = (x.reshape(n, spec.heads, spec.head_dim) for x in (q, out))
    rows = [(r, int(a), int(b)) for r, (a, b) in enumerate(zip(step.row_start[:-1], step.row_start[1:], strict=True))]
    kept = pattern.samples[spec.layer - pattern.spec.dense_layers]
    for r, a, b in rows:
        for t in range(a, b):
            block, slot = divmod(int(step.positions[t]), BLOCK_TOKENS)
            if slot == sample_slot(block):
                kept[step.tables[spec.group][r, block], :, : spec.head_dim] = queries[t]
    for r, a, b in rows:
        follow = [t for t in range(a, b) if step.positions[t] < pattern.until[r]]
        if follow and step.positions[follow[-1]] >= pattern.spec.tile:
            _row(step, cache, spec, pattern, queries, out, r, follow)
    return out.reshape(n, -1)


def _row(step: Step, cache: KVArrays, spec: Attend, pattern: Pattern, queries: np.ndarray, out: np.ndarray, row: int, follow: list[int]) -> None:
    """Answers for the tokens `follow` of one row, in place."""
    p, table = pattern.spec, step.tables[spec.group][row]
    keys, values = gather_kv(table, cache, spec, 0, int(step.positions[follow[-1]]) + 1)
    chosen: dict[tuple[int, int], tuple[Choice, int]] = {}
    for t in follow:
        at = int(step.positions[t])
        tile, first = at // p.tile * p.tile, at // p.rows * p.rows
        for h in range(spec.heads):
            head_keys = keys[: at + 1, h // (spec.heads // spec.kv_heads)]
            read = np.ones(at + 1, bool)
            if tile or p.whole:
                if (0 if p.whole else tile, h) not in chosen:
                    chosen[0 if p.whole else tile, h] = _judge(step, spec, pattern, queries, keys, row, follow, tile, h)
                choice, start = chosen[0 if p.whole else tile, h]
                read = np.repeat(mask(p, choice, start, first), BLOCK_TOKENS)[: at + 1]
            scores = head_keys[read] @ queries[t, h].astype(np.float64) * spec.scale
            weights = np.exp(scores - scores.max())
            out[t, h] = weights @ values[: at + 1, h // (spec.heads // spec.kv_heads)][read] / weights.sum()


def _judge(
    step: Step, spec: Attend, pattern: Pattern, queries: np.ndarray, keys: np.ndarray, row: int, follow: list[int], tile: int, head: int,
) -> tuple[Choice, int]:
    """-> (what is kept, one past the last key that was judged)."""
    p = pattern.spec
    if p.whole:
        last = follow[-p.queries :]
        at, q, start = step.positions[last], queries[last, head], len(keys)
    else:
        blocks = np.arange(max(0, tile // BLOCK_TOKENS - p.queries), tile // BLOCK_TOKENS)
        at, start = np.array([b * BLOCK_TOKENS + sample_slot(int(b)) for b in blocks]), tile
        q = pattern.samples[spec.layer - p.dense_layers][step.tables[spec.group][row, blocks], head, : spec.head_dim]
    e = evidence(q.astype(np.float64) * spec.scale, at, keys[:start, head // (spec.heads // spec.kv_heads)], p.kind == XATTENTION)
    return choose(p, e), start
