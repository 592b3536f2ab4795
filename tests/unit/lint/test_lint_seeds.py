"""The two real briefs: every known defect with its line and rule, none of the negatives, and the same on consistent mutations of them."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from headwater.ledger.lint import Finding, lint_text

sys.path.insert(0, str(Path(__file__).parent))
from mutations import move_months, renumber, reorder, repair

# defect -> (brief, [(rule, lines where it may be reported)]); every pair must be found
DEFECTS: dict[str, tuple[int, list[tuple[int, set[int]]]]] = {
    "F1": (0, [(47, {7}), (47, {220}), (47, {268})]),
    "F2": (0, [(49, {63, 205})]),
    "F3": (0, [(49, {210}), (49, {211}), (49, {212})]),
    "F4": (0, [(49, {251, 261})]),
    "F5": (0, [(50, {180})]),
    "F6": (0, [(47, {268})]),
    "F7": (0, [(51, {70})]),
    "F8": (0, [(51, {157})]),
    "F9": (0, [(57, {159}), (27, {158})]),
    "F10": (0, [(50, {155}), (50, {178})]),
    "F11": (0, [(53, {97, 123})]),
    "F12": (0, [(34, {91}), (59, {85, 88})]),
    "F13": (0, [(49, {110, 188})]),
    "F14": (0, [(52, {105})]),
    "F15": (0, [(55, {79, 184})]),
    "F16": (0, [(54, {79}), (54, {184})]),
    "F17": (0, [(54, {177})]),
    "F18": (0, [(58, {192})]),
    "F19": (0, [(55, {178}), (23, {79})]),
    "F20": (0, [(21, {51, 53})]),
    "F21": (1, [(7, {36, 52})]),
    "F22": (1, [(47, {36})]),
    "F23": (1, [(56, {65})]),
    "F24": (1, [(48, {69})]),
    "F25": (1, [(47, {65})]),
    "F26": (1, [(54, {14})]),
    "F27": (1, [(59, {46, 60})]),
    "F28": (0, [(27, {71}), (57, {72})]),
    "F29": (0, [(29, {77})]),
    "F30": (0, [(29, {134}), (32, {134})]),
}
FROM_READING = {29, 32}  # rules that rest on facts about one published work; renumbering removes the work


@pytest.fixture(scope="module")
def seeds(shared: Path) -> list[str]:
    files = sorted((shared / "seeds").glob("*.txt"))
    if len(files) < 2:
        pytest.skip(f"needs the two briefs in {shared / 'seeds'}")
    return [f.read_text("utf-8") for f in files[:2]]


@pytest.fixture(scope="module")
def found(seeds: list[str]) -> list[list[Finding]]:
    return [lint_text(t) for t in seeds]


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_known_defect_is_found_with_its_rule_at_its_line(defect: str, found: list[list[Finding]]) -> None:
    brief, wanted = DEFECTS[defect]
    for rule, lines in wanted:
        assert [f for f in found[brief] if f.rule == rule and f.place.line in lines], (defect, rule, lines)


def test_both_identifiers_without_disposition_are_named(found: list[list[Finding]]) -> None:
    assert len([f for f in found[1] if f.rule == 48]) == 2


def test_every_span_is_quoted_from_its_line(seeds: list[str], found: list[list[Finding]]) -> None:
    for text, findings in zip(seeds, found, strict=True):
        lines = text.split("\n")
        for f in findings:
            for place in (f.place, *f.related):
                assert place.span in lines[place.line - 1], (f.rule, place)


def test_nothing_is_found_outside_the_known_defects(found: list[list[Finding]]) -> None:
    for brief, findings in enumerate(found):
        known = {(rule, n) for b, wanted in DEFECTS.values() if b == brief for rule, lines in wanted for n in lines}
        # two more of the kinds of F1 (a second number for one noun) and F12 (a high grade without a number)
        known |= {(47, 58), (34, 159)} if brief == 0 else set()
        assert {(f.rule, f.place.line) for f in findings} <= known


def test_the_negatives_stay_silent(found: list[list[Finding]]) -> None:
    second = found[1]
    assert not [f for f in second if f.place.line in {5, 6}], "file split and queue documents agree"
    assert not [f for f in second if f.rule == 51], "the age of a version is right"
    assert not [f for f in second if f.rule == 47 and f.place.line == 69], "eight identifiers are eight"
    assert not [f for f in found[0] if 197 <= f.place.line <= 201], "the other five identifiers have their months"


def _rules(findings: list[Finding]) -> Counter[int]:
    return Counter(f.rule for f in findings)


def _without_work_facts(findings: list[Finding]) -> Counter[int]:
    return Counter(
        f.rule for f in findings if f.needs != "facts" or f.rule in {23, 51, 54, 55} or (f.rule == 59 and "release" in f.message)
    )


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
@pytest.mark.parametrize("brief", [0, 1])
def test_other_identifiers_keep_the_defects_of_the_text_and_lose_those_of_the_works(
    brief: int, seed: int, seeds: list[str], found: list[list[Finding]]
) -> None:
    changed = lint_text(renumber(seeds[brief], seed))
    assert _rules(changed) == _without_work_facts(found[brief])
    assert not {f.rule for f in changed} & FROM_READING


@pytest.mark.parametrize("months", [-2, -1, 1])
@pytest.mark.parametrize("brief", [0, 1])
def test_dates_moved_together_change_nothing_but_what_the_calendar_says(
    brief: int, months: int, seeds: list[str], found: list[list[Finding]]
) -> None:
    changed, before = _without_work_facts(lint_text(move_months(seeds[brief], months))), _without_work_facts(found[brief])
    assert {r: n for r, n in changed.items() if r != 51} == {r: n for r, n in before.items() if r != 51}
    assert changed[51] <= before[51]


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("brief", [0, 1])
def test_another_order_keeps_every_defect(brief: int, seed: int, seeds: list[str], found: list[list[Finding]]) -> None:
    text = reorder(seeds[brief], seed)
    assert text != seeds[brief]
    assert _rules(lint_text(text)) == _rules(found[brief])


@pytest.mark.parametrize("brief", [0, 1])
def test_all_three_changes_at_once_keep_the_defects_of_the_text(brief: int, seeds: list[str], found: list[list[Finding]]) -> None:
    text = reorder(move_months(renumber(seeds[brief], 9), 1), 9)
    assert {r for r in _without_work_facts(found[brief]) if r != 51} <= set(_rules(lint_text(text)))


@pytest.mark.parametrize("brief", [0, 1])
def test_a_brief_mended_finding_by_finding_ends_up_silent(brief: int, seeds: list[str]) -> None:
    text = seeds[brief]
    for _ in range(80):
        findings = lint_text(text)
        if not findings:
            return
        mended = repair(text, max(findings, key=lambda f: f.place.line))  # from the end, so that earlier lines keep their numbers
        assert mended != text, findings[-1]
        text = mended
    pytest.fail(f"still {[(f.rule, f.place.line) for f in lint_text(text)]}")
