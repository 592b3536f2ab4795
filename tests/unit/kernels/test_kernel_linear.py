"""Products: equal to the integer contract of ADR 001 bit for bit, on every instruction set, whatever the number of rows."""

import os
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_samples import ALL_TYPES, BLOCK_TYPES, raw_tensor, width

from headwater.kernels import native, reference
from headwater.kernels.weights import Weight, pack

many = settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])


def weight_of(rng: np.random.Generator, *parts: tuple[str, int], blocks: int = 2) -> Weight:
    cols = max(width(name, blocks) for name, _ in parts)
    return Weight([pack(name, raw_tensor(rng, name, rows, cols), rows, cols) for name, rows in parts])


def rows_of(rng: np.random.Generator, n: int, cols: int) -> np.ndarray:
    return (rng.normal(0, 1, (n, cols)) * rng.choice([1.0, 1e-3, 30.0], (n, 1))).astype(np.float32)


@pytest.mark.parametrize("name", ALL_TYPES)
def test_a_product_has_the_bits_of_the_contract(isa: str, name: str) -> None:
    rng = np.random.default_rng(11)
    weight = weight_of(rng, (name, 37))
    for n in (1, 2, 3, 4, 5, 13):
        x, bias = rows_of(rng, n, weight.cols), rng.normal(0, 1, weight.rows).astype(np.float32)
        assert np.array_equal(native.linear(x, weight, bias), reference.linear(x, weight, bias, "exact")), n


