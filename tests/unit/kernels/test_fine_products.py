"""Products with two-term activations (ADR 006): native equals the definition bit for bit, and the error falls by an order of magnitude."""

import numpy as np
import pytest

from headwater.kernels import native, reference
from headwater.kernels.weights import Weight, quantise

pytestmark = pytest.mark.skipif(not native.available(), reason="needs the native module")


def weight(rows: int, cols: int, how: str, seed: int) -> Weight:
    return Weight(quantise(np.random.default_rng(seed).normal(0, 0.1, (rows, cols)).astype(np.float32), how))


@pytest.mark.parametrize("n", [1, 2, 7, 16, 17, 40])
@pytest.mark.parametrize("how", ["q8", "q4"])
def test_a_fine_product_has_the_bits_of_its_definition(n, how) -> None:
    w = weight(35, 96, how, n)
    x = np.random.default_rng(n).normal(0, 1, (n, 96)).astype(np.float32)
    bias = np.random.default_rng(1).normal(0, 1, 35).astype(np.float32)
    for b in (None, bias):
        want = reference.linear(x, w, b, mode="exact", fine=True)
        assert native.linear(x, w, b, fine=True).tobytes() == want.tobytes()
        ids = np.array([34, 0, 17], np.int32)
        assert native.linear_rows(x, w, ids, b, fine=True).tobytes() == np.ascontiguousarray(want[:, ids]).tobytes()


def test_a_row_of_a_fine_product_does_not_depend_on_the_others() -> None:
    w = weight(64, 256, "q4", 3)
    x = np.random.default_rng(5).normal(0, 1, (50, 256)).astype(np.float32)
    whole = native.linear(x, w, fine=True)
    for i in (0, 13, 49):
        assert native.linear(x[i : i + 1], w, fine=True).tobytes() == whole[i : i + 1].tobytes()


def test_the_remainder_takes_the_rounding_error_of_activations_away() -> None:
    w = weight(64, 576, "q8", 9)
    x = np.random.default_rng(9).normal(0, 1, (20, 576)).astype(np.float32)
    exact = x.astype(np.float64) @ w.dequantise().astype(np.float64).T
    coarse, fine = (np.abs(native.linear(x, w, fine=f) - exact).max() for f in (False, True))
    assert fine < coarse / 20
