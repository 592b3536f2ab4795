"""Rules 29, 32 and 59, works: how a known work's numbers were formed, measured and versioned."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from headwater.ledger import facts
from headwater.ledger.lint import words
from headwater.ledger.lint.brief import Brief, Item, Piece
from headwater.ledger.lint.finding import Finding
from headwater.ledger.lint.registry import check
from headwater.ledger.parse.ids import find_ids
from headwater.ledger.parse.quantity import find_quantities


def _known(item: Item) -> Iterator[dict[str, Any]]:
    """Fact entries of the identifiers in an item's heading."""
    table = {f["id"]: f for f in facts.load("works")}
    return (table[i] for i in item.ids if i in table)


def _about(item: Item, fact: dict[str, Any], *keys: str) -> Iterator[Piece]:
    """Pieces of an item about one of its works: all of them when it is the only one, else those that name it."""
    for piece in item.get(*keys):
        if len(item.ids) == 1 or fact["name"].lower() in piece.text.lower() or fact["id"] in piece.text:
            yield piece


def _points_of(brief: Brief, item: Item, fact: dict[str, Any]) -> list[Piece]:
    """Key points about one of an item's works: those under `points (name)`, else those that name it, else all of a single work."""
    pieces = item.get("points", "")
    if len(item.ids) == 1:
        return pieces
    headed: dict[int, str] = {}
    who = ""
    for line in range(item.line, item.end_line + 1):
        m = re.search(r"(?:要点|关键数字|points|numbers)\s*[（(]\s*([^）)]+)[）)]", brief.lines[line - 1], re.IGNORECASE)
        who = m[1] if m else who
        headed[line] = who
    under = [p for p in pieces if fact["name"].lower() in headed.get(p.line, "").lower()]
    return under or [p for p in pieces if fact["name"].lower() in p.text.lower()]


def _numbers(piece: Piece) -> list[str]:
    return [q.raw for q in find_quantities(piece.text) if q.unit in {"%", "×"}]


@check(29)
def averaging(brief: Brief) -> Iterator[Finding]:
    """Percentages of a work whose averaging is known to matter, told without it."""
    for item in brief.of("increment"):
        for fact in _known(item):
            if "averaging" not in fact or re.search(fact["averaging_words"], item.text, re.IGNORECASE):
                continue
            hit = next((p for p in _points_of(brief, item, fact) if _numbers(p)), None)
            if hit:
                yield Finding(
                    29,
                    hit.place(),
                    f"{fact['name']}: the percentages are the {fact['averaging']}; {fact['alternative']} ({facts.cite(fact)})",
                    "the number with its definition",
                    (),
                    "facts",
                )


def _segment(piece: Piece, fact: dict[str, Any], item: Item) -> str:
    """The part of a piece about one work."""
    if len(item.ids) == 1:
        return piece.text
    return next((s for s in re.split(r"[；;]", piece.text) if fact["name"].lower() in s.lower()), piece.text)


@check(29)
def measured_or_simulated(brief: Brief) -> Iterator[Finding]:
    """Numbers of a work that are simulated (or cover one operator only), told without saying so."""
    for item in brief.of("increment"):
        for fact in _known(item):
            if "setting" not in fact or re.search(fact["setting_words"], item.text, re.IGNORECASE):
                continue
            pieces = [p for p in _points_of(brief, item, fact) if _numbers(p)]
            if not pieces:
                continue
            grade = next((p for p in _about(item, fact, "grade") if words.ON_REAL.search(_segment(p, fact, item))), None)
            hit = grade or pieces[0]
            yield Finding(
                29,
                hit.place(_segment(hit, fact, item) if grade else None),
                f"{fact['name']}: {fact['setting_note']} ({facts.cite(fact)})",
                f"numbers marked as {fact['setting']}",
                (),
                "facts",
            )


@check(32)
def simulated_told_as_production(brief: Brief) -> Iterator[Finding]:
    """A grade that rests on production validation for a work whose results are simulated."""
    for item in brief.of("increment"):
        for fact in _known(item):
            if fact.get("setting") != "simulated" or re.search(fact["setting_words"], item.text, re.IGNORECASE):
                continue
            for piece in _about(item, fact, "grade", "title"):
                m = words.ON_REAL.search(_segment(piece, fact, item))
                if m:
                    yield Finding(
                        32,
                        piece.place(m[0]),
                        f'{fact["name"]} is called "{m[0]}": {fact["setting_note"]} ({facts.cite(fact)})',
                        "the origin of the numbers as it is",
                        (),
                        "facts",
                    )
                    break


@check(59)
def paper_versions(brief: Brief) -> Iterator[Finding]:
    """A work whose versions report different headline numbers, cited without a version."""
    for item in brief.of("increment"):
        for fact in _known(item):
            if len(fact.get("versions", [])) < 2 or _version_named(item, fact):
                continue
            links = [p for p in item.get("links") if fact["id"] in p.text]
            place = links[0].place(links[0].text) if links else item.place
            told = "; ".join(f"{v['name']}: {v['headline']}" for v in fact["versions"])
            yield Finding(
                59,
                place,
                f"{fact['name']}: the abstract's numbers differ by version ({told}; {facts.cite(fact)})",
                "the version that was read",
                (),
                "facts",
            )


def _version_named(item: Item, fact: dict[str, Any]) -> bool:
    """`2505.02922v3`, `v3`, or one of the headline figures stands in the item."""
    if any(m.version for p in item.pieces for m in find_ids(p.text) if m.value == fact["id"]):
        return True
    if re.search(
        r"(?<![\w.])v[1-9]\s*[（(,，]?\s*20\d\d|(?:版本|version|abstract|摘要)\s*v?[1-9]\b(?!\.)|(?<![\w.])v[1-9]\s*(?:摘要|"
        r"abstract|版|of the)",
        item.text,
        re.IGNORECASE,
    ):
        return True
    figures = {f for v in fact["versions"] for f in re.findall(r"\d+\.\d+(?=×)", v["headline"])}
    return any(re.search(rf"(?<![\d.]){re.escape(f)}\s*[×x倍]", item.text) for f in figures)
