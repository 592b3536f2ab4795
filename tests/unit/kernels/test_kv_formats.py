"""Coded cache formats: the native codes are those of the definition, errors are what the formats promise, NaN is not lost."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.core.kvspec import CACHE_FORMATS, CacheGroup
from headwater.kernels import attention, kv_formats, native
from headwater.kernels import reference_attention as reference
from headwater.kernels.ops import Attend
from headwater.kernels.program import Step

needs_native = pytest.mark.skipif(not native.available(), reason="needs the native module")
LAYER = Attend(group=0, layer=0, heads=6, kv_heads=2, head_dim=64, scale=0.125)
FOUR_BITS = ["fp4", "int4"]
ROTATED = ["q8r", "fp4r", "int4r", "k8v4", "k8v4r"]              # and the one of two halves


def one_row(n: int, spec: Attend = LAYER, seed: int = 0) -> tuple[Step, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    positions = np.arange(n, dtype=np.int32)
    step = Step(np.zeros(n, np.int32), positions, np.array([0, n], np.int32), positions, [rng.permutation(-(-n // 16)).astype(np.int32)[None]])
    q, k, v = (rng.normal(size=(n, h * spec.head_dim)).astype(np.float32) for h in (spec.heads, spec.kv_heads, spec.kv_heads))
    return step, q, k * rng.uniform(0.01, 30, (1, k.shape[1])).astype(np.float32), v


@needs_native
@pytest.mark.parametrize("format", [*FOUR_BITS, *ROTATED])
@pytest.mark.parametrize("head_dim", [32, 64, 96, 128, 256])
def test_codes_and_answers_are_those_of_the_definition(format: str, head_dim: int) -> None:
    spec = replace(LAYER, head_dim=head_dim, scale=head_dim**-0.5 / 8)
    step, q, k, v = one_row(70, spec)
    mine, theirs = (reference.new_cache(1, 5, spec.kv_heads, head_dim, format) for _ in range(2))
    out = attention.attend(step, mine, spec, q, k, v)
    want, _ = reference.attend(step, theirs, spec, q, k, v)
    assert mine.k.tobytes() == theirs.k.tobytes() and mine.v.tobytes() == theirs.v.tobytes()
    np.testing.assert_allclose(out, want, atol=3e-5)                # float32 scores of size 30


@needs_native
@pytest.mark.parametrize("format", [*FOUR_BITS, *ROTATED, "i16"])
def test_pieces_store_and_answer_like_the_whole(format: str) -> None:
    step, q, k, v = one_row(200)
    whole = reference.new_cache(1, 13, 2, 64, format)
    want = attention.attend(step, whole, LAYER, q, k, v)
    pieces = reference.new_cache(1, 13, 2, 64, format)
    got = []
    for a, b in pairwise([0, 1, 7, 16, 90, 91, 200]):
        part = Step(step.tokens[a:b], step.positions[a:b], np.array([0, b - a], np.int32), np.arange(b - a, dtype=np.int32), step.tables)
        got.append(attention.attend(part, pieces, LAYER, q[a:b], k[a:b], v[a:b]))
    assert np.array_equal(np.concatenate(got), want)
    assert pieces.k.tobytes() == whole.k.tobytes() and pieces.v.tobytes() == whole.v.tobytes()


@given(st.integers(0, 2**32), st.sampled_from([0.1, 1.0, 300.0]), st.booleans())
@settings(max_examples=12, deadline=None)
def test_what_comes_back_is_within_half_a_code(seed: int, size: float, key: bool) -> None:
    x = (np.random.default_rng(seed).normal(size=(3, 64)) * size).astype(np.float32)
    groups = x.reshape(3, -1, 32)
    bounds = {
        "q8": np.abs(groups).max(-1) / 127 * 0.51, "int4": (groups.max(-1) - groups.min(-1)) / 15 * 0.51,
        "fp4": np.abs(groups).max(-1) / 6 * 1.07,                   # the widest gap is 4 to 6, and the scale is rounded to three bits
    }
    for format, bound in bounds.items():
        block = np.zeros((3, kv_formats.block_bytes(format, 64)), np.uint8)
        kv_formats.put(block, format, 9, x, key=key)
        error = np.abs(kv_formats.get(block, format, 9, 64, key=key) - x).reshape(3, -1, 32).max(-1)
        assert (error <= bound + 1e-3 * np.abs(groups).max(-1)).all(), format


@pytest.mark.parametrize("format", [*FOUR_BITS, "i16"])
def test_a_position_leaves_its_neighbours_alone(format: str) -> None:
    rng = np.random.default_rng(3)
    for key in (True, False):
        block = np.zeros((2, kv_formats.block_bytes(format, 64)), np.uint8)
        for slot in range(16):
            kv_formats.put(block, format, slot, rng.normal(size=(2, 64)).astype(np.float32), key=key)
        before = [kv_formats.get(block, format, s, 64, key=key) for s in range(16)]
        kv_formats.put(block, format, 5, np.ones((2, 64), np.float32), key=key)
        after = [kv_formats.get(block, format, s, 64, key=key) for s in range(16)]
        assert [np.array_equal(a, b) for a, b in zip(before, after, strict=True)] == [s != 5 for s in range(16)]


def test_every_e2m1_value_and_scale_survives() -> None:
    x = np.tile(kv_formats.E2M1, 2)[None].astype(np.float32)
    for scale in (2.0**-6, 1.0, 1.75, 448.0):
        codes, scales = kv_formats.quantise_fp4(x * np.float32(scale))
        assert kv_formats.e4m3(scales) == pytest.approx(scale)
        assert np.array_equal(kv_formats.E2M1[codes], x)


@needs_native
@pytest.mark.parametrize("format", FOUR_BITS)
@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_a_broken_number_is_not_lost(format: str, poison: float) -> None:
    step, q, k, v = one_row(20)
    k[3, 5] = poison
    out = attention.attend(step, reference.new_cache(1, 2, 2, 64, format), LAYER, q, k, v)
    assert np.isfinite(out[:3]).all() and np.isnan(out[3:, : 3 * 64]).all()


@pytest.mark.parametrize("head_dim", [16, 48, 64, 128])
def test_the_rotation_is_its_own_inverse_and_keeps_lengths(head_dim: int) -> None:
    x = np.random.default_rng(0).normal(size=(5, head_dim))
    y = kv_formats.hadamard(x)
    np.testing.assert_allclose(kv_formats.hadamard(y), x, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(y, axis=1), np.linalg.norm(x, axis=1))
    assert np.allclose(np.abs(kv_formats.hadamard(np.eye(head_dim))[np.eye(head_dim) > 0]), (head_dim & -head_dim) ** -0.5)


@pytest.mark.parametrize("format", ["q8r", "int4r"])
def test_a_channel_that_stands_out_costs_a_rotated_format_less(format: str) -> None:
    x = np.random.default_rng(1).normal(size=(200, 64)).astype(np.float32)
    x[:, 7] += 60                                                   # what a key bias makes
    errors = []
    for name in (format[:-1], format):
        block = np.zeros((200, kv_formats.block_bytes(name, 64)), np.uint8)
        kv_formats.put(block, name, 3, x, key=True)
        errors.append(np.square(kv_formats.get(block, name, 3, 64, key=True) - x).mean())
    assert errors[1] < 0.7 * errors[0]


def test_heads_of_a_width_that_a_format_cannot_hold_are_refused() -> None:
    with pytest.raises(ValueError, match="multiple of 32"):
        reference.new_cache(1, 1, 1, 80, "fp4")


@pytest.mark.parametrize("format", CACHE_FORMATS)
@pytest.mark.parametrize("head_dim", [32, 64, 96, 128])
def test_the_memory_plan_knows_what_a_block_takes(format: str, head_dim: int) -> None:
    group = CacheGroup("full", 5, 2, head_dim, format=format)
    assert group.head_bytes_per_block == kv_formats.block_bytes(format, head_dim)
    assert group.bytes_per_block == 5 * 2 * sum(kv_formats.block_bytes(format, head_dim, key=key) for key in (True, False))
