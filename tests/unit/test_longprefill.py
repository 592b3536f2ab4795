"""The benchmark of prompts in patterns: figures mean what their names say, a policy that leaves nothing out diverges by nothing."""

from pathlib import Path

import numpy as np
import pytest

from headwater.bench.longprefill import ABLATION, POLICIES, QUICK, Bench, Score, allowed, check, crossover, draw, faster, row, verdict
from headwater.core.errors import UserInputError
from headwater.core.registry import build
from headwater.kernels import native
from headwater.kernels.pattern import PatternSpec

TEXT = "\n".join(f"Line {i} of a play in which nobody says anything of note, though {i % 7} of them try to." for i in range(4000))


def score(policy: str, steps: list[float], left: float = 0.0, kl: float = 0.0) -> Score:
    return Score(policy, 512 * len(steps), [kl, kl], [True, True], [left], [steps], [[s / 2 for s in steps]], [steps], [0.0])


DENSE = score("dense", [1.0, 2.0, 3.0, 4.0])


def test_speed_up_and_what_was_allowed() -> None:
    half = score("half", [1.0, 1.0, 1.5, 1.5], left=0.5)
    assert faster(half, DENSE) == 2.0
    assert allowed(half, DENSE) == pytest.approx(10 / (10 - 0.5 * 5))
    assert row(half, DENSE)["of_allowed"] == pytest.approx(1 / (4 / 3 - 1))


@pytest.mark.parametrize("steps, length", [
    ([1.2, 1.7, 2.0, 3.0], 1024), ([0.9, 1.9, 2.0, 3.0], 512), ([1.2, 1.9, 3.0, 3.8], 2048), ([1.2, 2.0, 3.0, 4.0], None),
    ([0.5, 2.0, 3.0, 5.0], None),
])
def test_a_pattern_pays_from_the_length_on_where_all_so_far_costs_less(steps: list[float], length: int | None) -> None:
    assert crossover(score("x", steps), DENSE) == length


def test_the_verdict_names_the_fastest_within_the_bound_or_says_that_there_is_none() -> None:
    fast, good = score("fast", [0.5] * 4, kl=0.02), score("good", [0.9] * 4, kl=0.005)
    rows = [row(s, DENSE) for s in (DENSE, fast, good)]
    assert verdict(rows)[2048].startswith("good: ")
    assert "not reproduced at this scale" in verdict(rows[:2])[2048]


def test_every_policy_of_the_grid_is_for_prompts() -> None:
    assert check([*POLICIES, *QUICK, *ABLATION.values()])
    assert len({build("attend", p).selection() for p in ABLATION.values()}) == len(ABLATION)
    with pytest.raises(UserInputError, match="--policy wave"):
        check(["wave"])


def test_router_and_threshold_are_ablated_one_at_a_time() -> None:
    base, router, rule, *_ = (build("attend", p).selection() for p in ABLATION.values())
    assert isinstance(base, PatternSpec) and (router.route, router.coverage) == (1, False) and (rule.route, rule.coverage) == (0, True)


@pytest.mark.slow
def test_scores_on_a_real_model(smollm2: Path, tmp_path: Path) -> None:
    if not native.available():
        pytest.skip("the numpy reference is too slow for this")
    from headwater.engine.build import EngineSpec, load_text
    from headwater.model.load.loader import load_model

    bench = Bench(load_model(smollm2), load_text(EngineSpec(str(smollm2))).tokenizer, TEXT)
    names = ("crisp:least=4000", "crisp:tile=256,block=32,least=1,alpha=1.5", "crisp:whole_prompt=true,block=32,least=1", "blasst:threshold=0.5")
    scores = bench.run(1300, 1, names)
    dense, everything, some, whole, blasst = rows = [row(s, scores[0]) for s in scores]
    assert dense["kl"] == 0 and dense["left_out"] == 0
    assert everything["values"] == dense["values"] and everything["left_out"] == 0 and everything["mass"] == pytest.approx(1)
    for r in (some, whole):
        assert 0 < r["left_out"] < 1 and r["kl"] > 0 and 0.5 < r["mass"] < 1
    assert blasst["mass"] is None and 0 < blasst["left_out"] < 1
    draw(rows, tmp_path / "prefill.png")
    assert (tmp_path / "prefill.png").stat().st_size > 1000
    assert np.isfinite([r["faster"] for r in rows]).all()
