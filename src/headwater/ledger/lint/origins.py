"""Rules 18, 32 and 52: who says it, how independent the sayers are, and whether they talk about the same quantity."""

from __future__ import annotations

import re
from collections.abc import Iterator

from headwater.ledger.lint import words
from headwater.ledger.lint.brief import Brief, Item, Piece
from headwater.ledger.lint.finding import Finding, Place
from headwater.ledger.lint.names import name_key, names_in, sentences
from headwater.ledger.lint.registry import check
from headwater.ledger.parse.quantity import Quantity, find_quantities

_POINTS_OF = re.compile(
    r"(?:要点|关键数字|key points|key numbers|points|numbers|results)\s*[（(]\s*(?P<who>[^）)]+)[）)]", re.IGNORECASE
)
_PROSPECT = words.rx(r"需|待|应|若|如|尚|缺|值得|建议|计划|should|needs?|await|to be|if|plan|require|lack|before|until|pending")
_KEYED = ("title", "points", "relation", "grade", "status", "")


def _asserted(sentence: str, m: re.Match[str]) -> bool:
    """Neither negated, nor asked for, nor quoted as somebody else's reading."""
    near = re.split(r"[，,、]", sentence[max(0, m.start() - 14) : m.start()])[-1]
    return not (
        words.NEGATION.search(near)
        or _PROSPECT.search(near)
        or re.search(r"(?:不|未|没)\s*$", near)
        or re.match(r"\s*(?:不足|不够|缺失|is missing|needed)", sentence[m.end() :], re.IGNORECASE)
    )


def _by_work(brief: Brief, item: Item) -> dict[str, list[tuple[Quantity, str]]]:
    """Quantities of an item by the work they belong to: by the names in the sentence, else by `points (work)` headings, else under ``."""
    out: dict[str, list[tuple[Quantity, str]]] = {}
    headed = ""
    for line in range(item.line, item.end_line + 1):
        head = _POINTS_OF.search(brief.lines[line - 1])
        headed = head["who"] if head else headed
        for piece in item.pieces:
            if piece.line != line or piece.key not in {"points", "", "title"}:
                continue
            for _, sentence in sentences(piece.text):
                for q in find_quantities(sentence, plain=False):
                    if q.unit not in _NO_RESULT:
                        for who in _owners(sentence, q, item) or [headed]:
                            out.setdefault(name_key(who), []).append((q, sentence))
    return out


_NO_RESULT = frozenset({"", "B", "K", "M", "T", "条", "个", "件", "用户", "users", "月活"})
_ALL_OF_THEM = words.rx(r"都|均|皆|各自|both|each|all (?:two|three|of them)")


def _owners(sentence: str, q: Quantity, item: Item) -> list[str]:
    """Works a quantity belongs to: the one in the bracket behind it, the nearest name before it, all of them after `both`."""
    at = sentence.find(q.raw)
    places = [(m.start(), n) for n in item.names for m in re.finditer(rf"(?<![\w-]){re.escape(n)}(?![\w-])", sentence)]
    behind = re.match(r"[^，。；,()（）]{0,10}[（(]\s*(?P<in>[^）)]+)[）)]", sentence[at + len(q.raw) :])
    bracketed = [n for n in item.names if behind and n in behind["in"]]
    if bracketed:
        return bracketed[:1]
    if len({n for _, n in places}) > 1 and _ALL_OF_THEM.search(sentence):
        return list(dict.fromkeys(n for _, n in places))
    before = [(p, n) for p, n in places if p < at]
    return [max(before)[1]] if before else [n for _, n in sorted(places)[:1]]


def _measure(q: Quantity, sentence: str) -> set[str]:
    """What a quantity measures: its canonical metric, else the noun in front of it."""
    if q.metric and q.metric not in {"parameters", "context_length", "users", "price"}:
        return {q.metric}
    before = sentence[: max(0, sentence.find(q.raw))]
    han = re.search(r"([\u4e00-\u9fff]{2,6})(?:最高|约|达|为|了|至|提升|降低|下降|减少|增加|节省|提高|缩短)*\s*[~约]?\s*$", before)
    latin = re.search(
        r"([A-Za-z][A-Za-z -]{3,24}?)\s*(?:by|of|to|is|was|:|=|falls?|drops?|rises?|improves?)*\s*(?:up to|about)?\s*$", before
    )
    return {g[1].strip().lower() for g in (han, latin) if g}


@check(52)
def confirmation_needs_a_shared_quantity(brief: Brief) -> Iterator[Finding]:
    """Two works are said to confirm each other, but no metric is reported by both."""
    for item in brief.of("increment"):
        told = list(_confirmations(item))
        if not told:
            continue
        works = _by_work(brief, item)
        if not works or (len(works) < 2 and (len(item.names) < 2 or _ALL_OF_THEM.search(item.text))):
            continue
        measured = {w: {(m, q.direction) for q, s in qs for m in _measure(q, s)} for w, qs in works.items()}
        if _shared(list(measured.values())):
            continue
        listed = "; ".join(f"{w}: {', '.join(sorted({m for m, _ in ms})) or 'nothing typed'}" for w, ms in measured.items())
        first, *rest = told
        yield Finding(
            52,
            first,
            f'"{first.span}", but the works report no common quantity ({listed})',
            "confirmation only where metric, direction and setting overlap",
            tuple(rest),
        )


