"""Selective attention: native against numpy, at full budget against dense, and what an answer may depend on."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from headwater.kernels import attention, native, reference_select
from headwater.kernels import reference_attention as reference
from headwater.kernels.ops import Attend
from headwater.kernels.program import BLOCK_TOKENS, KVArrays, Step
from headwater.kernels.select import QUEST, WAVE, WINDOW, Selection, SelectSpec

pytestmark = pytest.mark.skipif(not native.available(), reason="needs the native module")

SEGMENT = 256
WAVE_SPEC = SelectSpec(WAVE, sinks=4, local=16, segment=SEGMENT, iterations=4, retrieve=0.1, estimate=0.3)
QUEST_SPEC = SelectSpec(QUEST, sinks=4, local=16, segment=SEGMENT, retrieve=0.2)
WINDOW_SPEC = SelectSpec(WINDOW, sinks=4, local=100)
SPECS = {
    "window": WINDOW_SPEC, "quest": QUEST_SPEC, "wave": WAVE_SPEC, "wave, second order": replace(WAVE_SPEC, second=1.0),
    "wave, all estimated": replace(WAVE_SPEC, estimate=1.0),
}
LAYER = Attend(group=0, layer=1, heads=6, kv_heads=2, head_dim=32, scale=32**-0.5)
WIDTH = LAYER.heads * LAYER.head_dim


def topics(n: int, rng: np.random.Generator) -> np.ndarray:
    """Keys that fall into groups far apart, so that float32 and float64 make the same clusters; f32[n, kv_heads · head_dim]."""
    centres = rng.normal(size=(24, LAYER.kv_heads * LAYER.head_dim)) * 3
    return (centres[rng.integers(0, 24, n)] + rng.normal(size=(n, centres.shape[1])) * 0.2).astype(np.float32)


class Row:
    """One row with its cache and index, fed in pieces."""

    def __init__(self, spec: SelectSpec, n: int, format: str = "f16", exact_until: int = 0, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.q = rng.normal(size=(n, WIDTH)).astype(np.float32) * 2
        self.k, self.v = topics(n, rng), rng.normal(size=(n, LAYER.kv_heads * LAYER.head_dim)).astype(np.float32)
        blocks = -(-n // BLOCK_TOKENS)
        self.cache = reference.new_cache(2, blocks + 5, LAYER.kv_heads, LAYER.head_dim, format)
        self.table = np.random.default_rng(seed + 1).permutation(blocks + 5)[:blocks].astype(np.int32)[None]
        self.spec, self.exact_until = spec, exact_until
        block = 2 * BLOCK_TOKENS * LAYER.head_dim if format == "f16" else self.cache.k.shape[-1]
        segments = n // spec.segment + 1
        self.index = np.zeros((2 - spec.dense_layers, segments, LAYER.kv_heads, spec.index_bytes(LAYER.head_dim, block)), np.uint8)

    def step(self, start: int, stop: int) -> tuple[Step, Selection]:
        positions = np.arange(start, stop, dtype=np.int32)
        step = Step(np.zeros(stop - start, np.int32), positions, np.array([0, stop - start], np.int32), positions - start, [self.table])
        done, whole = start // self.spec.segment, stop // self.spec.segment
        builds = np.array([(0, s, s) for s in range(done, whole)], np.int32).reshape(-1, 3)
        if self.spec.kind == WINDOW:
            builds = builds[:0]
        slots = np.where(np.arange(self.index.shape[1]) < whole, np.arange(self.index.shape[1]), -1).astype(np.int32)[None]
        until = max(self.exact_until, self.spec.first_selective)
        return step, Selection(self.spec, 0, np.array([until], np.int32), self.index, slots, builds)

    def feed(self, start: int, stop: int, cache: KVArrays | None = None) -> np.ndarray:
        step, selection = self.step(start, stop)
        part = slice(start, stop)
        return attention.attend(step, cache or self.cache, LAYER, self.q[part], self.k[part], self.v[part], selection=selection)


def relative(a: np.ndarray, b: np.ndarray) -> float:
    """Largest relative L2 distance over heads."""
    a, b = (x.reshape(-1, LAYER.heads, LAYER.head_dim).astype(np.float64) for x in (a, b))
    return float((np.linalg.norm(a - b, axis=2) / np.linalg.norm(b, axis=2)).max())


@pytest.mark.parametrize("format", ["f16", "q8"])
@pytest.mark.parametrize("name", SPECS)
def test_native_agrees_with_the_definition(name: str, format: str) -> None:
    n = 2 * SEGMENT + 40
    row = Row(SPECS[name], n, format)
    row.feed(0, n - 3)
    step, selection = row.step(n - 3, n)
    other = reference.new_cache(2, row.cache.k.shape[1], LAYER.kv_heads, LAYER.head_dim, format)
    other.k[:], other.v[:] = row.cache.k, row.cache.v
    part = slice(n - 3, n)
    want = reference_select.attend(step, other, LAYER, row.q[part], row.k[part], row.v[part], selection)
    # centroids and mean values are kept in f16: 2^-11 of a score of size 30 moves a weight by 1.5 %
    assert relative(row.feed(n - 3, n), want) < (1e-5 if name in ("window", "quest") else 2e-2)


@pytest.mark.parametrize("format", ["f16", "q8"])
@pytest.mark.parametrize("spec", [replace(QUEST_SPEC, retrieve=1.0, force=True), replace(WAVE_SPEC, retrieve=1.0, estimate=0.0, force=True)],
                         ids=["quest", "wave"])
def test_the_merge_at_full_budget_is_dense_to_a_few_roundings(spec: SelectSpec, format: str) -> None:
    n = 2 * SEGMENT + 60
    row, dense = Row(spec, n, format), Row(spec, n, format, exact_until=n)
    assert relative(row.feed(0, n), dense.feed(0, n)) < 1e-5


@pytest.mark.parametrize("spec", [replace(QUEST_SPEC, retrieve=1.0), replace(WAVE_SPEC, retrieve=1.0), replace(WINDOW_SPEC, local=2000)],
                         ids=["quest", "wave", "window"])
def test_a_full_budget_is_dense_bit_for_bit(spec: SelectSpec) -> None:
    n = 2 * SEGMENT + 30
    step = Row(spec, n).step(0, n)[0]
    row = Row(spec, n)
    plain = attention.attend(step, Row(spec, n).cache, LAYER, row.q, row.k, row.v)
    assert np.array_equal(row.feed(0, n), plain)


@pytest.mark.parametrize("name", SPECS)
def test_pieces_are_the_whole(name: str) -> None:
    n = 2 * SEGMENT + 50
    whole = Row(SPECS[name], n).feed(0, n)
    row = Row(SPECS[name], n)
    cuts = [0, 1, 100, SEGMENT - 1, SEGMENT + 3, 2 * SEGMENT, 2 * SEGMENT + 31, n]
    pieces = np.concatenate([row.feed(a, b) for a, b in pairwise(cuts)])
    assert np.array_equal(whole, pieces)


@pytest.mark.parametrize("name", SPECS)
def test_queries_before_the_border_are_dense_bit_for_bit(name: str) -> None:
    n = 2 * SEGMENT + 50
    row = Row(SPECS[name], n, exact_until=n - 5)
    out = row.feed(0, n)
    dense = Row(SPECS[name], n, exact_until=n).feed(0, n)
    assert np.array_equal(out[: n - 5], dense[: n - 5]) and not np.array_equal(out[n - 5 :], dense[n - 5 :])


@pytest.mark.parametrize("name", SPECS)
def test_threads_change_no_bit(name: str) -> None:
    n = 2 * SEGMENT + 50
    library = native.library()
    before = library.threads()
    try:
        outs = []
        for threads in (1, 2):
            library.set_threads(threads)
            outs.append(Row(SPECS[name], n).feed(0, n))
    finally:
        library.set_threads(before)
    assert np.array_equal(*outs)


def test_first_layers_may_be_dense() -> None:
    n = 2 * SEGMENT + 20
    spec = replace(QUEST_SPEC, dense_layers=2)
    assert np.array_equal(Row(spec, n).feed(0, n), Row(spec, n, exact_until=n).feed(0, n))


def test_a_missing_index_is_an_error_and_no_answer() -> None:
    row = Row(WAVE_SPEC, 2 * SEGMENT + 20)
    row.feed(0, 2 * SEGMENT + 19)
    step, selection = row.step(2 * SEGMENT + 19, 2 * SEGMENT + 20)
    selection.table[:] = -1
    with pytest.raises(ValueError, match="no index for segment 0"):
        attention.attend(step, row.cache, LAYER, row.q[-1:], row.k[-1:], row.v[-1:], selection=selection)


def test_an_index_holds_every_member_once() -> None:
    row = Row(WAVE_SPEC, SEGMENT)
    row.feed(0, SEGMENT)
    vectors = WAVE_SPEC.vectors
    at = SEGMENT // BLOCK_TOKENS * 2 * BLOCK_TOKENS * LAYER.head_dim + 2 * 2 * vectors * LAYER.head_dim
    for head in range(LAYER.kv_heads):
        lists = row.index[LAYER.layer, 0, head, at:].view(np.uint16)
        order, starts = lists[: SEGMENT - WAVE_SPEC.sinks], lists[SEGMENT : SEGMENT + vectors + 1]
        assert np.array_equal(np.sort(order), np.arange(WAVE_SPEC.sinks, SEGMENT))
        assert starts[0] == 0 and starts[-1] == SEGMENT - WAVE_SPEC.sinks and (np.diff(starts.astype(int)) >= 0).all()


def test_work_is_counted() -> None:
    n = 2 * SEGMENT + 50
    row = Row(QUEST_SPEC, n)
    row.feed(0, n - 1)
    step, selection = row.step(n - 1, n)
    attention.attend(step, row.cache, LAYER, row.q[-1:], row.k[-1:], row.v[-1:], selection=selection)
    end = QUEST_SPEC.indexed_end(n - 1)
    pages = end // BLOCK_TOKENS
    read = 1 + round(QUEST_SPEC.retrieve * pages)                   # the page of the sinks, and those chosen
    assert selection.stats.tolist() == [2, 2 * (16 * read + n - end), 2 * 2 * pages, 0]
