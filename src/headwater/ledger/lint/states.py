"""Rule 49: nothing is in two states at once — anchored and pending, included and not included, code released and code not found."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from headwater.ledger.lint import words
from headwater.ledger.lint.brief import Brief, Item
from headwater.ledger.lint.finding import Finding, Place
from headwater.ledger.lint.names import name_key, names_in, sentences
from headwater.ledger.lint.registry import check
from headwater.ledger.parse.ids import arxiv_ids

_THIS_WORK = words.rx(
    r"^\W*(?:本文|本篇|该文|该工作|本工作|两篇|二者|均|都|this (?:work|paper|item)|both|it)\b|^\W*(?:本文|两篇|均|都|尚|仍|未)"
)
_UNLABELLED = re.compile(r"^\s*[-*•]?\s*[*_]*[^：:。，,]{1,20}[*_]*\s*[：:]")  # `relation to the document:` in front of a state
_OTHER_BRIEF = words.rx(r"简报|e1prep|earlier brief|previous brief|brief of")


@dataclass(frozen=True, slots=True)
class State:
    """One statement that a work is in a state. key: work name in comparable form (or an arXiv number)."""

    key: str
    name: str
    state: str
    place: Place


def _plain(name: str) -> str:
    return re.sub(r"\s\d+$", "", name)


def _named_before(clause: str, end: int) -> list[str]:
    """Names in front of a state word; when the word stands in brackets, the names in front of the bracket."""
    head = clause[:end]
    opened = max(head.rfind("（"), head.rfind("("))
    if opened > max(head.rfind("）"), head.rfind(")")):
        head = head[:opened]
    head = re.sub(r"[（(][^（）()]*[）)]", " ", head)
    parts = [names_in(part) for part in re.split(r"\s[—–-]+\s|——|[:：]", head)]
    return [_plain(n.text) for n in next((found for found in parts if found), [])]


def _keys(brief: Brief, names: list[str]) -> list[tuple[str, str]]:
    return [(name_key(n), n) for n in names if len(name_key(n)) >= 3]


def _states_of_line(brief: Brief, line: int, text: str) -> Iterator[State]:
    item = brief.item_at(line)
    for pattern, state in ((words.PENDING, "pending"), (words.ANCHORED, "anchored")):
        for offset, sentence in sentences(text):
            for m in pattern.finditer(sentence):
                if state == "anchored" and words.PENDING.search(sentence[max(0, m.start() - 8) : m.end() + 2]):
                    continue
                if re.search(r"[\"“「‘]\s*(?:\w+\s)?$", sentence[: m.start()]):
                    continue  # quoted: words about a state, not a statement of one
                names = _named_before(sentence, m.start())
                head = re.sub(r"[（(][^（）()]*[）)]", " ", sentence[: m.start()])
                if (
                    not names
                    and item
                    and item.kind == "increment"
                    and (not _UNLABELLED.sub("", head).strip(" •*-—·") or _THIS_WORK.search(head) or "status" in _key_at(item, line))
                ):
                    names = item.names
                ids = arxiv_ids(sentence[: m.end() + 30]) if item and item.kind in {"carry_over", "citable"} else []
                span = sentence.strip()
                for key, name in _keys(brief, names) or [(i, i) for i in ids]:
                    yield State(key, name, state, Place(line, _short(text, offset, sentence, m) or span))


def _key_at(item: Item, line: int) -> set[str]:
    return {p.key for p in item.pieces if p.line == line}


def _short(text: str, offset: int, sentence: str, m: re.Match[str]) -> str:
    """The clause around the state word, at most 80 characters."""
    begin = max(0, m.start() - 60)
    return text[offset + begin : offset + m.end()].strip(" •*-—·，,（(")


def _update_notes(brief: Brief) -> Iterator[State]:
    """Works that the document's update note names are in the document."""
    for line, text in brief.text_lines():
        if brief.kind_at(line) not in {"header", "source", "status", "other"}:
            continue
        for m in words.UPDATE_NOTE.finditer(text):
            rest = re.match(r"\s*[）)]?\s*[：:]?\s*(?P<list>[^。）)\n]*)", text[m.end() :])
            listed = rest["list"] if rest else ""
            if words.PENDING.search(listed):
                continue
            for name in names_in(listed):
                if len(name.key) >= 3:
                    yield State(name.key, _plain(name.text), "anchored", Place(line, name.text))


@check(49)
def anchored_and_pending(brief: Brief) -> Iterator[Finding]:
    """One work, two states: the document already has it, and it still waits."""
    states = [s for line, text in brief.text_lines() for s in _states_of_line(brief, line, text)] + list(_update_notes(brief))
    by_work: dict[str, list[State]] = {}
    for s in states:
        by_work.setdefault(s.key, []).append(s)
    for group in by_work.values():
        kinds = {s.state for s in group}
        if len(kinds) < 2:
            continue
        first = min(group, key=lambda s: s.place.line)
        for s in _clashing(group, first.state):
            others = tuple(dict.fromkeys(o.place for o in group if o.state != s.state))
            yield Finding(
                49,
                s.place,
                f"{s.name} is {s.state} here and {'anchored' if s.state == 'pending' else 'pending'} in line {others[0].line}",
                "one state per work",
                others,
            )


def _clashing(group: list[State], first: str) -> list[State]:
    """The statements that disagree with the first one, one per line."""
    return list({s.place.line: s for s in group if s.state != first}.values())


