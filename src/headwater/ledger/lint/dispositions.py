"""Rule 48: every citable identifier is used exactly once — by an item, an adjacent row, a rejection or a register-only note."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.ledger.lint import words
from headwater.ledger.lint.brief import Brief, Item
from headwater.ledger.lint.finding import Finding, Place
from headwater.ledger.lint.names import name_key
from headwater.ledger.lint.registry import check

# words that dispose of an identifier on the spot, in its own entry or in the heading of its group
_DISPOSED = words.rx(
    r"仅?登记|备查|不作为增量|不计入|不入|弱相关|不相关|无关|剔除|重复|已收|已在|沿用|待锚入|已锚入|未纳入|增量\s*\d|邻接|背景|"
    r"候选|排队|精读|待读|register|weakly|off[- ]topic|not (?:an )?increment|duplicate|carried|"
    r"rejected|background|adjacent|increment \d|already|queued|to read|reading list|watch"
)
_USING = ("increment", "adjacent", "rejection", "carry_over")


def _users(brief: Brief, number: str, name: str) -> list[Item]:
    """Items that dispose of a work: by its identifier, or by its short name in the heading."""
    key = name_key(name) if name and name != number else ""
    out = []
    for item in brief.of(*_USING):
        if (
            number in item.ids
            or any(number in p.text for p in item.pieces if item.kind != "increment" or p.key in {"title", "points", "links", ""})
            or (key and key in item.name_keys)
        ):
            out.append(item)
    return out


@check(48)
def listed_and_used(brief: Brief) -> Iterator[Finding]:
    """An identifier of the citable list that nothing in the brief disposes of."""
    if not brief.of("increment"):
        return
    for entry in brief.of("citable"):
        own = entry.text
        if not entry.ids or _DISPOSED.search(entry.group):
            continue
        number = entry.ids[0]
        tail = own[own.find(number) + len(number) :]
        if _users(brief, number, brief.works.get(number, "")) or _DISPOSED.search(tail):
            continue
        span = next((f"arXiv:{number}" for p in entry.pieces if f"arXiv:{number}" in p.text), number)
        yield Finding(
            48,
            Place(entry.line, span),
            f"{number} stands in the list of citable identifiers only; no item, adjacent row or rejection uses it",
            "one disposition: increment, adjacent, rejected, carried over, or register only",
        )


@check(48)
def used_and_listed(brief: Brief) -> Iterator[Finding]:
    """An increment's identifier that the citable list forgot."""
    listed = {i for entry in brief.of("citable", "carry_over") for i in entry.ids}
    first = next((e for e in brief.of("citable") if e.ids), None)
    if first is None:
        return
    for item in brief.of("increment"):
        for number in item.ids:
            if number in item.title and number not in listed:
                yield Finding(
                    48,
                    Place(item.line, number),
                    f"{number} is an increment but not in the list of citable identifiers",
                    "list it",
                    (first.place,),
                )


@check(48)
def one_use(brief: Brief) -> Iterator[Finding]:
    """One identifier heads two increments, or is an increment and an adjacent row."""
    seen: dict[str, Item] = {}
    for item in brief.of("increment", "adjacent"):
        for number in item.ids if item.kind == "increment" else item.ids[:1]:
            if number not in item.title:
                continue
            if number in seen and seen[number] is not item:
                other = seen[number]
                yield Finding(
                    48,
                    Place(item.line, number),
                    f"{number} is {item.kind} {item.rank} here and {other.kind} {other.rank} in line {other.line}",
                    "one item per work",
                    (Place(other.line, number),),
                )
            seen.setdefault(number, item)
