"""Rules 13, 20, 21 and 23: identifiers, titles, cards and short names belong to one work each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from headwater.ledger import facts
from headwater.ledger.lint import words
from headwater.ledger.lint.brief import Brief
from headwater.ledger.lint.finding import Finding, Place
from headwater.ledger.lint.names import name_key
from headwater.ledger.lint.registry import check
from headwater.ledger.parse.ids import find_ids

_ANY_ID = re.compile(r"(?:arxiv\s*[:：]\s*|arxiv\.org/(?:abs|pdf|html)/)(?P<id>\d{4}\.\d{3,6})(?:v\d+)?(?![\d])", re.IGNORECASE)
_BRACKETED = re.compile(r"(?:[（(]\s*|^\s*[-*•]\s+)(?P<id>(?:0[7-9]|[12]\d)\d\d\.\d{5})(?=\s*(?:[)）,，]|v\d|[—–:：]))")
_CARD = re.compile(r"(?<![\w-])(?P<card>\d{1,6})-(?P<id>\d{4}-\d{4,5})(?![\w-])", re.ASCII)
_TITLE_AFTER = re.compile(
    r"(?:arXiv\s*[:：]\s*)?(?P<id>\d{4}\.\d{4,5})(?:v\d+)?\s*(?:—|–|-{1,2}|：|:)\s*(?P<title>[A-Z][^（(。；;|\n]{8,160})"
)
_TITLE_BEFORE = re.compile(
    r"(?P<title>[A-Z][A-Za-z][^（(。；;①②③④⑤|\n]{10,160}?)\s*[（(]\s*(?:arXiv\s*[:：]\s*)?(?P<id>\d{4}\.\d{4,5})(?:v\d+)?\s*[,，)）]"
)


@check(13)
def identifier_form(brief: Brief) -> Iterator[Finding]:
    """Month 01-12, five digits since 2015, four before."""
    for line, text in brief.text_lines():
        for m in (*_ANY_ID.finditer(text), *_BRACKETED.finditer(text)):
            head, tail = m["id"].split(".")
            month = int(head[2:])
            if not 1 <= month <= 12:
                yield Finding(
                    13, Place(line, m[0].strip("（(,，)） ")), f"{m['id']}: month {head[2:]} does not exist", "yymm.number with a month from 01 to 12"
                )
            elif len(tail) != (5 if int(head) >= 1501 else 4):
                yield Finding(
                    13,
                    Place(line, m[0]),
                    f"{m['id']}: {len(tail)} digits after the dot",
                    "five digits since January 2015, four before",
                )


@check(13)
def link_and_heading(brief: Brief) -> Iterator[Finding]:
    """An item's own arXiv link points at a work that its heading does not name."""
    for item in brief.of("increment"):
        headed = [i for i in item.ids if i in item.title]
        for piece in item.get("links"):
            linked = [m for m in find_ids(piece.text) if m.kind == "arxiv" and m.form not in {"bare", "prefixed", "card"}]
            for m in linked:
                if headed and m.value not in headed and not any(x.value in headed for x in linked) and len(headed) == 1:
                    yield Finding(
                        13,
                        Place(piece.line, piece.text[m.start : m.end]),
                        f"the link goes to {m.value}, the heading names {headed[0]}",
                        headed[0],
                        (Place(item.line, headed[0]),),
                    )


def _titles(brief: Brief) -> list[tuple[str, str, int]]:
    """(identifier, English title, line) of everything that looks like a full title beside its identifier."""
    out = []
    for line, text in brief.text_lines():
        for pattern in (_TITLE_AFTER, _TITLE_BEFORE):
            for m in pattern.finditer(text):
                title = m["title"].strip(" \"“”'*.")
                if (
                    len(re.findall(r"[A-Za-z]{2,}", title)) >= 3
                    and _title_case(title)
                    and not re.search(r"[\u4e00-\u9fff]|increment \d", title, re.IGNORECASE)
                ):
                    out.append((m["id"], title, line))
    return out


def _title_case(title: str) -> bool:
    """Most longer words are capitalised: a title, not a gist."""
    long = re.findall(r"[A-Za-z][A-Za-z-]{3,}", title)
    return bool(long) and sum(w[0].isupper() for w in long) >= 0.6 * len(long)


def _short_name(title: str) -> str:
    return name_key(re.split(r"[:：—]", title)[0])


def _tokens(title: str) -> set[str]:
    return {w.lower() for w in re.findall(r"[A-Za-z0-9]{2,}", title)} - {
        "the",
        "of",
        "for",
        "and",
        "with",
        "in",
        "on",
        "to",
        "by",
        "an",
        "via",
        "from",
    }