@check(52)
def confirmation_between_items(brief: Brief) -> Iterator[Finding]:
    """A sentence outside the increments lets two of them confirm each other, although they report no common quantity."""
    increments = [i for i in brief.of("increment") if len(i.ids) <= 1]
    for item in brief.of("contradiction", "handle", "summary_row", "adjacent"):
        for piece in item.pieces:
            for _, sentence in sentences(piece.text):
                told = next((m for m in words.CONFIRM.finditer(sentence) if _asserted(sentence, m)), None)
                keys = {n.key for n in names_in(sentence)}
                two = [i for i in increments if i.name_keys & keys]
                if not told or len(two) != 2 or re.search(r"同一|相同|same (?:metric|quantity|model|setting)", sentence, re.IGNORECASE):
                    continue
                measured = [{(m, q.direction) for qs in _by_work(brief, i).values() for q, s in qs for m in _measure(q, s)} for i in two]
                if any(measured) and not _shared(measured):
                    listed = "; ".join(f"{brief.subject(i)}: {', '.join(sorted({m for m, _ in ms}))}" for i, ms in zip(two, measured, strict=True))
                    yield Finding(
                        52,
                        piece.place(told[0]),
                        f'"{told[0]}", but the works report no common quantity ({listed})',
                        "confirmation only where metric, direction and setting overlap",
                        tuple(i.place for i in two),
                    )


def _shared(measured: list[set[tuple[str, int]]]) -> bool:
    for i, a in enumerate(measured):
        for b in measured[:i]:
            for metric, direction in a:
                if any(metric == m and (direction == d or not direction or not d) for m, d in b):
                    return True
    return False


def _confirmations(item: Item) -> Iterator[Place]:
    for piece in item.pieces:
        if piece.key not in _KEYED:
            continue
        for _, sentence in sentences(piece.text):
            for m in words.CONFIRM.finditer(sentence):
                if _asserted(sentence, m):
                    yield piece.place(m[0])


@check(18)
def same_origin_counted_twice(brief: Brief) -> Iterator[Finding]:
    """Independent confirmation is claimed for what another sentence calls retellings of one origin."""
    same: list[tuple[Place, set[str]]] = []
    independent: list[tuple[Place, set[str]]] = []
    for line, text in brief.text_lines():
        item = brief.item_at(line)
        for _, sentence in sentences(text):
            names = {n.key for n in names_in(sentence)} | (
                item.name_keys if item and item.kind in {"increment", "adjacent"} else set()
            )
            s = words.SAME_ORIGIN.search(sentence)
            if s and _asserted(sentence, s):
                same.append((Place(line, s[0]), names))
            i = words.INDEPENDENT.search(sentence)
            if i and _asserted(sentence, i) and not (s and words.NEGATION.search(sentence)):
                independent.append((Place(line, i[0]), names))
    for place, names in independent:
        item = brief.item_at(place.line)
        for other, shared in same:
            near = other.line == place.line or (item is not None and item.line <= other.line <= item.end_line)
            if other != place and (near or names & shared):
                yield Finding(
                    18, place, f'"{place.span}", but line {other.line} says "{other.span}"', "one origin counts once", (other,)
                )
                break


@check(32)
def production_or_simulation(brief: Brief) -> Iterator[Finding]:
    """One item calls the same results validated in production and simulated."""
    for item in brief.of("increment"):
        if len(item.ids) > 1:
            continue
        real = next(
            (
                p.place(m[0])
                for p in item.get("grade", "title", "status")
                if (m := words.ON_REAL.search(p.text)) and _plain(p, m) and not words.SIMULATED.search(p.text)
            ),
            None,
        )
        if not real:
            continue
        for piece in item.get("points", "boundary", "verdict", ""):
            m = words.SIMULATED.search(piece.text)
            if (
                m
                and not words.NEGATION.search(piece.text[max(0, m.start() - 6) : m.start()])
                and re.search(
                    r"结果|数字|收益|评测|实验|集群|results?|numbers?|gains?|figures?|evaluat|cluster",
                    piece.text[max(0, m.start() - 40) : m.end() + 40],
                    re.IGNORECASE,
                )
            ):
                yield Finding(
                    32,
                    real,
                    f'"{real.span}", but line {piece.line} says the results are simulated',
                    "say which numbers were measured and which simulated",
                    (piece.place(piece.text[:80]),),
                )
                break


def _plain(piece: Piece, m: re.Match[str]) -> bool:
    return not words.NEGATION.search(piece.text[max(0, m.start() - 8) : m.start()])
