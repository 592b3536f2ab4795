"""Rule 47, first part: what header, summary, headings and footer say about the lists, against the lists themselves."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from headwater.ledger.lint import words
from headwater.ledger.lint.brief import Brief, Item
from headwater.ledger.lint.finding import Finding, Place
from headwater.ledger.lint.names import sentences
from headwater.ledger.lint.numerals import CLASSIFIER, NUMBER, Count, counts_of
from headwater.ledger.lint.registry import check

# what is counted -> (noun after the numeral, noun in front of it)
_NOUNS: dict[str, tuple[str, str]] = {
    "main": (r"(?:主(?:要)?增量|main (?:increments?|items?|entries)\b)", r"(?:主增量|增量条数|增量总数|main increments?)"),
    "net_new": (r"(?:NET-?\s?new\b(?!\s*(?:arxiv|ids?\b|papers?))|净新增(?!\s*arXiv))", r"NET-?\s?new"),
    "adjacent": (
        r"(?:相邻(?:条目|项)|邻接(?!入库|备料|接入)(?:预备|条目|项)?|adjacent\b(?! (?:intake|with|cards?)))",
        r"(?:邻接(?:预备|条目|项)|相邻(?:条目|项)?)",
    ),
    "stored": (r"(?:paper[_ ]card\s*)?(?:邻接入库|adjacent intakes?)", r"(?:邻接入库|adjacent intakes?)"),
    "listed": (r"(?:增量|increments?\b)", r"(?!)"),
    "ids": (
        r"(?:(?:citable|net-?new|new)\s+)*(?:arXiv (?:ids?\b|号|编号))",
        r"(?:arXiv (?:号|编号|ids?)|citable ids?)\s*(?:[：:]\s*)?(?:净增|新增|net-?new)?",
    ),
}
_ABOUT_OTHERS = words.rx(
    r"对照|相比|对比|昨(?:日|晚|天)|上(?:一)?(?:轮|棒|期|次|篇)|前一?(?:日|晚|天)|e1prep（|compared|previous|yesterday|earlier|"
    r"last (?:brief|round|evening|night)|than the"
)
_PART_OF = words.rx(r"其中|来自|之中|当中|里有|of which|of these|of them|among|from the|stem from|taken from|out of")
_ONLY_THESE = words.rx(
    r"(?:只|仅|共|合计|总计|一共|列出|收录|列了|total|in all|altogether|lists?\b|contains?\b|holds?\b|carries|has\b)"
    r"\W{0,3}(?:of )?$"
)
_DAYS = words.rx(r"^\s*(?:days?|hours?|weeks?|months?|years?|minutes?|pages?|nights?|am|pm)\b")


def _stated(kind: str, text: str) -> list[Count]:
    after, before = _NOUNS[kind]
    unit = rf"(?:{CLASSIFIER}|items?\b|papers?\b|works?\b|entries\b)"
    behind = counts_of(rf"{before}\s*(?:共|合计|总计|一共|总共)?\s*(?:[：:]\s*(?P<n>{NUMBER})(?!\s*[-./:])|(?P<n2>{NUMBER})\s*{unit})", text)
    return counts_of(rf"(?P<n>{NUMBER})\s*{CLASSIFIER}?\s*{after}", text) + behind


def _statements(brief: Brief, kind: str, kinds: set[str]) -> Iterator[tuple[int, str, Count]]:
    """(line, sentence, count) in the given section kinds and in translated headings; sentences about other briefs left out."""
    for line, text in brief.text_lines():
        if brief.kind_at(line) not in kinds and line not in brief.headings:
            continue
        for _, sentence in sentences(text):
            if _ABOUT_OTHERS.search(sentence):
                continue
            for count in _stated(kind, sentence):
                yield line, sentence, count


def _is_net_new(item: Item) -> bool | None:
    """What an increment's own status says; None when it has none."""
    status = [p.text for p in item.get("status")]
    if not status:
        return None
    return any(words.NET_NEW.search(s) and not re.search(r"(?:非|不是|not)\s*NET", s, re.IGNORECASE) for s in status)


_WHOLE = {"header", "status", "summary", "footer"}


