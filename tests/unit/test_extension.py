"""The benchmark of contexts past the trained length, and the engine's option for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headwater.bench.extension import SCORED, extension, methods_for
from headwater.core.errors import UserInputError
from headwater.core.registry import build
from headwater.engine.build import EngineSpec, context_of
from headwater.kernels import native
from headwater.model.load.loader import open_source
from headwater.model.stretch import parse_scaling


@pytest.mark.parametrize("trained", [512, 2048, 8192, 32_768])
@pytest.mark.parametrize("factor", [2, 4])
def test_every_method_of_the_benchmark_can_be_built(trained: int, factor: int) -> None:
    for method in methods_for(trained, factor):
        scaling, _, attend = (part.strip() for part in method.partition("+"))
        assert parse_scaling(scaling)[1] == factor
        assert not attend or build("attend", attend).selection().everywhere


def test_a_text_too_short_is_one_line() -> None:
    with pytest.raises(UserInputError, match="tokens"):
        extension([], np.zeros(100, np.int32), [90], ["none:factor=2"])


def test_a_stretched_model_serves_the_longer_context_and_says_the_limit(smollm2: Path) -> None:
    with open_source(smollm2) as plain, open_source(smollm2, "yarn:factor=2") as longer:
        assert longer.config.context == 2 * plain.config.context
        spec = EngineSpec(str(smollm2), context=plain.config.context + 1)
        assert context_of(spec, longer.config.context) == plain.config.context + 1
        with pytest.raises(UserInputError, match="--context"):
            context_of(spec, plain.config.context)


@pytest.mark.slow
def test_what_moves_far_positions_costs_nothing_inside_the_trained_length(smollm2: Path) -> None:
    if not native.available():
        pytest.skip("the numpy reference is too slow for this")
    tokens = np.random.default_rng(0).integers(0, 49152, 600 + SCORED).astype(np.int32)
    methods = ["none:factor=2", "yarn:factor=2", "none:factor=2 + dualchunk:trained=8192", "none:factor=2 + stream:window=300"]
    rows = {(r["method"], r["position"]): r for r in extension([smollm2], tokens, [200, 600], methods)}
    assert all(rows[methods[2], p]["kl"] == 0 for p in (200, 600))
    assert rows[methods[3], 200]["kl"] == 0 < rows[methods[3], 600]["kl"]
    assert all(rows[methods[1], p]["kl"] > 0 for p in (200, 600))
