"""Prompts under a pattern: native against numpy, dense where nothing is left out, and what an answer may depend on."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from headwater.kernels import attention, native, reference_pattern
from headwater.kernels import reference_attention as reference
from headwater.kernels.ops import Attend
from headwater.kernels.pattern import CRISP, VERTICAL_SLASH, XATTENTION, Pattern, PatternSpec, padded, sample_slot
from headwater.kernels.program import BLOCK_TOKENS, Step

pytestmark = pytest.mark.skipif(not native.available(), reason="needs the native module")

TILE = 256
BASE = PatternSpec(CRISP, tile=TILE, block=32, rows=64, queries=16, sinks=16, local=32, least=2, group=3)
SPECS = {
    "crisp": BASE,
    "crisp, pooled": replace(BASE, route=3, gamma=0.5),
    "crisp, by divergence": replace(BASE, route=1, tau=0.3, gamma=0.5),
    "crisp, coverage": replace(BASE, route=2, coverage=True, gamma=0.5),
    "verticalslash": replace(BASE, kind=VERTICAL_SLASH, block=16, vertical=64, slash=64),
    "xattention": replace(BASE, kind=XATTENTION, local=TILE, gamma=0.5),
    "crisp, whole": replace(BASE, whole=True, queries=20),
}
ANCHORED = [name for name in SPECS if not SPECS[name].whole]
LAYER = Attend(group=0, layer=1, heads=6, kv_heads=2, head_dim=32, scale=32**-0.5)
WIDTH = LAYER.heads * LAYER.head_dim
N = 3 * TILE + 50


class Row:
    """One row with its cache and samples, fed in pieces. Its keys drift, so that columns, distances and blocks differ in mass."""

    def __init__(self, spec: PatternSpec, n: int = N, format: str = "f16", until: int = 1 << 30, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        drift = np.cumsum(rng.normal(size=(n, LAYER.kv_heads, LAYER.head_dim)), axis=0) / 16
        keys = drift + rng.normal(size=drift.shape)
        self.k = keys.reshape(n, -1).astype(np.float32)
        noise = rng.normal(size=(n, LAYER.kv_heads, 3, LAYER.head_dim))
        self.q = (np.roll(keys, 40, 0)[:, :, None] + noise).reshape(n, WIDTH).astype(np.float32)
        self.v = rng.normal(size=(n, LAYER.kv_heads * LAYER.head_dim)).astype(np.float32)
        blocks = -(-n // BLOCK_TOKENS)
        self.cache = reference.new_cache(2, blocks + 5, LAYER.kv_heads, LAYER.head_dim, format)
        self.table = np.random.default_rng(seed + 1).permutation(blocks + 5)[:blocks].astype(np.int32)[None]
        self.spec, self.until = spec, until
        self.samples = np.zeros((2 - spec.dense_layers, blocks + 5, LAYER.heads, padded(LAYER.head_dim)), np.float16)

    def step(self, start: int, stop: int) -> tuple[Step, Pattern]:
        positions = np.arange(start, stop, dtype=np.int32)
        step = Step(np.zeros(stop - start, np.int32), positions, np.array([0, stop - start], np.int32), positions - start, [self.table])
        return step, Pattern(self.spec, 0, np.array([self.until], np.int32), self.samples)

    def feed(self, start: int = 0, stop: int = N) -> np.ndarray:
        step, pattern = self.step(start, stop)
        part = slice(start, stop)
        out = attention.attend(step, self.cache, LAYER, self.q[part], self.k[part], self.v[part], selection=pattern)
        self.stats = pattern.stats
        return out

    def dense(self) -> np.ndarray:
        step, _ = self.step(0, len(self.q))
        return attention.attend(step, self.cache, LAYER, self.q, self.k, self.v)


def relative(a: np.ndarray, b: np.ndarray) -> float:
    """Largest relative L2 distance over heads."""
    a, b = (x.reshape(-1, LAYER.heads, LAYER.head_dim).astype(np.float64) for x in (a, b))
    return float((np.linalg.norm(a - b, axis=2) / np.linalg.norm(b, axis=2)).max())


def evidence(row: Row, start: int, head: int) -> np.ndarray:
    """The native evidence float32[4, start / 16] by the samples that `row` kept."""
    out = np.zeros((4, start // BLOCK_TOKENS), np.float32)
    _, pattern = row.step(0, 1)
    native.library().pattern_evidence(row.table[0], row.cache.k.view(np.uint8), attention.FORMATS[row.cache.format], LAYER.layer, LAYER.kv_heads,
                                      LAYER.head_dim, LAYER.scale, pattern, start, head, out)
    return out


@pytest.mark.parametrize("format", ["f16", "q8"])
@pytest.mark.parametrize("name", SPECS)
def test_native_agrees_with_the_definition(name: str, format: str) -> None:
    row, cut = Row(SPECS[name], format=format), N - 24
    row.feed(0, cut)
    step, pattern = row.step(cut, N)
    cache = reference.new_cache(2, row.cache.k.shape[1], LAYER.kv_heads, LAYER.head_dim, format)
    cache.k[:], cache.v[:], pattern.samples = row.cache.k, row.cache.v, row.samples.copy()
    want = reference_pattern.attend(step, cache, LAYER, row.q[cut:], row.k[cut:], row.v[cut:], pattern)
    assert relative(row.feed(cut, N), want) < 1e-5
    assert np.array_equal(row.samples, pattern.samples)
    assert 0 < row.stats[1] < row.stats[0]


@pytest.mark.parametrize("format", ["f16", "k8v4r"])
@pytest.mark.parametrize("name", ["crisp", "xattention"])
def test_evidence_agrees_with_the_definition(name: str, format: str) -> None:
    row = Row(SPECS[name], format=format)
    row.feed()
    start = 3 * TILE
    keys, _ = reference.gather_kv(row.table[0], row.cache, LAYER, 0, start)
    blocks = np.arange(start // BLOCK_TOKENS - row.spec.queries, start // BLOCK_TOKENS)
    at = np.array([b * BLOCK_TOKENS + sample_slot(int(b)) for b in blocks])
    for head in range(LAYER.heads):
        q = row.samples[LAYER.layer, row.table[0, blocks], head, : LAYER.head_dim].astype(np.float64) * LAYER.scale
        assert q == pytest.approx(row.q[at, head * LAYER.head_dim : (head + 1) * LAYER.head_dim] * LAYER.scale, rel=1e-3, abs=1e-6)
        want = reference_pattern.evidence(q, at, keys[:, head // 3], antidiagonals=name == "xattention")
        got = evidence(row, start, head)
        assert got == pytest.approx(np.stack([want.vertical, want.slash, want.pooled, want.strided]), rel=2e-5, abs=1e-7)


@pytest.mark.parametrize("name", ANCHORED)
def test_choices_agree_with_the_definition_on_any_evidence(name: str) -> None:
    rng = np.random.default_rng(1)
    for n in (16, 32, 112):
        masses = rng.gamma(0.3, size=(4, n))
        masses /= masses.sum(1, keepdims=True)
        masses[2] = rng.normal(size=n) * 3
        e = masses.astype(np.float32)
        want = reference_pattern.choose(SPECS[name], reference_pattern.Evidence(*e.astype(np.float64)))
        vertical, slash, pooled = native.library().pattern_choose(SPECS[name], e)
        assert np.array_equal(vertical, want.vertical) and np.array_equal(slash, want.slash) and pooled == want.pooled


@pytest.mark.parametrize("spec", [
    replace(BASE, least=1000), replace(BASE, kind=VERTICAL_SLASH, vertical=1 << 20), replace(BASE, route=3, gamma=1.0, least=1000),
    replace(BASE, local=1 << 20), replace(BASE, kind=XATTENTION, local=1 << 20),
], ids=["blocks", "columns", "means", "local", "antidiagonals"])
def test_where_nothing_is_left_out_the_kernel_is_dense_bit_for_bit(spec: PatternSpec) -> None:
    row = Row(spec)
    out = row.feed()
    assert row.stats[1] == 0 and row.stats[2] + row.stats[3] == 3 * LAYER.heads   # the sparse kernel ran, and left out nothing
    assert np.array_equal(out, Row(spec).dense())


@pytest.mark.parametrize("name", ANCHORED)
def test_pieces_are_the_whole(name: str) -> None:
    whole = Row(SPECS[name]).feed()
    row = Row(SPECS[name])
    cuts = [0, 1, 100, TILE - 1, TILE + 3, 2 * TILE, 2 * TILE + 31, 3 * TILE - 20, N]
    assert np.array_equal(whole, np.concatenate([row.feed(a, b) for a, b in pairwise(cuts)]))


@pytest.mark.parametrize("name", ANCHORED)
def test_instruction_sets_and_threads_change_no_bit(name: str) -> None:
    library = native.library()
    threads, isa = library.threads(), library.isa()
    try:
        outs = [Row(SPECS[name]).feed()]
        library.set_threads(1)
        outs.append(Row(SPECS[name]).feed())
        library.set_isa("portable")
        outs.append(Row(SPECS[name]).feed())
    finally:
        library.set_threads(threads)
        library.set_isa(isa)
    assert np.array_equal(outs[0], outs[1]) and np.array_equal(outs[0], outs[2])


@pytest.mark.parametrize("name", SPECS)
def test_generated_tokens_read_everything(name: str) -> None:
    border = N - 70
    out, plain = Row(SPECS[name], until=border).feed(), Row(SPECS[name]).dense()
    assert np.array_equal(out[border:], plain[border:]) and not np.array_equal(out[:border], plain[:border])
    assert np.array_equal(out[:TILE], plain[:TILE]) or SPECS[name].whole


def test_first_layers_may_be_dense() -> None:
    spec = replace(BASE, dense_layers=2)
    assert np.array_equal(Row(spec).feed(), Row(spec).dense())


def test_later_queries_change_nothing_before_them() -> None:
    row, other = Row(BASE), Row(BASE)
    other.q[2 * TILE + 10 :] += 1.0
    assert np.array_equal(row.feed()[: 2 * TILE + 10], other.feed()[: 2 * TILE + 10])


def test_captured_mass_is_the_share_of_the_soft_max_that_is_read() -> None:
    row = Row(BASE)
    step, pattern = row.step(0, N)
    pattern.mass = np.zeros((2, LAYER.heads, 2))
    out = attention.attend(step, row.cache, LAYER, row.q, row.k, row.v, selection=pattern)
    assert np.array_equal(out, Row(BASE).dense())
    keys, _ = reference.gather_kv(row.table[0], row.cache, LAYER, 0, N)
    want = np.zeros(LAYER.heads)
    for h in range(LAYER.heads):
        choices = {s: reference_pattern.choose(BASE, reference_pattern.Evidence(*evidence(row, s, h).astype(np.float64)))
                   for s in range(TILE, N, TILE)}
        for p in range(TILE, N):
            start = p // TILE * TILE
            read = np.repeat(reference_pattern.mask(BASE, choices[start], start, p // 64 * 64), BLOCK_TOKENS)[: p + 1]
            weights = np.exp(keys[: p + 1, h // 3] @ row.q[p, h * 32 : (h + 1) * 32].astype(np.float64) * LAYER.scale)
            want[h] += weights[read].sum() / weights.sum()
    mass = pattern.mass[LAYER.layer]
    assert (mass[:, 1] == N - TILE).all() and mass[:, 0] == pytest.approx(want, rel=1e-5)
    assert (pattern.mass[0] == 0).all()


def test_a_pattern_of_another_cache_is_refused() -> None:
    row = Row(BASE)
    row.samples = row.samples[:, :-1].copy()
    with pytest.raises(ValueError, match="samples"):
        row.feed()
    with pytest.raises(ValueError, match="tile"):
        Row(replace(BASE, tile=100)).feed()
