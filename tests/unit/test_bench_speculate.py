"""The speculation bench: intervals against tables, every part on a model without weights, missing data said in words."""

import json
import math

import pytest
from typer.testing import CliRunner

from headwater.bench.intervals import paired, t95
from headwater.bench.speculate import Plan, arms, picture, run, tasks
from headwater.bench.speculate_cost import suffix_structure
from headwater.cli.bench import app
from headwater.core.errors import UserInputError


@pytest.mark.parametrize("freedom, table", [(1, 12.706), (4, 2.776), (5, 2.571), (9, 2.262), (29, 2.045), (120, 1.980)])
def test_students_t_is_that_of_the_tables(freedom, table) -> None:
    assert t95(freedom) == pytest.approx(table, rel=2e-3)


def test_an_interval_of_equal_pairs_is_a_point_and_one_pair_has_none() -> None:
    assert paired([2.0, 4.0, 6.0], [1.0, 2.0, 3.0]) == pytest.approx((2.0, 2.0, 2.0))
    low, high = paired([1.0, 4.0], [1.0, 1.0])[1:]
    assert low * high == pytest.approx(4.0) and math.log(high / 2.0) == pytest.approx(12.706205 * math.log(4.0) / 2, rel=1e-4)
    with pytest.raises(ValueError, match="needs two"):
        paired([1.0], [1.0])


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "reasoning"
    folder.mkdir()
    (folder / "gsm8k_test.jsonl").write_text("".join(json.dumps({"question": f"How many are {i} and {i}?"}) + "\n" for i in range(3)))
    task = {"prompt": "Add.", "test": ["assert f(1) == 2"], "code": "def f(x):\n    return x + 1\n"}
    (folder / "mbpp_test.jsonl").write_text(json.dumps(task) + "\n")
    return tmp_path


def test_every_part_runs_and_every_arm_says_what_plain_decoding_says(data, tmp_path) -> None:
    plan = Plan(items=2, think=12, answer=16, draft_at=4, contexts=[64], guesses=[1, 3], rounds=2, pairs=2, pair_tokens=8, copy_tokens=32,
                stream_tokens=8, stream_rounds=2, rollback_rounds=2, history=10_000)
    report = run("echo", plan, data, None, [], lambda _: None)
    rows = [r for r in report.rows if "ratio_of_means" in r]
    assert {r["runner"] for r in rows} == set(arms(plan)) and {r["task"] for r in rows} >= {"gsm8k", "mbpp", "edit"}
    assert all(r["identical"] == r["tasks"] for r in rows)
    assert all(f"mean of ratios {r['mean_of_ratios']:.3f}, ratio of means {r['ratio_of_means']:.3f}" in r["note"] for r in rows)
    assert next(r for r in report.rows if r["task"] == "verbatim copy")["identical"] is True
    assert any("humaneval" in m for m in report.environment["missing"]) or any(r["task"] == "humaneval" for r in rows)
    kept = [r for r in report.rows if r["runner"] == "kept inputs"]
    assert len(kept) == 4 and all(r["identical"] and len(r["verify"]) == 2 for r in kept)
    pytest.importorskip("matplotlib")
    picture(report, tmp_path / "speculate.png")
    assert (tmp_path / "speculate.png").stat().st_size > 1000


def test_a_folder_without_tasks_is_named(tmp_path) -> None:
    with pytest.raises(UserInputError, match="gsm8k_test"):
        tasks(tmp_path, tmp_path / "nothing", 3)


def test_a_part_that_does_not_exist_is_named() -> None:
    result = CliRunner().invoke(app, ["speculate", "--only", "everything"])
    assert isinstance(result.exception, UserInputError) and "curves" in str(result.exception)


def test_the_suffix_structure_stays_within_its_bytes() -> None:
    assert suffix_structure(200_000, lookups=50)["bytes per token"] <= 24