@check(47)
def stated_and_listed(brief: Brief) -> Iterator[Finding]:
    """Counts of increments, NET-new and adjacent items in header, status, summary and footer."""
    increments, adjacent = brief.of("increment"), brief.of("adjacent")
    flags = [_is_net_new(i) for i in increments]
    actual: dict[str, tuple[int, list[Item], str]] = {}
    if increments:
        actual["main"] = (len(increments), increments, "increments")
        actual["listed"] = actual["main"]
        if all(f is not None for f in flags):
            fresh = [i for i, f in zip(increments, flags, strict=True) if f]
            actual["net_new"] = (len(fresh), fresh, "increments with status NET-new")
    if adjacent:
        actual["adjacent"] = (len(adjacent), adjacent, "adjacent items")
    for kind, (n, items, noun) in actual.items():
        for line, sentence, count in _statements(brief, kind, _WHOLE):
            before = sentence[max(0, count.start - 16) : count.start]
            if kind == "listed" and not _ONLY_THESE.search(before):
                continue
            if count.value == n or (count.open_end and count.value <= n) or _PART_OF.search(before):
                continue
            if (
                kind == "net_new"
                and count.value == 0
                and n
                and not re.search(r"net-?new", sentence[count.start : count.end], re.IGNORECASE)
            ):
                continue
            span = sentence[count.start : count.end]
            related = tuple(_status_place(i) if kind == "net_new" else i.place for i in items)
            yield Finding(47, Place(line, span), f'"{span.strip()}" is stated, but the brief has {n} {noun}', f"{n}", related[:12])


def _status_place(item: Item) -> Place:
    piece = next((p for p in item.get("status") if words.NET_NEW.search(p.text)), None)
    return piece.place(piece.text[:60]) if piece else item.place


@check(47)
def same_noun_same_number(brief: Brief) -> Iterator[Finding]:
    """The same small noun counted twice with different numbers."""
    told = list(_statements(brief, "stored", {*_WHOLE, "source", "source_total"}))
    if len({c.value for _, _, c in told}) > 1:
        values = [c.value for _, _, c in told]
        odd = min(set(values), key=lambda v: (values.count(v), v))
        line, sentence, count = next(t for t in told if t[2].value == odd)
        related = tuple(Place(n, s[c.start : c.end]) for n, s, c in told if c.value != odd)
        span = sentence[count.start : count.end]
        yield Finding(
            47,
            Place(line, span),
            f'"{span.strip()}" here, {related[0].span!r} in line {related[0].line}',
            "one number for one thing",
            related,
        )


_HEADED = {
    "increment": "increments",
    "adjacent": "adjacent items",
    "contradiction": "contradictions",
    "handle": "handles",
    "citable": "identifiers",
    "rejection": "rejections",
}


def _heading_count(text: str) -> tuple[Count, str] | None:
    """The count a heading promises, the ordinal in front of it left out."""
    flat = re.sub(
        r"^\s*#*\s*\**\s*(?:[一二三四五六七八九十]{1,3}、|\d{1,2}[.、)]\s|[IVX]{1,4}[.)]\s|(?:one|two|three|four|five|six|seven|"
        r"eight)\s*[—–:-])",
        lambda m: " " * len(m[0]),
        text,
        flags=re.IGNORECASE,
    )
    for count in (
        counts_of(rf"(?P<n>{NUMBER})\s*{CLASSIFIER}", flat)
        + counts_of(rf"(?P<n>{NUMBER})(?=\s+[a-z])", flat)
        + counts_of(rf"[（(]\s*(?P<n>{NUMBER})\s*[)）]", flat)
    ):
        before = flat[max(0, count.start - 3) : count.start]
        if (
            _DAYS.search(flat[count.end :])
            or re.search(r"[第近前§.\d]$|last $|top $|past $", before.rstrip() or before, re.IGNORECASE)
            or re.match(r"[个]?(?:月|日|天|小时)", flat[count.end :])
        ):
            continue
        if re.match(r"\s*(?:of|/)\s*\d", flat[count.end :]):
            continue
        return count, flat[count.start : count.end]
    return None


