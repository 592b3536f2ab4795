"""Rules 27, 34 and 57: why something is graded as it is, and who is said to have written it."""

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

_REASONS = re.compile(
    r"[（(](?P<in>[^）)]*(?:[（(][^）)]*[）)][^）)]*)*)[）)]|[：:—–-]\s*(?P<after>[^。]+)|\b(?:because|since|as|"
    r"given)\b\s*(?P<why>[^.。]+)|因为?(?P<yin>[^。]+)"
)
_INFERRED = words.rx(
    r"推测|推断|猜测|疑似|应为|可能(?:是|为)|大概|据.{0,12}(?:推|判断)|inferred|guess(?:ed)?|presum|probably|likely|assum|supposed|deduced|by analogy"
)
_FROM_OTHER = words.rx(
    r"同源|同(?:一)?(?:方向|主题|系列|风格)|另一篇|另文|相似|类似|same (?:topic|direction|style|series|line|group as)|another "
    r"(?:paper|work)|other (?:paper|work)|a (?:related|similar|previous|earlier) (?:paper|work)|similar (?:paper|work)"
)


def grade_of(text: str) -> int | None:
    """Ordinal 1-5 of a grade in words; None when the text gives none. Of a range (`mid to low`) the lower end counts."""
    head = re.split(r"[（(；;。]", text, maxsplit=1)[0][:40]
    return next((n for n, pattern in words.GRADES if pattern.search(head)), None)


def grades(brief: Brief) -> Iterator[tuple[Item, Piece, int, str]]:
    """(item, piece, ordinal, reasons) of every stated grade of an increment."""
    for item in brief.of("increment", "adjacent"):
        for piece in item.get("grade"):
            n = grade_of(piece.text)
            if n is not None:
                m = _REASONS.search(piece.text)
                yield item, piece, n, next((g for g in m.groups() if g), "") if m else ""


def _kinds(reasons: str) -> list[str]:
    """Kind of every reason: stored, cited, affiliation, venue or other."""
    out = []
    for part in re.split(r"[；;，,、+]|\band\b", reasons):
        if not part.strip():
            continue
        if words.STORED.search(part):
            out.append("stored")
        elif words.CITED.search(part):
            out.append("cited")
        elif words.AFFILIATION.search(part):
            out.append("affiliation")
        else:
            out.append("other")
    return out


@check(57)
def weak_reasons_for_a_high_grade(brief: Brief) -> Iterator[Finding]:
    """A high grade whose reasons are storage or citations, or nothing but affiliation."""
    for item, piece, n, reasons in grades(brief):
        if n < 4 or not reasons:
            continue
        kinds = _kinds(reasons)
        weak = next((k for k in kinds if k in {"stored", "cited"}), "") or (
            "affiliation" if kinds and set(kinds) == {"affiliation"} else ""
        )
        strong = (
            sum(k == "other" for k in kinds)
            and weak == "cited"
            and re.search(r"同行评审|复现|独立|peer|reproduc|independent|replicat", reasons, re.IGNORECASE)
        )
        if weak and not strong:
            told = {"stored": "that a card is stored", "cited": "the number of citations", "affiliation": "affiliation alone"}[weak]
            yield Finding(
                57,
                piece.place(),
                f"{brief.subject(item)} is graded high, and {told} is given as a reason",
                "reasons about the evidence: peer review, code, independent numbers",
            )


@check(34)
def graded_without_a_number(brief: Brief) -> Iterator[Finding]:
    """A high grade above key points that hold no measured result and do not say so."""
    for item, piece, n, reasons in grades(brief):
        if n < 4 or item.kind != "increment" or not item.ids:
            continue
        points = item.get("points") or [p for p in item.pieces if p.key == ""]
        if not points or any(_measured(p.text) for p in (*points, *item.get("title"))) or _measured(reasons):
            continue
        if any(words.MISSING_NUMBERS.search(p.text) for p in item.pieces):
            continue
        yield Finding(
            34,
            piece.place(),
            f"{brief.subject(item)} is graded {piece.text.split('（')[0].split('(')[0].strip()} without one measured number in "
            f"its key points",
            "at least one typed result, or a sentence that none is given",
            (points[0].place(points[0].text[:60]),),
        )


