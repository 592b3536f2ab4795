"""Storms: new seeds in every run, the seed is printed on failure; `headwater sim storm` runs longer ones."""

import secrets

import pytest

from headwater.sim.storm import SPECS, Storm

PAST = [(21, 150), (22, 150), (5019, 500), (9032, 500)]                            # storms that once found something


@pytest.mark.parametrize("spec", sorted(SPECS))
def test_every_request_of_a_storm_ends_right_or_with_a_reason(spec: str) -> None:
    seed = secrets.randbits(40)
    report = Storm(seed, 150, spec=spec).run()
    assert report.finished + report.aborted + report.failed == 150, f"seed {seed}"


@pytest.mark.parametrize(("seed", "requests"), PAST)
def test_storms_that_once_broke_stay_whole(seed: int, requests: int) -> None:
    Storm(seed, requests).run()


def test_a_seed_replays_exactly() -> None:
    assert Storm(7, 100).run() == Storm(7, 100).run()


@pytest.mark.slow
def test_5000_requests_in_storms_with_new_seeds() -> None:
    first = secrets.randbits(40)
    for i in range(25):
        Storm(first + i, 200).run()