@check(49)
def included_and_excluded(brief: Brief) -> Iterator[Finding]:
    """A source stands in the included and in the not-included list."""
    included = {s.key: s for s in brief.sources.marked("included")}
    for s in brief.sources.marked("not_included"):
        if s.key in included:
            other = included[s.key]
            yield Finding(
                49,
                Place(s.line, s.path),
                f"{s.path} is listed as not included here and as included in line {other.line}",
                "one verdict per source",
                (Place(other.line, other.path),),
            )


@dataclass(frozen=True, slots=True)
class _Code:
    keys: frozenset[str]
    name: str
    place: Place


def _code_claims(brief: Brief, doubt: bool) -> Iterator[_Code]:
    pattern = words.CODE_DOUBT if doubt else words.CODE_OPEN
    for line, text in brief.text_lines():
        item = brief.item_at(line)
        before: list[str] = []  # names of the sentence before: what `its code` speaks of
        for _, sentence in sentences(text):
            m = pattern.search(sentence)
            told = [n.text for n in names_in(sentence)]
            if m and (doubt or _asserted(sentence, m)):
                head = sentence[: m.start()]
                here = [n.text for n in names_in(re.split(r"[:：]", head)[0] if doubt else head)]
                if not here and re.match(r"\W*(?:its|their|the)\b|\W*其", sentence, re.IGNORECASE):
                    here = before
                names = _code_subjects(item, here)
                if names:
                    yield _Code(frozenset(name_key(n) for n in names), names[0], Place(line, m[0]))
            before = told or before


def _code_subjects(item: Item | None, here: list[str]) -> list[str]:
    """Whose code a sentence speaks of: the works it names, else those of its item."""
    if item and item.kind == "increment":
        return [n for n in here if name_key(n) in item.name_keys] or here or item.names[:1]
    if item and item.kind == "contradiction":
        return item.names or here
    return here or (item.names if item else [])


def _asserted(sentence: str, m: re.Match[str]) -> bool:
    """The words say that code is out: not negated, not quoted, not asked."""
    near = sentence[max(0, m.start() - 14) : m.start()]
    quoted = sentence[max(0, m.start() - 2) : m.start()].strip()[-1:] in {'"', "“", "「", "‘", "'"}
    return not (
        words.NEGATION.search(near)
        or quoted
        or re.search(r"是否|whether|if|待|to be\s*$|plan|will|将|拟", near)
        or words.CODE_DOUBT.search(sentence[m.start() : m.end() + 16])
    )


@check(49)
def code_released_and_not_found(brief: Brief) -> Iterator[Finding]:
    """Open code is given as a fact, elsewhere its repository is not named or not found."""
    doubts = list(_code_claims(brief, doubt=True))
    seen: set[tuple[int, str]] = set()
    for claim in _code_claims(brief, doubt=False):
        against = [d for d in doubts if d.keys & claim.keys and d.place.line != claim.place.line]
        if against and (claim.place.line, claim.place.span) not in seen:
            seen.add((claim.place.line, claim.place.span))
            yield Finding(
                49,
                claim.place,
                f"code of {claim.name} is given as released, but line {against[0].place.line} says it was not found or not "
                f"verified",
                "name the repository, or keep the claim open in both places",
                tuple(d.place for d in against),
            )


@check(49)
def summary_and_item(brief: Brief) -> Iterator[Finding]:
    """The summary table gives an increment another state than the increment itself."""
    own = {i.rank: i for i in brief.of("increment") if i.rank}
    for row in brief.of("summary_row"):
        item = own.get(row.rank)
        if not item or not (row.name_keys & item.name_keys):
            continue
        table = brief.lines[row.line - 1]
        for piece in item.get("status"):
            a, b = _state_word(piece.text), _state_word(table)
            if a and b and a[0] != b[0]:
                yield Finding(
                    49,
                    Place(row.line, b[1]),
                    f'{brief.subject(item)} is "{b[1]}" here and "{a[1]}" in line {piece.line}',
                    "one state per work",
                    (piece.place(a[1]),),
                )


@check(49)
def new_and_anchored(brief: Brief) -> Iterator[Finding]:
    """An increment's status says NET-new, a sentence of its own says that the document already has it."""
    for item in brief.of("increment"):
        status = next((p for p in item.get("status") if (word := _state_word(p.text)) and word[0] == "new"), None)
        for line in range(item.line, item.end_line + 1) if status else ():
            for s in _states_of_line(brief, line, brief.lines[line - 1]):
                if status and s.state == "anchored" and s.key in item.name_keys and line != status.line:
                    told = f'{brief.subject(item)} is "{status.text[:30]}" in line {status.line}, here it is anchored'
                    yield Finding(49, s.place, told, "one state per work", (status.place(),))


def _state_word(text: str) -> tuple[str, str] | None:
    """(state, words) when a text names exactly one of NET-new, anchored, pending."""
    found = [(s, m[0]) for s, p in (("new", words.NET_NEW), ("anchored", words.ANCHORED), ("pending", words.PENDING)) if (m := p.search(text))]
    if {s for s, _ in found} == {"new", "pending"}:
        found = found[:1]  # what is new waits to be anchored
    return found[0] if len(found) == 1 else None


@check(49)
def item_and_rejection(brief: Brief) -> Iterator[Finding]:
    """A work is an increment and, further down, was rejected."""
    rejected = {i: item for item in brief.of("rejection") for i in item.ids if not _OTHER_BRIEF.search(item.text)}
    for item in brief.of("increment"):
        for number in item.ids:
            if number in rejected:
                other = rejected[number]
                yield Finding(
                    49,
                    Place(other.line, number),
                    f"{brief.name_of(number)} ({number}) is rejected here and increment {item.rank} in line {item.line}",
                    "one disposition per work",
                    (Place(item.line, item.place.span),),
                )
