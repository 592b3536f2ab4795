"""Cost models: what they learn, and that more work never costs less."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.core.cost import KNEE, LearnedCost, LinearCost, columns, non_negative
from headwater.core.plan import StepFeatures
from headwater.sim.fit import fit

TRUE = LinearCost((3e-3, 9e-4, -5e-4, 4e-5, 8e-5, 2e-8, 0.0, 1e-7))


def steps(n: int, seed: int = 0) -> list[StepFeatures]:
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(n):
        rows = int(rng.integers(1, 17))
        tokens = rows + int(rng.choice([0, 64, 256, 512]))
        context = int(rng.integers(50, 2000))
        out.append(StepFeatures(tokens, rows, rows, tokens * context, 0, rows * int(rng.integers(50, 2000))))
    return out


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_a_learned_cost_predicts_what_it_saw(noise: float) -> None:
    rng, learned = np.random.default_rng(1), LearnedCost()
    for f in steps(600):
        learned.learn(f, TRUE.step_seconds(f) * (1 + noise * rng.standard_normal()))
    errors = [abs(learned.step_seconds(f) / TRUE.step_seconds(f) - 1) for f in steps(100, 2)]
    assert np.mean(errors) < 0.02 + noise / 2


def test_noise_of_a_busy_machine_does_not_pull_the_mean_down() -> None:
    rng, learned, sigma = np.random.default_rng(8), LearnedCost(memory=1e6), 0.4
    many = steps(6000)
    seconds = np.array([TRUE.step_seconds(f) for f in many]) * np.exp(sigma * rng.standard_normal(len(many)) - sigma**2 / 2)
    for f, s in zip(many, seconds.tolist(), strict=True):
        learned.learn(f, s)
    total = sum(TRUE.step_seconds(f) for f in many)
    assert sum(learned.step_seconds(f) for f in many) == pytest.approx(total, rel=0.06)
    offline = fit(many, seconds).cost
    assert sum(offline.step_seconds(f) for f in many) == pytest.approx(total, rel=0.03)


def test_a_paused_machine_does_not_spoil_what_was_learned() -> None:
    learned = LearnedCost()
    for f in steps(400):
        learned.learn(f, TRUE.step_seconds(f))
    f = StepFeatures(64, 2, 2, 5000)
    before = learned.step_seconds(f)
    learned.learn(f, 100 * before)
    for other in steps(100, 3):
        learned.learn(other, TRUE.step_seconds(other))
    assert learned.step_seconds(f) == pytest.approx(before, rel=0.05)


def test_a_machine_that_becomes_slower_is_learned() -> None:
    learned = LearnedCost(memory=200)
    for f in steps(400):
        learned.learn(f, TRUE.step_seconds(f))
    for f in steps(2500, 4):
        learned.learn(f, 20 * TRUE.step_seconds(f))
    f = StepFeatures(64, 2, 2, 5000)
    assert learned.step_seconds(f) == pytest.approx(20 * TRUE.step_seconds(f), rel=0.1)


def test_a_budget_is_held_against_more_than_the_prediction_while_predictions_miss() -> None:
    rng, learned = np.random.default_rng(5), LearnedCost()
    over = late = 0
    for i, f in enumerate(steps(3000)):
        slow = 1.25 if i // 40 % 2 else 1.0                          # a neighbour comes and goes
        seconds = TRUE.step_seconds(f) * slow * float(np.exp(0.05 * rng.standard_normal()))
        if i > 300 and f.tokens > KNEE:
            over += seconds > learned.bound_seconds(f)
            late += seconds > learned.step_seconds(f)
        learned.learn(f, seconds)
    assert over < 0.03 * 2700 * 0.75 and late > 0.3 * 2700 * 0.75


def test_a_bound_is_the_prediction_once_predictions_hold() -> None:
    learned = LearnedCost()
    for f in steps(2000):
        learned.learn(f, TRUE.step_seconds(f))
    f = StepFeatures(200, 4, 4, 60_000)
    assert learned.bound_seconds(f) == pytest.approx(learned.step_seconds(f), rel=0.03)


@given(st.lists(st.tuples(st.integers(1, 600), st.integers(1, 40), st.floats(1e-5, 2.0)), min_size=1, max_size=60))
@settings(max_examples=60)
def test_more_tokens_never_cost_less_whatever_was_learned(seen: list[tuple[int, int, float]]) -> None:
    learned = LearnedCost()
    for tokens, rows, seconds in seen:
        learned.learn(StepFeatures(tokens + rows, rows, rows, tokens * 100), seconds)
    costs = [learned.step_seconds(StepFeatures(n, 1, 1, n * 100)) for n in range(1, 600, 7)]
    assert all(b >= a - 1e-12 for a, b in pairwise(costs))


def test_least_squares_with_bounds_equals_the_free_solution_where_that_is_not_negative() -> None:
    x = np.array([columns(f) for f in steps(80)])[:, :6]
    w = np.array([1e-3, 2e-4, 1e-4, 3e-5, 1e-5, 1e-8])
    got = non_negative(np.pad(x.T @ x, (0, 2)), np.pad(x.T @ (x @ w), (0, 2)))
    assert x @ got[:6] == pytest.approx(x @ w, rel=1e-4)
