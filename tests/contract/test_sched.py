"""Every resident of the room `sched`: determinism, bounds, no mutation of what it sees, a storm; and what each one is for."""

from dataclasses import fields

import numpy as np
import pytest

from headwater.core.errors import UserInputError
from headwater.core.registry import build, residents
from headwater.policies.sched.api import LoadView, RequestView, RowsView
from headwater.sim.storm import Storm

POLICIES = sorted(residents("sched"))
LOAD = LoadView(3, 4, 2, 900, 0.5, 1000.0)


def rows(n: int = 30, seed: int = 0, **columns) -> RowsView:
    rng = np.random.default_rng(seed)
    known = rng.integers(1, 500, n).astype(np.int32)
    made = {
        "arrival": np.sort(rng.uniform(0, 50, n)), "priority": rng.integers(0, 3, n).astype(np.int32),
        "owner": rng.integers(0, 4, n).astype(np.int32), "prompt_len": known, "known": known, "done": np.zeros(n, np.int32),
        "max_new": np.full(n, 20, np.int32), "order": np.arange(1, n + 1), "running": np.zeros(n, bool),
    }
    return RowsView(**{**made, **columns})


@pytest.mark.parametrize("name", POLICIES)
def test_ranks_and_victims_are_one_finite_number_per_row_and_the_same_each_time(name: str) -> None:
    for method in ("rank", "victim"):
        a, b = (getattr(build("sched", name), method)(rows(), 60.0) for _ in range(2))
        assert len(a) == 30 and np.isfinite(a).all() and np.array_equal(a, b)


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_changes_nothing_that_it_sees(name: str) -> None:
    seen, policy = rows(), build("sched", name)
    before = [getattr(seen, f.name).copy() for f in fields(seen)]
    policy.rank(seen, 60.0), policy.victim(seen, 60.0)
    assert all(np.array_equal(getattr(seen, f.name), old) for f, old in zip(fields(seen), before, strict=True))


@pytest.mark.parametrize("name", POLICIES)
def test_budgets_and_chunks_are_possible(name: str) -> None:
    policy = build("sched", name)
    budget = policy.budget(LOAD, 1.0)
    assert budget.tokens > 0 and budget.rows > 0 and budget.seconds > 0
    assert 0 <= policy.chunk(1000, 64, 3) <= 64


@pytest.mark.parametrize("name", POLICIES)
def test_a_full_queue_is_refused_with_a_reason_and_a_time(name: str) -> None:
    admit = build("sched", f"{name}:queue=3").admit(RequestView(10, 10, 0, "", None), LOAD, 1.0)
    assert admit.verdict == "refuse" and admit.reason and admit.retry_after > 0


@pytest.mark.parametrize("name", POLICIES)
def test_no_rows_are_no_ranks(name: str) -> None:
    assert len(build("sched", name).rank(rows(0), 1.0)) == 0


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_survives_a_storm(name: str) -> None:
    Storm(2, 120, sched=name).run()


@pytest.mark.parametrize("name", [n for n in POLICIES if n != "fair"])
def test_nobody_waits_for_ever(name: str) -> None:
    old = rows(2, arrival=np.array([0.0, 10_000.0]), priority=np.array([5, 0]), known=np.array([5000, 1]), owner=np.zeros(2, np.int32))
    first, fresh = build("sched", name).rank(old, 10_000.0)
    assert first < fresh


def test_fcfs_ranks_by_arrival() -> None:
    assert np.argsort(build("sched", "fcfs").rank(rows(), 60.0)).tolist() == list(range(30))


def test_sjf_ranks_the_shorter_prompt_first() -> None:
    long, short = build("sched", "sjf").rank(rows(2, known=np.array([400, 20]), arrival=np.array([1.0, 1.1])), 2.0)
    assert short < long


def test_priority_ranks_the_smaller_number_first() -> None:
    later, sooner = build("sched", "priority").rank(rows(2, priority=np.array([1, 0]), arrival=np.array([1.0, 1.1])), 2.0)
    assert sooner < later


def test_fair_puts_the_owner_with_less_service_first() -> None:
    policy = build("sched", "fair")
    view = rows(2, owner=np.array([0, 1], np.int32))
    policy.rank(view, 0.0)
    policy.ran(np.array([0]), np.array([500]), np.array([0]))
    greedy, modest = policy.rank(view, 1.0)
    assert modest < greedy


def test_fair_gives_no_credit_for_idleness() -> None:
    policy = build("sched", "fair")
    busy = rows(1, owner=np.array([0], np.int32))
    policy.rank(busy, 0.0)
    policy.ran(np.array([0]), np.array([100_000]), np.array([0]))
    both = rows(2, owner=np.array([0, 1], np.int32))
    policy.rank(busy, 1.0)
    policy.rank(both, 2.0)
    policy.ran(np.array([1]), np.array([300]), np.array([0]))
    old, new = policy.rank(both, 3.0)
    assert old < new                                                # the newcomer was lifted to the busy owner's count


@pytest.mark.parametrize(
    "spec", ["fcfs:tokens=0", "sjf:rows=-1", "priority:seconds=0", "fcfs:seconds=nan", "fair:prompt_weight=-1", "fair:new_weight=inf"],
)
def test_a_parameter_that_means_nothing_is_refused_by_name(spec: str) -> None:
    with pytest.raises(UserInputError, match=spec.split(":")[1].split("=", maxsplit=1)[0]):
        build("sched", spec)
