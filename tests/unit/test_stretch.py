"""Contexts beyond the trained one: frequencies against the formulas of the papers, written again, and against recorded values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from headwater.core.errors import UserInputError
from headwater.model.config import ModelConfig
from headwater.model.rope import RopeConfig
from headwater.model.stretch import parse_scaling, stretch, stretched

PLAIN = RopeConfig(10_000.0, 64)


def config(**fields) -> ModelConfig:
    shape = {"vocab": 64, "dim": 128, "layers": 2, "ffn": 128, "heads": 2, "kv_heads": 1, "head_dim": 64, "context": 2048, "eps": 1e-5}
    return ModelConfig("llama", "test", **shape, **({"rope": PLAIN} | fields))


def yarn_by_wavelength(theta: float, dims: int, factor: float, context: int) -> np.ndarray:
    """YaRN as its section 3.2 puts it: by how many turns a pair makes within the trained context, the ramp linear in the pair's number."""
    base = np.array([theta ** (-2 * i / dims) for i in range(dims // 2)])
    at = [dims / 2 * math.log(context / (2 * math.pi * turns), theta) for turns in (32, 1)]     # the pair that makes 32 turns, and the one of 1
    low, high = max(math.floor(at[0]), 0), min(math.ceil(at[1]), dims - 1)
    out = []
    for i, f in enumerate(base):
        stretched_share = min(max((i - low) / (high - low), 0.0), 1.0)
        out.append(f * (1 - stretched_share) + f / factor * stretched_share)
    return np.array(out)


@pytest.mark.parametrize("factor", [2.0, 4.0, 16.0])
@pytest.mark.parametrize("theta", [10_000.0, 1_000_000.0])
def test_yarn_is_the_formula_of_the_paper(theta: float, factor: float) -> None:
    rope = stretch(RopeConfig(theta, 64), "yarn", factor, 2048)
    np.testing.assert_allclose(rope.inv_freq(), yarn_by_wavelength(theta, 64, factor, 2048), rtol=1e-6)
    assert rope.mscale() == pytest.approx(0.1 * math.log(factor) + 1)


def test_yarn_keeps_fast_pairs_and_divides_slow_ones() -> None:
    plain, yarn = PLAIN.inv_freq(), stretch(PLAIN, "yarn", 4.0, 2048).inv_freq()
    turns = 2048 * plain / (2 * math.pi)
    assert np.array_equal(yarn[turns > 40], plain[turns > 40])
    np.testing.assert_allclose(yarn[turns < 0.7], plain[turns < 0.7] / 4, rtol=1e-6)


def test_ntk_moves_the_slowest_pair_by_the_factor_and_the_fastest_not() -> None:
    plain, ntk = PLAIN.inv_freq(), stretch(PLAIN, "ntk", 4.0, 2048).inv_freq()
    assert ntk[0] == plain[0] and plain[-1] / ntk[-1] == pytest.approx(4, rel=1e-6)


def test_linear_is_every_position_divided() -> None:
    np.testing.assert_allclose(stretch(PLAIN, "linear", 4.0, 2048).inv_freq(), PLAIN.inv_freq() / 4, rtol=1e-6)


def test_the_context_grows_and_windows_keep_their_embedding() -> None:
    longer = stretched(config(windows=(0, 512)), "yarn:factor=4")
    assert longer.context == 8192 and longer.rope is not None and longer.rope.scaling == "yarn"
    assert longer.rope_local == PLAIN
    assert stretched(config(), "") == config()
    unmoved = stretched(config(), "none:factor=2")
    assert unmoved.rope == PLAIN and unmoved.context == 4096


@pytest.mark.parametrize("spec", ["yarn", "yarn:factor=1", "yarn:factor=x", "yarn:times=4", "other:factor=4", "yarn:factor=1000", "yarn:factor=nan"])
def test_a_bad_scaling_is_one_line(spec: str) -> None:
    with pytest.raises(UserInputError, match="--rope-scaling"):
        parse_scaling(spec)


def test_models_that_are_stretched_already_or_have_no_embedding_are_refused() -> None:
    own = config(rope=RopeConfig(10_000.0, 64, scaling="linear", factor=2.0))
    with pytest.raises(UserInputError, match="already"):
        stretched(own, "yarn:factor=4")
    assert stretched(own, "none:factor=4").context == 8192
    with pytest.raises(UserInputError, match="no rotary"):
        stretched(config(rope=None), "yarn:factor=4")