@many
@given(
    names=st.lists(st.sampled_from(BLOCK_TYPES), min_size=1, max_size=3), n=st.integers(0, 40), blocks=st.integers(1, 3), seed=st.integers(0, 2**32)
)
def test_random_stacks_and_shapes_have_the_bits_of_the_contract(isa: str, names: list[str], n: int, blocks: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weight = weight_of(rng, *((name, int(rng.integers(1, 70))) for name in names), blocks=8 * blocks if len(set(names)) > 1 else blocks)
    x = rows_of(rng, n, weight.cols)
    assert np.array_equal(native.linear(x, weight), reference.linear(x, weight, mode="exact"))


@pytest.mark.parametrize("name", ["Q4_1", "Q8_0", "Q6_K", "F16"])
def test_a_row_has_the_same_bits_alone_and_among_hundreds(isa: str, name: str) -> None:
    if isa == "portable":
        pytest.skip("hundreds of rows take long on the portable path; smaller shapes are covered above")
    rng = np.random.default_rng(12)
    weight = weight_of(rng, (name, 100), blocks=3)
    x = rows_of(rng, 500, weight.cols)
    whole = native.linear(x, weight)
    for r in (0, 239, 240, 241, 499):
        assert np.array_equal(native.linear(x[r : r + 1], weight)[0], whole[r]), r


def test_the_number_of_threads_does_not_move_a_bit(isa: str) -> None:
    rng = np.random.default_rng(13)
    weight = weight_of(rng, ("Q4_1", 300), ("Q8_0", 21), blocks=4)
    x = rows_of(rng, 9, weight.cols)
    lib = native.library()
    before, answers = lib.threads(), []
    for threads in (1, 2, 3):
        lib.set_threads(threads)
        answers.append(native.linear(x, weight))
    lib.set_threads(before)
    assert all(np.array_equal(a, answers[0]) for a in answers)


@pytest.mark.parametrize("name", ["Q4_1", "Q8_0", "Q5_K", "BF16"])
def test_single_output_rows_equal_those_of_the_whole_product(isa: str, name: str) -> None:
    rng = np.random.default_rng(14)
    weight = weight_of(rng, (name, 37), ("Q8_0", 20), blocks=8)
    x, ids = rows_of(rng, 3, weight.cols), np.array([56, 0, 36, 37, 5, 5], np.int32)
    assert np.array_equal(native.linear_rows(x, weight, ids), native.linear(x, weight)[:, ids])


@pytest.mark.parametrize("name", ALL_TYPES)
def test_gathered_rows_are_the_dequantised_ones(isa: str, name: str) -> None:
    weight = weight_of(np.random.default_rng(15), (name, 37))
    ids = np.array([36, 0, 17, 16, 15], np.int32)
    assert np.array_equal(native.gather(weight, ids), weight.dequantise()[ids])


@pytest.mark.parametrize("name", BLOCK_TYPES)
def test_the_integer_contract_stays_near_the_float_product(name: str) -> None:
    # eight-bit activations: about 0.4 % noise per product of unit normals, averaged over the row
    rng = np.random.default_rng(16)
    weight = weight_of(rng, (name, 48), blocks=2)
    x = rng.normal(0, 1, (8, weight.cols)).astype(np.float32)
    exact, floats = reference.linear(x, weight, mode="exact"), reference.linear(x, weight, mode="float")
    assert np.linalg.norm(exact - floats) < 0.015 * np.linalg.norm(floats)


def test_extreme_codes_do_not_saturate(isa: str) -> None:
    # codes -128 and activations +-127 throughout: 32 * 128 * 127 per block, the largest sum that can occur
    raw = np.empty((16, 2, 34), np.uint8)
    raw[..., :2] = np.array([1.0], "<f2").view(np.uint8)
    raw[..., 2:] = 0x80
    weight = Weight(pack("Q8_0", raw, 16, 64))
    x = np.full((1, 64), -3.0, np.float32)
    assert np.array_equal(native.linear(x, weight), reference.linear(x, weight, mode="exact"))


def test_activations_are_quantised_as_defined(isa: str) -> None:
    rng = np.random.default_rng(17)
    x = rows_of(rng, 40, 96)
    x[0, :32], x[1, 5], x[2, 40], x[3, :32], x[4, 32:64] = 0, np.nan, np.inf, 1e-38, 1e-31
    q, scale = native.quantise_rows(x)
    want_q, want_scale = reference.quantise_rows(x)
    assert np.array_equal(scale, want_scale, equal_nan=True)
    finite = np.repeat(np.isfinite(want_scale), 32, axis=1)
    assert np.array_equal(q[finite], want_q[finite])


def test_a_value_that_is_not_finite_spoils_its_own_row_only(isa: str) -> None:
    rng = np.random.default_rng(18)
    weight = weight_of(rng, ("Q4_1", 32))
    x = rows_of(rng, 3, weight.cols)
    clean = native.linear(x, weight)
    x[1, 3] = np.nan
    y = native.linear(x, weight)
    assert np.isnan(y[1]).all()
    assert np.array_equal(y[[0, 2]], clean[[0, 2]])


def test_fused_multiply_add_of_the_reference_rounds_once() -> None:
    # exact rationals decide: a * b + c rounded to float32 by integer arithmetic
    from fractions import Fraction

    rng = np.random.default_rng(19)
    a, b, c = ((rng.normal(0, 1, 400) * 2.0 ** rng.integers(-20, 20, 400)).astype(np.float32) for _ in range(3))
    c[:100] = -(a[:100].astype(np.float64) * b[:100]).astype(np.float32)      # cancellation: where double rounding shows
    got = reference.fma(a, b, c)
    for x, y, z, r in zip(a, b, c, got, strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        error = abs(Fraction(float(r)) - exact)
        for other in (np.nextafter(r, np.float32(np.inf)), np.nextafter(r, np.float32(-np.inf))):
            assert error <= abs(Fraction(float(other)) - exact)


def test_a_forked_process_computes_with_threads_of_its_own() -> None:
    if not native.available() or not hasattr(os, "fork"):
        pytest.skip("needs the native module and fork")
    rng = np.random.default_rng(20)
    weight = weight_of(rng, ("Q4_1", 300))
    x = rows_of(rng, 9, weight.cols)
    lib, before = native.library(), native.library().threads()
    lib.set_threads(2)
    want = native.linear(x, weight)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)                    # Python warns of forks with threads; that is the point here
        child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(native.linear(x, weight), want) else 1)
    lib.set_threads(before)
    assert os.waitpid(child, 0)[1] == 0
