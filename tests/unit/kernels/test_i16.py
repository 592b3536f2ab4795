"""Cache format i16: native answers are those of the definition, as near to real numbers as f16's, with the same bits from vectors and tiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_samples import isas

from headwater.core.errors import UserInputError
from headwater.core.kvspec import CacheGroup, KVSpec
from headwater.engine.build import build_attend
from headwater.kernels import attention, kv_formats, native, reference_i16
from headwater.kernels import reference_attention as reference
from headwater.kernels.ops import Attend
from headwater.kernels.program import KVArrays, Step

needs_native = pytest.mark.skipif(not native.available(), reason="needs the native module")
LAYER = Attend(group=0, layer=0, heads=6, kv_heads=2, head_dim=64, scale=0.125)
LENGTH = 300                                                        # two chunks
KINDS = {"causal": {}, "window": {"window": 70}, "both ways": {"causal": False}, "softcap": {"softcap": 5.0}}


@pytest.fixture(autouse=True)
def restore() -> Iterator[None]:
    if not native.available():
        yield
        return
    isa = native.library().isa()
    yield
    native.library().set_isa(isa)


def numbers(spec: Attend, n: int = LENGTH, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q, k, v of n tokens; channels of keys differ in size, as channels do."""
    rng = np.random.default_rng(seed)
    q, k, v = (rng.normal(size=(n, h * spec.head_dim)).astype(np.float32) for h in (spec.heads, spec.kv_heads, spec.kv_heads))
    return q, k * np.exp(rng.normal(size=k.shape[1]) * 0.7).astype(np.float32), v


