"""Briefs of our own: silent when clean, and every planted defect found with its rule at its line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.ledger.lint import CATALOGUE, lint_text
from headwater.ledger.lint.registry import all_checks

sys.path.insert(0, str(Path(__file__).parent))
from harmless import HARMLESS
from heldout import HELD_OUT, THIRD
from planted import PLANTED

BRIEFS, HELD = Path(__file__).parent / "briefs", Path(__file__).parent / "heldout"
CLEAN = sorted(p.name for p in BRIEFS.iterdir())


@pytest.mark.parametrize("name", CLEAN)
def test_a_clean_brief_is_silent(name: str) -> None:
    assert [(f.rule, f.place) for f in lint_text((BRIEFS / name).read_text("utf-8"))] == []


@pytest.mark.parametrize(("name", "base", "old", "new", "rule", "piece"), PLANTED, ids=[f"{p[4]}: {p[0]}" for p in PLANTED])
def test_a_planted_defect_is_found(name: str, base: str, old: str, new: str, rule: int, piece: str) -> None:
    clean = (BRIEFS / base).read_text("utf-8")
    assert old in clean, name
    text = clean.replace(old, new)
    lines = text.split("\n")
    assert [f for f in lint_text(text) if f.rule == rule and piece.split(maxsplit=1)[0] in lines[f.place.line - 1]], name


@pytest.mark.parametrize(("name", "base", "old", "new", "rule", "piece"), PLANTED, ids=[f"{p[4]}: {p[0]}" for p in PLANTED])
def test_spans_of_planted_defects_are_quotes(name: str, base: str, old: str, new: str, rule: int, piece: str) -> None:
    text = (BRIEFS / base).read_text("utf-8").replace(old, new)
    lines = text.split("\n")
    for f in lint_text(text):
        for place in (f.place, *f.related):
            assert place.span and place.span in lines[place.line - 1], (name, f.rule, place)


@pytest.mark.parametrize("name", sorted(p.name for p in HELD.iterdir()))
def test_a_held_out_clean_brief_is_silent(name: str) -> None:
    assert [(f.rule, f.place) for f in lint_text((HELD / name).read_text("utf-8"))] == []


@pytest.mark.parametrize(("name", "base", "old", "new", "rule", "piece"), HELD_OUT + THIRD, ids=[f"{p[4]}: {p[0]}" for p in HELD_OUT + THIRD])
def test_a_held_out_defect_is_found_and_quoted(name: str, base: str, old: str, new: str, rule: int, piece: str) -> None:
    clean = (HELD / base).read_text("utf-8")
    assert old in clean, name
    lines = (text := clean.replace(old, new)).split("\n")
    found = lint_text(text)
    assert [f for f in found if f.rule == rule and piece.split(maxsplit=1)[0] in lines[f.place.line - 1]], name
    assert all(place.span and place.span in lines[place.line - 1] for f in found for place in (f.place, *f.related)), name


def test_every_rule_of_the_catalogue_has_a_check_and_a_planted_defect() -> None:
    assert set(all_checks()) == set(CATALOGUE)
    missing = set(CATALOGUE) - {p[4] for p in PLANTED} - {29, 32, 60}  # these three have tests of their own
    assert not missing


def test_findings_are_deterministic_and_sorted() -> None:
    text = (
        (BRIEFS / "rag_daily_en.md")
        .read_text("utf-8")
        .replace("(24 h)", "(36 h)")
        .replace("Main increments: 3", "Main increments: 5")
    )
    first, second = lint_text(text), lint_text(text)
    assert first == second == sorted(first, key=lambda f: f.sort_key) and len(first) >= 2


def test_line_ends_of_another_system_change_nothing() -> None:
    text = (BRIEFS / "rag_daily_en.md").read_text("utf-8").replace("(24 h)", "(36 h)")
    assert lint_text(text) == lint_text(text.replace("\n", "\r\n"))


SCRAPS = st.sampled_from(
    [
        "增量 1【§1】：",
        "## Increments\n",
        "- Source: a/b.md\n",
        "（8 份",
        "arXiv:2605.01234",
        " v1 2026-13-45",
        "\n",
        "可信度：极高",
        "1. ",
        "| a | b |\n",
        "已锚入",
        "待锚入",
        "α（",
        "H100（",
        "）",
        "`",
        "\t",
        "5 + ",
        "SGLang v",
        "收购",
    ]
)


@given(st.lists(SCRAPS | st.text(max_size=12), max_size=30).map("".join))
def test_no_text_makes_it_fail_and_every_span_is_a_quote(text: str) -> None:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for f in lint_text(text):
        assert f.place.span in lines[f.place.line - 1]


SIMULATED = """# scheduling brief (2026-04-02)

## Main increments

### 1. TideQueue: draining queues by tide (2603.01234)

- Source: notes/x.md
- Credibility: high (validated in production; code public)
- Key points:
  - goodput up by 1.4×
  - {points}

## Contradictions

1. {conflict}
"""


def test_production_validation_beside_simulated_results_is_found() -> None:
    text = SIMULATED.format(points="all results come from a simulated cluster of 64 nodes", conflict="none")
    assert [f.rule for f in lint_text(text)] == [32]


def test_an_open_conflict_without_sides_is_found() -> None:
    text = SIMULATED.format(points="measured on 64 nodes", conflict="It contradicts itself; unresolved.")
    assert [f.rule for f in lint_text(text)] == [60]


def test_an_open_conflict_with_both_sides_is_silent() -> None:
    text = SIMULATED.format(
        points="measured on 64 nodes", conflict="Note a says 1.4×, note b says 1.9×; the two disagree, unresolved."
    )
    assert lint_text(text) == []


def test_simulated_numbers_of_a_known_work_want_the_word() -> None:
    text = SIMULATED.replace("TideQueue: draining queues by tide (2603.01234)", "Vidur: planning deployments (2405.05465)")
    assert {f.rule for f in lint_text(text.format(points="errors below 9 %", conflict="none"))} >= {29}
    assert 29 not in {f.rule for f in lint_text(text.format(points="simulated, errors below 9 %", conflict="none"))}


@pytest.mark.parametrize("sentence", HARMLESS)
def test_a_sentence_that_only_comes_close_is_silent(sentence: str) -> None:
    base = (BRIEFS / "rag_daily_en.md").read_text("utf-8")
    inside = base.replace("the abstract does not say which build time this costs", sentence)
    note = f"# note\n\n{sentence}\n"
    assert [(f.rule, f.place.span) for t in (inside, note) for f in lint_text(t)] == []
