"""Native attention, cache writes, copies, merges and rotary embedding against their numpy definitions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from headwater.kernels import attention, native
from headwater.kernels import reference_attention as reference
from headwater.kernels.ops import Attend, Rope
from headwater.kernels.program import BLOCK_TOKENS, KVArrays, Step

pytestmark = pytest.mark.skipif(not native.available(), reason="needs the native module")

# float32 sums of up to 256 weights per chunk against float64; outputs are averages of values of size 1
TOLERANCE = 4e-6


def make_step(rows: list[tuple[int, int]], rng: np.random.Generator, spare: int = 3) -> tuple[Step, int]:
    """Rows of (first position, tokens) with blocks in random order; returns the step and how many blocks the cache needs."""
    widths = [-(-(start + count) // BLOCK_TOKENS) for start, count in rows]
    blocks = rng.permutation(sum(widths) + spare).astype(np.int32)
    table = np.full((len(rows), max(widths) + 1), -1, np.int32)
    used = 0
    for r, width in enumerate(widths):
        table[r, :width] = blocks[used:used + width]
        used += width
    positions = np.concatenate([np.arange(s, s + c, dtype=np.int32) for s, c in rows])
    row_start = np.cumsum([0, *(c for _, c in rows)]).astype(np.int32)
    n = len(positions)
    return Step(np.zeros(n, np.int32), positions, row_start, np.arange(n, dtype=np.int32), [table]), len(blocks)


def random_cache(spec: Attend, blocks: int, rng: np.random.Generator, format: str = "f16") -> KVArrays:
    cache = reference.new_cache(spec.layer + 1, blocks, spec.kv_heads, spec.head_dim, format)
    if format == "f16":
        cache.k[:] = rng.normal(size=cache.k.shape)
        cache.v[:] = rng.normal(size=cache.v.shape)
        return cache
    split = BLOCK_TOKENS * spec.head_dim
    for array in (cache.k, cache.v):
        array[..., :split] = rng.integers(-127, 128, array[..., :split].shape).astype(np.int8).view(np.uint8)
        array[..., split:] = rng.uniform(0.005, 0.02, (*array.shape[:-1], (array.shape[-1] - split) // 2)).astype(np.float16).view(np.uint8)
    return cache


def qkv(n: int, spec: Attend, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    widths = (spec.heads, spec.kv_heads, spec.kv_heads)
    q, k, v = (rng.normal(size=(n, h * spec.head_dim)).astype(np.float32) for h in widths)
    return q, k, v


def spec_of(heads: int = 6, kv_heads: int = 2, head_dim: int = 64, **more: object) -> Attend:
    return replace(Attend(group=0, layer=1, heads=heads, kv_heads=kv_heads, head_dim=head_dim, scale=head_dim ** -0.5), **more)


def both(rows: list[tuple[int, int]], spec: Attend, seed: int = 0, format: str = "f16") -> tuple[np.ndarray, ...]:
    """Native and reference (out, lse) of the same random step, and both caches afterwards."""
    rng = np.random.default_rng(seed)
    step, blocks = make_step(rows, rng)
    cache = random_cache(spec, blocks, rng, format)
    twin = KVArrays(cache.k.copy(), cache.v.copy(), format)
    q, k, v = qkv(len(step.positions), spec, rng)
    lse = np.empty((len(step.positions), spec.heads), np.float32)
    out = attention.attend(step, cache, spec, q, k, v, lse=lse)
    want, want_lse = reference.attend(step, twin, spec, q, k, v)
    return out, lse, want, want_lse, cache, twin


@pytest.mark.parametrize("format", ["f16", "q8"])
@pytest.mark.parametrize("head_dim", [8, 40, 64, 80, 96, 128, 256])
def test_attention_matches_the_definition_for_every_head_width(head_dim: int, format: str) -> None:
    out, lse, want, want_lse, cache, twin = both([(0, 37), (300, 1), (250, 20)], spec_of(head_dim=head_dim), head_dim, format)
    np.testing.assert_allclose(out, want, atol=TOLERANCE * 3)
    np.testing.assert_allclose(lse, want_lse, atol=1e-5)
    assert cache.k.tobytes() == twin.k.tobytes()
    assert cache.v.tobytes() == twin.v.tobytes()


@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (3, 3), (9, 3), (8, 1), (14, 2), (100, 1)])
@pytest.mark.parametrize("more", [{}, {"window": 5}, {"window": 300}, {"softcap": 20.0}, {"causal": False}, {"causal": False, "window": 9}])
def test_attention_matches_the_definition_for_every_mask_and_grouping(heads: int, kv_heads: int, more: dict) -> None:
    out, lse, want, want_lse, _, _ = both([(0, 1), (500, 9), (0, 50), (255, 2)], spec_of(heads, kv_heads, 16, **more), heads)
    np.testing.assert_allclose(out, want, atol=TOLERANCE)
    np.testing.assert_allclose(lse, want_lse, atol=1e-5)


def test_an_empty_step_and_empty_rows_are_fine() -> None:
    spec, rng = spec_of(), np.random.default_rng(1)
    cache = random_cache(spec, 4, rng)
    empty = Step(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(1, np.int32), np.zeros(0, np.int32), [np.zeros((0, 2), np.int32)])
    assert attention.attend(empty, cache, spec, *qkv(0, spec, rng)).shape == (0, 384)
    step = Step(np.zeros(1, np.int32), np.zeros(1, np.int32), np.array([0, 0, 1, 1], np.int32), np.zeros(1, np.int32),
                [np.array([[-1], [2], [-1]], np.int32)])
    q, k, v = qkv(1, spec, rng)
    np.testing.assert_array_equal(attention.attend(step, cache, spec, q, k, v).reshape(6, 64),
                                  np.repeat(v.reshape(2, 64).astype(np.float16).astype(np.float32), 3, 0))


def test_a_missing_block_is_named() -> None:
    spec, rng = spec_of(), np.random.default_rng(2)
    step, blocks = make_step([(0, 40)], rng)
    cache = random_cache(spec, blocks, rng)
    step.tables[0][0, 1] = -1
    with pytest.raises(ValueError, match="row 0 has no block for position 16"):
        attention.attend(step, cache, spec, *qkv(40, spec, rng))


def test_blocks_behind_the_window_may_be_missing() -> None:
    spec, rng = spec_of(window=20), np.random.default_rng(3)
    step, blocks = make_step([(600, 4)], rng)
    cache = random_cache(spec, blocks, rng)
    q, k, v = qkv(4, spec, rng)
    full = attention.attend(step, cache, spec, q, k, v)
    step.tables[0][0, :(600 - 19) // BLOCK_TOKENS] = -1
    np.testing.assert_array_equal(attention.attend(step, cache, spec, q, k, v), full)


def test_a_nan_in_a_later_value_never_reaches_an_earlier_query() -> None:
    spec, rng = spec_of(), np.random.default_rng(4)
    step, blocks = make_step([(10, 12)], rng)
    cache = random_cache(spec, blocks, rng)
    q, k, v = qkv(12, spec, rng)
    clean = attention.attend(step, cache, spec, q, k, v)
    k[7], v[7] = np.nan, np.nan
    cache.k[:, step.tables[0][0, 1], :, :, 8:] = np.nan             # slots that no token of the row has reached
    cache.v[:, step.tables[0][0, 1], :, 8:] = np.nan
    out = attention.attend(step, cache, spec, q, k, v)
    np.testing.assert_array_equal(out[:7], clean[:7])
    assert np.isnan(out[7:]).all()


def test_strided_rows_give_the_same_result() -> None:
    spec, rng = spec_of(), np.random.default_rng(5)
    step, blocks = make_step([(3, 30)], rng)
    cache = random_cache(spec, blocks, rng)
    q, k, v = qkv(30, spec, rng)
    packed = np.concatenate([q, k, v], 1)
    out = np.zeros((30, 500), np.float32)
    attention.attend(step, cache, spec, packed[:, :384], packed[:, 384:512], packed[:, 512:], out=out[:, 100:484])
    np.testing.assert_array_equal(out[:, 100:484], attention.attend(step, cache, spec, q, k, v))


def test_parts_merge_to_the_whole() -> None:
    rng = np.random.default_rng(6)
    outs, lses = rng.normal(size=(5, 7, 3, 24)).astype(np.float32), rng.normal(size=(5, 7, 3)).astype(np.float32) * 4
    lses[2, :4], outs[2, :4] = -np.inf, np.nan
    lses[:, 6, 2] = -np.inf
    out, lse = attention.merge_parts(outs, lses)
    want, want_lse = reference.merge_parts(outs, lses)
    np.testing.assert_allclose(out, want, atol=TOLERANCE)
    np.testing.assert_allclose(lse, want_lse, atol=1e-5)


@pytest.mark.parametrize("format", ["f16", "q8"])
def test_copied_blocks_answer_like_the_originals(format: str) -> None:
    spec, rng = spec_of(), np.random.default_rng(7)
    cache = random_cache(spec, 9, rng, format)
    twin = KVArrays(cache.k.copy(), cache.v.copy(), format)
    pairs = np.array([[0, 5], [5, 6], [3, 3], [8, 0]], np.int32)
    attention.copy_blocks(cache, pairs, spec.head_dim)
    reference.copy_blocks(twin, pairs)
    assert cache.k.tobytes() == twin.k.tobytes()
    assert cache.v.tobytes() == twin.v.tobytes()
    with pytest.raises(ValueError, match="block 9 of a copy"):
        attention.copy_blocks(cache, np.array([[0, 9]]), spec.head_dim)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(("head_dim", "dims"), [(64, 64), (128, 32), (80, 80), (24, 20), (1024, 1024)])
def test_rope_turns_like_the_definition(head_dim: int, dims: int, interleaved: bool) -> None:
    rng = np.random.default_rng(dims)
    spec = Rope((10_000.0 ** (-np.arange(0, dims, 2) / dims)).astype(np.float32), interleaved, 1.25)
    positions = np.array([0, 1, 2, 511, 8_191, 131_071, 1_048_575, 77], np.int32)
    x = rng.normal(size=(8, 3 * head_dim)).astype(np.float32)
    want = reference.rope(x, positions, head_dim, spec)
    np.testing.assert_allclose(attention.rope(x, positions, head_dim, spec), want, atol=2e-6)
    attention.rope(x, positions, head_dim, spec, out=x)
    np.testing.assert_allclose(x, want, atol=2e-6)


def test_rope_at_position_zero_is_the_identity() -> None:
    x = np.random.default_rng(8).normal(size=(1, 64)).astype(np.float32)
    np.testing.assert_array_equal(attention.rope(x, np.zeros(1, np.int32), 64, Rope(np.ones(32, np.float32))), x)
