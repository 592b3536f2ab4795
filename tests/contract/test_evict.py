"""Every resident of the room `evict`: determinism, bounds, no mutation of what it sees, a small storm, and a time bound in calls."""

from dataclasses import fields

import numpy as np
import pytest

from headwater.core.errors import UserInputError
from headwater.core.registry import build, residents
from headwater.policies.evict.api import BlockColumns
from headwater.sim.storm import Storm

RULES = sorted(residents("evict"))


def columns(n: int = 200, seed: int = 0) -> BlockColumns:
    rng = np.random.default_rng(seed)
    created = rng.uniform(0, 50, n)
    return BlockColumns(created + rng.uniform(0, 50, n), created, rng.integers(0, 5, n).astype(np.int32), rng.integers(0, 40, n).astype(np.int32),
                        rng.integers(0, 2, n).astype(np.int32), n)


@pytest.mark.parametrize("rule", RULES)
def test_scores_are_one_number_per_block_and_the_same_each_time(rule: str) -> None:
    idx = np.arange(0, 200, 3, dtype=np.int32)
    a, b = (build("evict", rule).score(columns(), idx, 100.0) for _ in range(2))
    assert a.shape == idx.shape and a.dtype == np.float64
    assert np.isfinite(a).all() and np.array_equal(a, b)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_changes_nothing_that_it_sees(rule: str) -> None:
    seen, idx = columns(), np.arange(50, dtype=np.int32)
    before = [np.copy(getattr(seen, f.name)) for f in fields(seen)]
    build("evict", rule).score(seen, idx, 100.0)
    assert all(np.array_equal(getattr(seen, f.name), old) for f, old in zip(fields(seen), before, strict=True))
    assert np.array_equal(idx, np.arange(50))


@pytest.mark.parametrize("rule", RULES)
def test_a_score_does_not_depend_on_the_order_in_which_blocks_are_asked_for(rule: str) -> None:
    idx = np.arange(200, dtype=np.int32)
    order = np.random.default_rng(1).permutation(200)
    policy = build("evict", rule)
    assert np.array_equal(policy.score(columns(), idx, 100.0)[order], policy.score(columns(), idx[order], 100.0))


@pytest.mark.parametrize("rule", RULES)
def test_no_blocks_are_no_scores(rule: str) -> None:
    assert len(build("evict", rule).score(columns(), np.zeros(0, np.int32), 1.0)) == 0


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_survives_a_storm(rule: str) -> None:
    Storm(1, 120, evict=rule).run()


@pytest.mark.parametrize("rule", RULES)
def test_among_equal_blocks_the_older_one_leaves(rule: str) -> None:
    seen = BlockColumns(np.array([5.0, 9.0]), np.zeros(2), np.ones(2, np.int32), np.zeros(2, np.int32), np.zeros(2, np.int32), 10)
    old, new = build("evict", rule).score(seen, np.arange(2, dtype=np.int32), 10.0)
    assert old < new


def test_slru_protects_what_was_hit_twice_from_a_scan() -> None:
    seen = BlockColumns(np.array([1.0, 9.0]), np.zeros(2), np.array([2, 0], np.int32), np.zeros(2, np.int32), np.zeros(2, np.int32), 10)
    twice, scan = build("evict", "slru").score(seen, np.arange(2, dtype=np.int32), 10.0)
    assert scan < twice


def test_slru_protects_no_more_than_its_share() -> None:
    seen = BlockColumns(np.arange(10.0), np.zeros(10), np.full(10, 2, np.int32), np.zeros(10, np.int32), np.zeros(10, np.int32), 10)
    scores = build("evict", "slru:protected=0.5").score(seen, np.arange(10, dtype=np.int32), 10.0)
    assert (scores > 10).tolist() == [False] * 5 + [True] * 5


def test_lfu_forgets_hits_with_time() -> None:
    seen = BlockColumns(np.array([0.0, 1000.0]), np.zeros(2), np.array([7, 0], np.int32), np.zeros(2, np.int32), np.zeros(2, np.int32), 10)
    often, lately = build("evict", "lfu:half_life=100").score(seen, np.arange(2, dtype=np.int32), 1000.0)
    assert often < lately


def test_demand_keeps_what_the_queue_wants() -> None:
    seen = BlockColumns(np.array([1.0, 9.0]), np.zeros(2), np.zeros(2, np.int32), np.zeros(2, np.int32), np.array([1, 0], np.int32), 10)
    wanted, other = build("evict", "demand").score(seen, np.arange(2, dtype=np.int32), 10.0)
    assert other < wanted


@pytest.mark.parametrize("spec", ["slru:protected=7", "slru:protected=nan", "lfu:half_life=0", "lfu:half_life=inf", "lfu:half_life=-1"])
def test_a_parameter_that_means_nothing_is_refused_by_name(spec: str) -> None:
    with pytest.raises(UserInputError, match=spec.split(":")[1].split("=", maxsplit=1)[0]):
        build("evict", spec)