@check(20)
def one_title_per_work(brief: Brief) -> Iterator[Finding]:
    """One identifier under two unrelated titles, or one title under two identifiers."""
    titles = _titles(brief)
    for i, (number, title, line) in enumerate(titles):
        a = _tokens(title)
        for other, earlier, at in titles[:i]:
            b = _tokens(earlier)
            shared = len(a & b) / max(1, min(len(a), len(b)))
            if number == other and shared < 0.34 and _short_name(title) != _short_name(earlier):
                yield Finding(
                    20,
                    Place(line, title),
                    f'{number} is "{title}" here and "{earlier}" in line {at}',
                    "one title per identifier",
                    (Place(at, earlier),),
                )
                break
            if number != other and len(a) >= 4 and a == b:
                yield Finding(
                    20,
                    Place(line, number),
                    f'"{title}" is {number} here and {other} in line {at}',
                    "one identifier per title",
                    (Place(at, other),),
                )
                break


def _declared(brief: Brief, *pieces: str) -> bool:
    """The brief itself lists this among its contradictions, with what to do about it: it is reported, not overlooked."""
    return any(all(p in i.text for p in pieces) and words.TASK.search(i.text) for i in brief.of("contradiction"))


@check(21)
def two_cards_one_work(brief: Brief) -> Iterator[Finding]:
    """Two card numbers for one identifier."""
    first: dict[str, tuple[str, int, str]] = {}
    told: set[tuple[str, str]] = set()
    for line, text in brief.text_lines():
        for m in _CARD.finditer(text):
            if not 1 <= int(m["id"][2:4]) <= 12 or int(m["id"][:2]) < 7:
                continue
            number = m["id"].replace("-", ".")
            if number not in first:
                first[number] = (m["card"], line, m[0])
            elif first[number][0] != m["card"] and (number, m["card"]) not in told:
                told.add((number, m["card"]))
                card, at, span = first[number]
                if _declared(brief, card, m["card"], number):
                    continue
                yield Finding(
                    21,
                    Place(line, m[0]),
                    f"cards {card} and {m['card']} are both for {number}",
                    "one card per work; merge or delete one",
                    (Place(at, span),),
                )


@check(23)
def ambiguous_short_name(brief: Brief) -> Iterator[Finding]:
    """A short name that several works of the field use, neither spelled out nor given an identifier."""
    whole = "\n".join(brief.lines)
    for fact in facts.load("shortnames"):
        used = re.compile(rf"(?<![\w-]){re.escape(fact['name'])}(?![\w-])")
        if not used.search(whole) or (
            re.search("|".join(fact["spelled"]), whole, re.IGNORECASE) is not None and _spelled(fact, whole, used)
        ):
            continue
        context = re.compile("|".join(fact["context"]), re.IGNORECASE)
        hits = [
            (line, m)
            for line, text in brief.text_lines()
            for m in used.finditer(text)
            if context.search(text[max(0, m.start() - 80) : m.end() + 80])
        ]
        if hits:
            line, _ = hits[0]
            yield Finding(
                23,
                Place(line, fact["name"]),
                f"{fact['name']} may be {' or '.join(fact['meanings'])} ({facts.cite(fact)})",
                "spell it out once or give the identifier",
                tuple(Place(n, fact["name"]) for n, _ in hits[1:4]),
                "facts",
            )


def _spelled(fact: dict[str, Any], whole: str, used: re.Pattern[str]) -> bool:
    """A spelled-out form stands within reach of some use of the short name."""
    spelled = re.compile("|".join(fact["spelled"]), re.IGNORECASE)
    return any(spelled.search(whole[max(0, m.start() - 60) : m.end() + 60]) for m in used.finditer(whole))


@check(23)
def one_short_name_two_works(brief: Brief) -> Iterator[Finding]:
    """Two identifiers carry the same short name."""
    owner: dict[str, str] = {}
    for number, name in brief.works.items():
        key = name_key(name)
        if len(key) < 3 or " " in name or not (name.isupper() or re.search(r"[a-z][A-Z]|\d", name)):
            continue
        if key in owner and owner[key] != number and _both_titled(brief, number, owner[key], name):
            if _declared(brief, name, number, owner[key]):
                continue
            line = next(n for n, v, _, _ in brief.ids if v == number)
            at = next(n for n, v, _, _ in brief.ids if v == owner[key])
            yield Finding(
                23,
                Place(line, name),
                f"{name} is {number} here and {owner[key]} in line {at}",
                "two short names, or one identifier",
                (Place(at, name),),
            )
        owner.setdefault(key, number)


def _both_titled(brief: Brief, a: str, b: str, name: str) -> bool:
    """Both identifiers stand directly beside the short name, in the form `id — Name:` or `Name: title (id)`."""

    def beside(number: str) -> bool:
        return any(
            re.search(
                rf"{re.escape(number)}(?:v\d+)?\s*[—–:：-]+\s*{re.escape(name)}\b|"
                rf"\b{re.escape(name)}\s*(?:[:：][^。；;]*)?[（(]\s*(?:arXiv:)?{re.escape(number)}",
                t,
            )
            for t in brief.lines
        )

    return beside(a) and beside(b)