def step(first: int, last: int) -> Step:
    positions = np.arange(first, last, dtype=np.int32)
    table = np.random.default_rng(5).permutation(-(-LENGTH // 16)).astype(np.int32)[None]
    return Step(np.zeros_like(positions), positions, np.array([0, last - first], np.int32), np.zeros(0, np.int32), [table])


def cache(spec: Attend, format: str = "i16") -> KVArrays:
    return reference.new_cache(1, -(-LENGTH // 16), spec.kv_heads, spec.head_dim, format)


def real_answer(spec: Attend, q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Causal attention in float64 over the numbers before any rounding."""
    n, group = len(q), spec.heads // spec.kv_heads
    q, k, v = (x.reshape(n, -1, spec.head_dim).astype(np.float64) for x in (q, k, v))
    out = np.empty(q.shape)
    for h in range(spec.heads):
        scores = np.where(np.tri(n, dtype=bool), q[:, h] @ k[:, h // group].T * spec.scale, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        out[:, h] = weights @ v[:, h // group] / weights.sum(-1, keepdims=True)
    return out.reshape(n, -1)


@needs_native
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("head_dim", [32, 64, 96, 256])
def test_codes_and_answers_are_those_of_the_definition(head_dim: int, kind: str) -> None:
    spec = replace(LAYER, head_dim=head_dim, scale=head_dim**-0.5, **KINDS[kind])
    q, k, v = numbers(spec)
    mine, theirs, before = cache(spec), cache(spec), LENGTH - 4
    attention.attend(step(0, before), mine, spec, q[:before], k[:before], v[:before])
    reference.write_kv(step(0, before), theirs, spec, k[:before], v[:before])
    lse = np.empty((4, spec.heads), np.float32)
    last = step(before, LENGTH)
    out = attention.attend(last, mine, spec, q[before:], k[before:], v[before:], lse=lse)
    want, want_lse = reference.attend(last, theirs, spec, q[before:], k[before:], v[before:])
    assert mine.k.tobytes() == theirs.k.tobytes() and mine.v.tobytes() == theirs.v.tobytes()
    np.testing.assert_allclose(lse, want_lse, atol=1e-5)
    np.testing.assert_allclose(out, want, atol=1e-4)                # a weight on the edge of two codes may take the other one
    assert np.abs(out - want).mean() < 5e-6


@needs_native
@pytest.mark.parametrize("size", [0.3, 1.0, 4.0])
def test_answers_are_as_near_to_real_numbers_as_those_of_f16(size: float) -> None:
    q, k, v = numbers(LAYER)
    want, error = real_answer(LAYER, q * np.float32(size), k, v), {}
    for format in ("f16", "i16"):
        out = attention.attend(step(0, LENGTH), cache(LAYER, format), LAYER, q * np.float32(size), k, v)
        error[format] = np.linalg.norm(out - want) / np.linalg.norm(want)
    assert error["i16"] < 1e-3 and error["i16"] < 1.3 * error["f16"]


@needs_native
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("heads, kv_heads, head_dim", [(6, 2, 64), (8, 1, 128), (2, 2, 256), (14, 2, 64), (6, 2, 96)])
def test_every_instruction_set_has_the_same_bits(heads: int, kv_heads: int, head_dim: int, kind: str) -> None:
    spec = replace(LAYER, heads=heads, kv_heads=kv_heads, head_dim=head_dim, scale=head_dim**-0.5, **KINDS[kind])
    q, k, v = numbers(spec, seed=1)
    answers = []
    for isa in isas():
        native.library().set_isa(isa)
        kept = cache(spec)
        answers.append([attention.attend(step(a, b), kept, spec, q[a:b], k[a:b], v[a:b]) for a, b in ((0, 259), (259, 299), (299, 300))])
    for other in answers[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(other, answers[0], strict=True))


@needs_native
def test_positions_whose_values_are_zero_keep_their_weight() -> None:
    q, k, v = numbers(LAYER)
    v[::2] = 0
    out = attention.attend(step(0, LENGTH), cache(LAYER), LAYER, q, k, v)
    np.testing.assert_allclose(out, real_answer(LAYER, q, k, v), atol=4e-3)


@needs_native
@pytest.mark.parametrize("size", [1e-15, 1e-3, 1e15])
def test_values_and_keys_of_any_usual_size_are_held(size: float) -> None:
    q, k, v = numbers(LAYER)
    plain = attention.attend(step(0, LENGTH), cache(LAYER), LAYER, q, k, v)
    other = attention.attend(step(0, LENGTH), cache(LAYER), LAYER, q / np.float32(size), k * np.float32(size), v * np.float32(size))
    np.testing.assert_allclose(other / np.float32(size), plain, atol=4e-3)


@needs_native
@pytest.mark.parametrize("isa", ["portable", "amx"])
@pytest.mark.parametrize("what", ["q", "k", "v"])
@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_a_broken_number_reaches_those_who_see_it_and_nobody_else(what: str, poison: float, isa: str) -> None:
    if isa not in isas():
        pytest.skip("this processor or system has no AMX tiles for us")
    native.library().set_isa(isa)
    x = dict(zip("qkv", numbers(LAYER), strict=True))
    x[what][7, 5] = poison
    out = attention.attend(step(0, LENGTH), cache(LAYER), LAYER, **x).reshape(LENGTH, 6, 64)
    seen = out[7:8, 0] if what == "q" else out[7:, :3]
    assert np.isnan(seen).all() and np.isnan(out).sum() == seen.size


@needs_native
def test_scores_beyond_four_million_are_no_number_rather_than_a_wrong_one() -> None:
    q, k, v = numbers(LAYER)
    assert np.isnan(attention.attend(step(0, LENGTH), cache(LAYER), LAYER, q * np.float32(1e8), k, v)[40:]).all()


@given(st.integers(0, 2**32), st.sampled_from([1e-3, 1.0, 300.0]), st.booleans())
@settings(max_examples=30, deadline=None)
def test_what_comes_back_is_within_half_a_step(seed: int, size: float, key: bool) -> None:
    x = (np.random.default_rng(seed).normal(size=(3, 64)) * size).astype(np.float32)
    block = np.zeros((3, kv_formats.block_bytes("i16", 64)), np.uint8)
    kv_formats.put(block, "i16", 9, x, key=key)
    widest = np.abs(x).max(-1, keepdims=True) / 16319
    bound = 0.501 * (widest if key else 2.0 ** np.ceil(np.log2(widest)))
    assert (np.abs(kv_formats.get(block, "i16", 9, 64, key=key) - x) <= bound).all()


@given(st.integers(-16319, 16319))
def test_a_code_is_its_two_halves(code: int) -> None:
    high, low = kv_formats.split_i16(np.array([code]))
    assert 128 * int(high[0]) + int(low[0]) == code and -64 <= low[0] <= 63 and abs(int(high[0])) <= 127


def test_products_leave_out_low_times_low_and_nothing_else() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.integers(-16319, 16320, 64), rng.integers(-16319, 16320, (5, 64))
    (ah, al), (_, bl) = kv_formats.split_i16(a), kv_formats.split_i16(b)
    assert np.array_equal(128 * reference_i16.products(ah, al, b), b @ a - bl.astype(np.int64) @ al.astype(np.int64))


@pytest.mark.parametrize("policy", ["window:window=256", "quest", "blasst:threshold=0.01", "crisp"])
def test_policies_that_read_parts_of_the_cache_refuse_the_format(policy: str) -> None:
    kv = KVSpec((CacheGroup("full", 2, 2, 64, format="i16"),))
    with pytest.raises(UserInputError, match="i16"):
        build_attend(policy, kv, 6)
    assert build_attend("dense", kv, 6) is None


@pytest.mark.parametrize("head_dim, what", [(80, "multiple of 32"), (2048, "at most 1024")])
def test_heads_of_a_width_that_it_cannot_hold_are_refused(head_dim: int, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        reference.new_cache(1, 1, 1, head_dim, "i16")
