"""Row operations: near their definition, the same bits on every instruction set."""

from collections.abc import Callable

import numpy as np
import pytest
from kernel_samples import isas

from headwater.kernels import native, reference

rng = np.random.default_rng(21)
X, GATE = (rng.normal(0, 3, (7, 96)).astype(np.float32) for _ in range(2))
ODD = rng.normal(0, 3, (3, 37)).astype(np.float32)
WIDE = rng.normal(0, 4, (5, 2 * 53)).astype(np.float32)


def weights(n: int) -> np.ndarray:
    return np.linspace(0.5, 1.5, n, dtype=np.float32)


CASES: dict[str, tuple[Callable[[], np.ndarray], Callable[[], np.ndarray]]] = {
    "rms_norm": (lambda: native.rms_norm(X, weights(96), 1e-5), lambda: reference.rms_norm(X, weights(96), 1e-5)),
    "rms_norm per head": (lambda: native.rms_norm(X, weights(32), 1e-5), lambda: reference.rms_norm(X, weights(32), 1e-5)),
    "rms_norm, odd width": (lambda: native.rms_norm(ODD, weights(37), 1e-6), lambda: reference.rms_norm(ODD, weights(37), 1e-6)),
    "rms_norm of nothing": (lambda: native.rms_norm(X[:0], weights(96), 1e-5), lambda: reference.rms_norm(X[:0], weights(96), 1e-5)),
    "layer_norm": (lambda: native.layer_norm(ODD, weights(37), weights(37), 1e-5), lambda: reference.layer_norm(ODD, weights(37), weights(37), 1e-5)),
    "gated_rms_norm": (lambda: native.gated_rms_norm(X, GATE, weights(48), 1e-5), lambda: reference.gated_rms_norm(X, GATE, weights(48), 1e-5)),
    "silu_mul": (lambda: native.silu_mul(WIDE), lambda: reference.silu_mul(WIDE)),
    "gelu_mul": (lambda: native.gelu_mul(WIDE), lambda: reference.gelu_mul(WIDE)),
    "gelu": (lambda: native.gelu(ODD), lambda: reference.gelu(ODD)),
    "sigmoid_mul": (lambda: native.sigmoid_mul(X, GATE), lambda: reference.sigmoid_mul(X, GATE)),
    "softcap": (lambda: native.softcap(X, 2.0, 5.0), lambda: reference.softcap(X, 2.0, 5.0)),
    "scale": (lambda: native.softcap(X, 2.0, 0.0), lambda: reference.softcap(X, 2.0, 0.0)),
}


@pytest.mark.parametrize("name", CASES)
def test_an_operation_is_near_its_definition(isa: str, name: str) -> None:
    run, define = CASES[name]
    # float32 sums of up to 96 terms and polynomials good to 2 ulp: a few 1e-7, relative to the largest value of the row
    np.testing.assert_allclose(run(), define(), rtol=3e-6, atol=3e-6)


@pytest.mark.parametrize("name", CASES)
def test_an_operation_has_the_same_bits_on_every_instruction_set(name: str) -> None:
    if len(isas()) < 2:
        pytest.skip("needs a processor with more than one instruction set")
    lib = native.library()
    before, answers = lib.isa(), []
    for isa in isas():
        lib.set_isa(isa)
        answers.append(CASES[name][0]().view(np.uint32))
    lib.set_isa(before)
    assert all(np.array_equal(a, answers[0]) for a in answers)


@pytest.mark.parametrize("op", range(11))
def test_a_lane_primitive_has_the_same_bits_on_every_instruction_set(op: int) -> None:
    if len(isas()) < 2:
        pytest.skip("needs a processor with more than one instruction set")
    edge = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1e10, -1e10, 65504, 65519.9, 65520, 6e-8, 2.9e-8, -3e-8, 6.1e-5, 3e38, 1e-40]
    x = np.concatenate([rng.normal(0, 1, 1000), rng.uniform(-95, 95, 2001), edge]).astype(np.float32)
    y = rng.permutation(x)
    lib = native.library()
    before, answers = lib.isa(), []
    for isa in isas():
        lib.set_isa(isa)
        out = np.empty_like(x)
        lib._probe16(op, x, y, out)
        answers.append(out.view(np.uint32))
    lib.set_isa(before)
    assert all(np.array_equal(a, answers[0]) for a in answers)


def test_exp_is_good_to_two_units_in_the_last_place(isa: str) -> None:
    x = np.linspace(-87, 88, 100_001).astype(np.float32)
    out = np.empty_like(x)
    native.library()._probe16(0, x, x, out)
    np.testing.assert_allclose(out, np.exp(x.astype(np.float64)), rtol=2.4e-7)
