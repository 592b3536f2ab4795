"""Whether the check of the simulator judges as it says, and runs on a real engine."""

import numpy as np
import pytest

from headwater.engine.build import EngineSpec, load_engine
from headwater.sim.traces import Trace, poisson
from headwater.sim.truth import Line, compare, text


@pytest.mark.parametrize(("figure", "real", "simulated", "holds"), [
    ("itl p50", [1.0, 1.0, 1.0], [1.09, 1.09, 1.09], True),
    ("itl p50", [1.0, 1.0, 1.0], [1.11, 1.11, 1.11], False),
    ("itl p95", [1.0, 1.0, 1.0], [0.86, 0.86, 0.86], True),
    ("ttft p50", [0.7, 1.0, 1.0], [0.9, 1.29, 1.29], True),          # 29 % too slow where the replays themselves differ by 30 %
    ("ttft p50", [1.0, 2.0, 1.0], [1.0, 2.0, 1.0], True),            # each replay is held against its own simulation
])
def test_a_figure_holds_within_its_tolerance_or_the_spread_of_the_replays(figure: str, real: list, simulated: list, holds: bool) -> None:
    assert Line(0.6, figure, real, simulated).holds == holds


def test_a_real_engine_and_its_simulation_give_the_same_figures_to_compare() -> None:
    engine = load_engine(EngineSpec("echo", context=256))
    found, lines = compare(engine, poisson(12, 50.0, 40, 12, 3), [0.5], 2)
    engine.close()
    assert found.steps > 20 and [x.figure for x in lines] == ["ttft p50", "ttft p95", "itl p50", "itl p95"]
    assert all(len(x.real) == len(x.simulated) == 2 and min(x.real + x.simulated) > 0 for x in lines)
    assert len(text(found, lines).splitlines()) == 6


def test_a_redrawn_trace_has_the_runs_of_its_own_in_another_order() -> None:
    trace = Trace("t", np.cumsum(np.arange(1.0, 41.0)), np.arange(100, 140, dtype=np.int32), np.arange(1, 41, dtype=np.int32))
    other = trace.redrawn(3, run=8)
    assert len(other) == len(trace) and other.time[0] == 0.0
    assert np.array_equal(other.prompt, other.output + 99)          # what belongs together stays together
    follows = (np.diff(other.output) - 1) % 40 == 0
    assert follows.sum() >= 35                                      # but for four borders of runs
    inside = np.flatnonzero(follows & (other.output[1:] != 1))
    assert np.allclose(np.diff(other.time)[inside], other.output[1:][inside])                       # each keeps its gap
    assert not np.array_equal(other.output, trace.redrawn(4, run=8).output)