@check(47)
def heading_and_list(brief: Brief) -> Iterator[Finding]:
    """A heading that promises N entries stands above N entries."""
    for section in brief.parsed.sections:
        if section.kind not in _HEADED or section.line > len(brief.lines):
            continue
        heading = brief.headings.get(section.line, brief.lines[section.line - 1])
        promised = _heading_count(heading)
        items = [i for i in brief.items if i.kind == section.kind and section.line <= i.line <= max(section.end_line, section.line)]
        ranked = [i for i in items if i.rank] or items
        if not promised or not items:
            continue
        count, span = promised
        groups = {g: sum(1 for i in items if i.group == g) for g in {i.group for i in items}}
        if count.value in {len(items), len(ranked), *(groups.values() if section.kind == "citable" else ())}:
            continue
        yield Finding(
            47,
            Place(section.line, heading[count.start : count.end].strip() or span),
            f"the heading promises {count.value}, the list below has {len(ranked)} {_HEADED[section.kind]}",
            f"{len(ranked)}",
            tuple(i.place for i in ranked[:12]),
        )


@check(47)
def group_and_list(brief: Brief) -> Iterator[Finding]:
    """A sub-heading such as `directly involved (8)` stands above that many identifiers."""
    entries = brief.of("citable")
    starts = [n for n, i in enumerate(entries) if i.group and (n == 0 or entries[n - 1].group != i.group)]
    for start, stop in itertools.pairwise([*starts, len(entries)]):
        group = entries[start].group
        items = [i for i in entries[start:stop] if i.group == group]
        inside = re.search(
            rf"[（(]\s*(?P<n>{NUMBER})\s*(?:{CLASSIFIER}|ids?\b|works?\b|papers?\b|entries\b)?\s*[）)]", group, re.IGNORECASE
        )
        here = [i for i in items if i.ids]
        if inside and here and counts_of(rf"(?P<n>{NUMBER})", inside["n"])[0].value != len(here):
            above = (n for n in range(items[0].line, 0, -1) if inside[0] in brief.lines[n - 1])
            yield Finding(
                47,
                Place(next(above, items[0].line), inside[0]),
                f"{inside[0]} is stated, the list has {len(here)} identifiers",
                str(len(here)),
                tuple(i.place for i in here[:12]),
            )


@check(47)
def stated_ids(brief: Brief) -> Iterator[Finding]:
    """The number of citable identifiers in header and footer."""
    citable = [i for i in brief.of("citable") if i.ids]
    if len(citable) < 2:
        return
    groups = {sum(1 for i in citable if i.group == g) for g in {i.group for i in citable}}
    fine = {len(citable), len({n for i in citable for n in i.ids[:1]}), *groups}
    for line, sentence, count in _statements(brief, "ids", {"status", "footer", "summary"}):
        around = sentence[max(0, count.start - 24) : count.end + 6]
        if (
            count.value in fine
            or count.value > 60
            or _PART_OF.search(around)
            or re.search(r"基线|baseline|文档|document|约|about", around, re.IGNORECASE)
        ):
            continue
        span = sentence[count.start : count.end]
        yield Finding(
            47,
            Place(line, span),
            f'"{span.strip()}" is stated, the list of citable identifiers has {len(citable)}',
            str(len(citable)),
            tuple(i.place for i in citable[:12]),
        )


@check(47)
def summary_rows(brief: Brief) -> Iterator[Finding]:
    """The summary table has one row for every increment and adjacent item."""
    rows = {i.rank: i for i in brief.of("summary_row") if i.rank}
    listed = {i.rank: i for i in brief.of("increment", "adjacent") if i.rank}
    if len(rows) < 2 or not listed:
        return
    only_main = all(r.isdigit() for r in rows)
    wanted = {r: i for r, i in listed.items() if not only_main or i.kind == "increment"}
    for rank, item in wanted.items():
        if rank not in rows:
            first = next(iter(rows.values()))
            yield Finding(
                47,
                Place(item.line, item.place.span),
                f"item {rank} is missing from the summary table",
                "one row per item",
                (first.place,),
            )
    for rank, row in rows.items():
        if rank not in listed:
            yield Finding(47, row.place, f"row {rank} of the summary table has no item above", "one row per item")