_UNITS = frozenset(
    {
        "%",
        "×",
        "GB/s",
        "TB/s",
        "tok/s",
        "tokens/s",
        "ms",
        "s",
        "秒",
        "毫秒",
        "QPS",
        "req/s",
        "个百分点",
        "pp",
        "分钟",
        "小时",
        "kW",
        "W",
    }
)


def _measured(text: str) -> bool:
    """A percentage, factor, rate, latency or score stands in the text."""
    return any(
        q.unit in _UNITS or q.metric in {"accuracy", "goodput", "ttft", "tpot"} or (q.unit == "" and "." in q.raw)
        for q in find_quantities(text)
    )


@check(27)
def inferred_affiliation(brief: Brief) -> Iterator[Finding]:
    """Authors or affiliation inferred from another work."""
    for item in brief.of("increment", "adjacent"):
        for piece in item.get("authors"):
            guess = _INFERRED.search(piece.text)
            others = [m.value for m in find_ids(piece.text) if m.kind == "arxiv" and m.value not in item.ids]
            if guess and (others or _FROM_OTHER.search(piece.text)):
                yield Finding(
                    27,
                    piece.place(),
                    f"the affiliation of {brief.subject(item)} is inferred from another work{f' ({others[0]})' if others else ''}",
                    'the affiliation the work states, or "not stated"',
                )


def known_work(item: Item) -> dict[str, Any] | None:
    """The fact entry of the first identifier that has one."""
    table = {f["id"]: f for f in facts.load("works")}
    return next((table[i] for i in item.ids if i in table), None)


@check(27)
def authors_against_facts(brief: Brief) -> Iterator[Finding]:
    """Single author, no institution, no code, against what is known of the work."""
    for item in brief.of("increment", "adjacent"):
        fact = known_work(item)
        if not fact or len(item.ids) > 1:
            continue
        for piece in item.get("authors"):
            wrong = _contradicted(piece.text, fact)
            if wrong:
                yield Finding(
                    27,
                    piece.place(),
                    f"{brief.subject(item)}: {'; '.join(wrong)} ({facts.cite(fact)})",
                    "authors and affiliation as the work states them",
                    (),
                    "facts",
                )


def _contradicted(text: str, fact: dict[str, Any]) -> list[str]:
    out = []
    if words.AUTHOR_ONLY.search(text) and isinstance(fact.get("authors"), int) and fact["authors"] != 1:
        out.append(f"called single-author, it has {fact['authors']} authors")
    if words.NO_AFFILIATION.search(text) and fact.get("affiliation"):
        out.append(f"called without institution, it states {fact['affiliation']}")
    if words.NO_CODE.search(text) and fact.get("code") and fact["code"] != "none found":
        out.append(f"called without code, code is {fact['code']}")
    return out


@check(57)
def low_grade_on_wrong_bibliography(brief: Brief) -> Iterator[Finding]:
    """A low grade whose reasons are bibliographic and wrong."""
    for item, piece, n, reasons in grades(brief):
        fact = known_work(item)
        if n > 3 or not fact or len(item.ids) > 1:
            continue
        wrong = _contradicted(reasons, fact)
        if wrong:
            related = tuple(p.place(p.text[:60]) for p in item.get("authors")[:1])
            yield Finding(
                57,
                piece.place(),
                f"the grade of {brief.subject(item)} rests on bibliographic data that do not hold: {'; '.join(wrong)} "
                f"({facts.cite(fact)})",
                "a grade from the evidence; bibliography graded apart",
                related,
                "facts",
            )
