"""The verb: output formats, exit codes, explanations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headwater.cli.main import app
from headwater.ledger.lint import CATALOGUE

BRIEFS = Path(__file__).parent / "briefs"
ROOT = Path(__file__).parents[3]
run = CliRunner().invoke


@pytest.fixture
def flawed(tmp_path: Path) -> Path:
    path = tmp_path / "brief.md"
    path.write_text(
        (BRIEFS / "rag_daily_en.md").read_text("utf-8").replace("(24 h)", "(36 h)").replace("3 (2 NET-new", "3 (3 NET-new"), "utf-8"
    )
    return path


def test_a_clean_file_gives_zero(flawed: Path) -> None:
    done = run(app, ["lint", str(BRIEFS / "rag_daily_en.md")])
    assert done.exit_code == 0 and "clean: 1 file" in done.output


def test_findings_give_one_with_file_line_rule_and_quote(flawed: Path) -> None:
    done = run(app, ["lint", str(flawed)])
    assert done.exit_code == 1 and f"{flawed}:5: rule 2" in done.output and "36 h" in done.output


def test_an_unreadable_file_gives_two_and_the_others_are_still_checked(flawed: Path, tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"\x00\x01")
    done = run(app, ["lint", str(tmp_path / "x.bin"), str(tmp_path / "none.md"), str(flawed), "--format", "json"])
    assert done.exit_code == 2
    assert "binary" in done.stderr and "no such file" in done.stderr and "Traceback" not in done.output
    assert json.loads(done.stdout)["findings"]


def test_json_has_exactly_the_documented_shape(flawed: Path) -> None:
    data = json.loads(run(app, ["lint", str(flawed), "--format", "json"]).stdout)
    assert list(data) == ["findings"]
    for f in data["findings"]:
        assert list(f) == ["file", "rule", "line", "span", "message", "expected", "related", "needs"]
        assert isinstance(f["rule"], int) and isinstance(f["line"], int) and f["needs"] in {"text", "facts", "calendar"}
        assert all(list(r) == ["line", "span"] for r in f["related"])


def test_json_of_a_clean_file_is_an_empty_list() -> None:
    assert json.loads(run(app, ["lint", str(BRIEFS / "rag_daily_en.md"), "--format", "json"]).stdout) == {"findings": []}


def test_sarif_names_rules_regions_and_related_places(flawed: Path) -> None:
    log = json.loads(run(app, ["lint", str(flawed), "--format", "sarif"]).stdout)
    assert log["version"] == "2.1.0"
    (one,) = log["runs"]
    rules = one["tool"]["driver"]["rules"]
    for r in one["results"]:
        assert rules[r["ruleIndex"]]["id"] == r["ruleId"]
        region = r["locations"][0]["physicalLocation"]["region"]
        assert region["startLine"] >= 1 and region["snippet"]["text"]


def test_explain_tells_what_a_rule_is(flawed: Path) -> None:
    done = run(app, ["lint", "--explain", "47"])
    assert done.exit_code == 0 and "counts-agree" in done.output and "Example" in done.output


@pytest.mark.parametrize("args", [["lint", "--explain", "999"], ["lint"], ["lint", "--rule", "999", "x.md"]])
def test_a_wrong_call_gives_two_and_one_line(args: list[str]) -> None:
    done = run(app, args)
    assert done.exit_code == 2 and len(done.stderr.strip().splitlines()) == 1


def test_only_the_wanted_rules_run(flawed: Path) -> None:
    data = json.loads(run(app, ["lint", str(flawed), "--rule", "2", "--format", "json"]).stdout)
    assert {f["rule"] for f in data["findings"]} == {2}


def test_a_folder_of_notes_is_walked(flawed: Path) -> None:
    done = run(app, ["lint", str(flawed.parent)])
    assert done.exit_code == 1 and "in 1 file" in done.output


def test_the_page_describes_every_rule() -> None:
    page = (ROOT / "docs" / "lint.md").read_text("utf-8")
    for rule in CATALOGUE.values():
        assert f"| {rule.number} | {rule.name} |" in page and rule.what in page and rule.example in page
