"""Products on AMX tiles: the bits of the vector path for every layout, ragged rows, remainders, bias and mixed stacks."""

import numpy as np
import pytest
from kernel_samples import BLOCK_TYPES, isas, raw_tensor, width

from headwater.kernels import native
from headwater.kernels.weights import Weight, pack


@pytest.fixture(autouse=True)
def _tiles_or_skip() -> None:
    if not native.available():
        pytest.skip("needs the native module (make native)")
    if "amx" not in isas():
        pytest.skip("this processor or system has no AMX tiles for us")


def both(weight: Weight, x: np.ndarray, bias: np.ndarray | None, *, fine: bool) -> tuple[np.ndarray, np.ndarray]:
    lib = native.library()
    before, out = lib.isa(), []
    for isa in ("amx", "avx512"):
        lib.set_isa(isa)
        out.append(native.linear(x, weight, bias, fine=fine))
    lib.set_isa(before)
    return out[0], out[1]


@pytest.mark.parametrize("fine", [False, True])
@pytest.mark.parametrize("name", BLOCK_TYPES)
def test_tiles_have_the_bits_of_vectors(name: str, fine: bool) -> None:
    rng = np.random.default_rng(61)
    cols = width(name, 3)
    weight = Weight([pack(name, raw_tensor(rng, name, 100, cols), 100, cols)])
    for n in (23, 24, 31, 32, 33, 250, 500):                        # below the first tile product, whole and ragged tiles, several chunks
        x = (rng.normal(0, 1, (n, cols)) * rng.choice([1.0, 1e-3, 30.0], (n, 1))).astype(np.float32)
        tiles, vectors = both(weight, x, rng.normal(0, 1, 100).astype(np.float32), fine=fine)
        assert np.array_equal(tiles, vectors), n


def test_extreme_codes_and_values_that_are_not_finite_agree() -> None:
    rng = np.random.default_rng(62)
    raw = np.full((40, 4, 34), 0x80, np.uint8)                      # Q8_0: every code -128
    raw[..., :2] = np.array([0.5], "<f2").view(np.uint8)
    weight = Weight([pack("Q8_0", raw.reshape(-1), 40, 128)])
    x = np.where(rng.random((64, 128)) < 0.5, -3.0, 3.0).astype(np.float32)
    x[5, 70], x[9, 3] = np.nan, np.inf
    tiles, vectors = both(weight, x, None, fine=True)
    assert np.array_equal(tiles, vectors, equal_nan=True)
    assert np.isnan(tiles[[5, 9]]).all() and np.isfinite(np.delete(tiles, [5, 9], axis=0)).all()


def test_a_stack_of_float_and_block_parts_agrees() -> None:
    rng = np.random.default_rng(63)
    weight = Weight([pack(name, raw_tensor(rng, name, 37, 512), 37, 512) for name in ("Q4_1", "F16", "Q6_K", "BF16", "Q2_K")])
    x = rng.normal(0, 1, (77, 512)).astype(np.float32)
    tiles, vectors = both(weight, x, None, fine=True)
    assert np.array_equal(tiles, vectors)


def test_tiles_may_be_used_from_several_threads_and_beside_other_work() -> None:
    rng = np.random.default_rng(64)
    weight = Weight([pack("Q4_0", raw_tensor(rng, "Q4_0", 300, 64), 300, 64)])
    x = rng.normal(0, 1, (96, 64)).astype(np.float32)
    lib = native.library()
    before, threads = lib.isa(), lib.threads()
    lib.set_isa("amx")
    answers = []
    for count in (1, 2, 3):
        lib.set_threads(count)
        answers += [native.linear(x, weight) for _ in range(5)]
    lib.set_isa(before)
    lib.set_threads(threads)
    assert all(np.array_equal(a, answers[0]) for a in answers)
