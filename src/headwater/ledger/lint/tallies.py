"""Rules 47 and 63, second part: arithmetic inside sentences — brackets that add up, lists as long as they say, ranges, `the only one`, merges."""

from __future__ import annotations

import re
from collections.abc import Iterator

from headwater.ledger.lint import words
from headwater.ledger.lint.brief import Brief
from headwater.ledger.lint.finding import Finding, Place
from headwater.ledger.lint.names import names_in, sentences
from headwater.ledger.lint.numerals import CLASSIFIER, NUMBER, value_of
from headwater.ledger.lint.registry import check
from headwater.ledger.lint.sourcelist import paths_in, source_key
from headwater.ledger.parse.ids import arxiv_ids

_UNIT = (
    rf"(?:{CLASSIFIER}|sources?|files?|notes?|items?|papers?|works?|increments?|briefs?|cards?|rounds?|ids?|entries|"
    rf"documents?|reports?|posts?|radars?)"
)
_BRACKET = re.compile(
    rf"(?P<n>{NUMBER})(?P<more>\s*\+|\s*余)?\s*(?P<noun>[^（(，。；;,:：\d=\n]{{0,26}}?)\s*[（(](?P<in>[^（）()]{{3,400}})[）)]",
    re.IGNORECASE,
)
_PART = re.compile(
    rf"^(?:(?P<head>{NUMBER})\s*(?P<hu>{CLASSIFIER})?\s*(?P<rest>\S.*)?|"
    rf"(?P<label>\S.*?)\s*[x×:：]?\s*(?P<tail>{NUMBER})\s*(?P<tu>{CLASSIFIER}|files?|notes?|rounds?|items?|sources?)?)$",
    re.IGNORECASE,
)
_LOOSE = words.rx(
    r"其中|含|包括|等|例如|如[:：]|比如|不限|…|\.\.\.|including|include|of which|of them|e\.g\.|such as|etc|among|mostly|主要|"
    r"均|都|皆|about|约|除|except|另"
)
_RANGE = re.compile(
    rf"(?<![\d.-])(?P<a>\d{{2,6}})\s*[-–~～]\s*(?P<b>\d{{2,6}})(?![\d.-])\s*[（(，,:：]?\s*(?P<n>{NUMBER})\s*(?:张|份|个|cards?\b|"
    rf"papers?\b|files?\b)",
    re.IGNORECASE,
)


def _parts(inside: str) -> list[tuple[int, str]] | None:
    """(value, label) of every part of `a 3 + b 2 + …`; None when a part has no count of its own."""
    strong = re.search(r"[+＋]", inside)
    pieces = re.split(r"\s*[+＋]\s*" if strong else r"\s*[、，,；;]\s*|\s+and\s+", inside)
    out = []
    for piece in pieces:
        m = _PART.match(re.sub(r"^and\s+", "", piece.strip()))
        number = (m["head"] or m["tail"]) if m else None
        value = value_of(number) if number else None
        unit = (m["hu"] or m["tu"]) if m else None
        worded = bool(
            m
            and m["head"]
            and m["rest"]
            and re.match(r"[A-Za-z]", m["rest"])
            and not re.match(r"(?:GB|TB|MB|ms|s|x|K|M|B|bit|%)\b", m["rest"])
        )
        if value is None or not (unit or worded) or len(piece) > 60:
            return None
        out.append((value, piece))
    return out if len(out) >= 2 else None


def _brackets(text: str) -> Iterator[tuple[re.Match[str], int]]:
    for m in _BRACKET.finditer(text):
        value = value_of(m["n"])
        before = text[max(0, m.start() - 1) : m.start()]
        if (
            value is not None
            and value <= 999
            and not re.search(r"[\w.:$§第#-]", before, re.ASCII)
            and not re.match(r"\s*(?:%|×|倍|x\b|GB|TB|ms|秒|天|小时|月|年|B\b|M\b|K\b|亿|万)", text[m.end("n") :])
        ):
            yield m, value


@check(47)
def bracket_adds_up(brief: Brief) -> Iterator[Finding]:
    """`20 sources (radar 3 + notes 6 + …)`: the parts add up to the total."""
    for line, text in brief.text_lines():
        for m, total in _brackets(text):
            inside = m["in"]
            parts = _parts(inside)
            if not parts or (_LOOSE.search(inside) and "+" not in inside):
                continue
            noun_ok = re.match(rf"\s*{_UNIT}", m["noun"] or "", re.IGNORECASE) or re.search(
                r"来源|材料|增量|sources?|items?|files?|increments?", m["noun"], re.IGNORECASE
            )
            if not noun_ok:
                continue
            added = sum(v for v, _ in parts)
            short = added < total if m["more"] else added != total
            if short:
                stated = f"{m['n']}{(m['more'] or '').strip()}"
                yield Finding(
                    47,
                    Place(line, m[0].strip()),
                    f"{stated} is stated, the parts in the bracket add up to {added}",
                    f"{added}, or the missing parts",
                )


_SOURCE_ROW = re.compile(r"^\s{0,3}(?:[-*•✅|]|\d{1,2}[.)、])\s*(?P<p>(?:[\w.@-]+/)*[\w.@-]+\.(?:md|txt|xml|html?|json|bib))\b", re.ASCII)


def source_counts(brief: Brief) -> set[int]:
    """Every number of sources that the lists support."""
    inc = {s.key for s in brief.sources.marked("included")}
    exc = {s.key for s in brief.sources.marked("not_included")}
    if not inc and not exc:
        listed = [t for s in brief.parsed.sections if s.kind == "source" for t in brief.lines[s.line : s.end_line]]
        rows = [m["p"].lower() for m in map(_SOURCE_ROW.match, listed) if m]
        return {len(rows), len(set(rows))}
    return {len(inc), len(inc | exc), len(inc) + len(exc)}


@check(47)
def footer_sources(brief: Brief) -> Iterator[Finding]:
    """The footer's number of sources is one the two lists support."""
    fine = source_counts(brief)
    if max(fine) < 2:
        return
    for line, text in brief.text_lines():
        if brief.kind_at(line) not in {"footer", "status", "header"}:
            continue
        for m in re.finditer(
            rf"(?P<n>{NUMBER})(?P<more>\s*\+|\s*余)?\s*(?:个|份|件)?\s*(?:来源|sources\b)(?!\s*[:：]?\s*\d)|"
            rf"(?:来源|sources)\s*(?:checked\s*)?[:：]?\s*(?P<n2>{NUMBER})(?P<more2>\s*\+|\s*余)?\s*(?:个|份|件)(?=\s*[（(，。；;]|$)",
            text,
            re.IGNORECASE,
        ):
            value = value_of(m["n"] or m["n2"])
            if value is None or value in fine or ((m["more"] or m["more2"]) and value <= max(fine)):
                continue
            yield Finding(
                47,
                Place(line, m[0]),
                f"{m[0]} is stated; the lists hold {len({s.key for s in brief.sources.marked('included')})} included and "
                f"{len({s.key for s in brief.sources.marked('not_included')})} not included",
                f"{max(fine)}",
            )


def _members(inside: str) -> set[int]:
    """Plausible lengths of an enumeration: split at the strong separator, at the weak one, at both."""
    body = re.sub(r"[；;].*$", "", inside).strip(" 。.")
    out = set()
    for pattern in (
        r"\s*[、]\s*",
        r"\s+[/／]\s+|\s*／\s*",
        r"\s*[/／]\s*",
        r"\s*[、/／]\s*",
        r"\s*[+＋]\s*",
        r"\s*[、/／+＋]\s*",
        r"\s*[，,]\s*(?:and\s+)?|\s+and\s+",
        r"\s*[；;]\s*",
    ):
        parts = [p for p in re.split(pattern, body if "；" not in pattern else inside) if p.strip()]
        if len(parts) > 1:
            out.add(len(parts))
    return out


def _name_list(inside: str) -> bool:
    """An enumeration of names or identifiers and nothing else."""
    parts = [p.strip() for p in re.split(r"\s*[、/／+＋]\s*|\s*,\s*(?:and\s+)?|\s+and\s+", inside) if p.strip()]
    if len(parts) < 2:
        return False
    for p in parts:
        if arxiv_ids(p) or re.fullmatch(r"\d{4}\.\d{5}", p):
            continue
        latin = bool(re.fullmatch(r"[@A-Z][\w@.³²-]*(?: [A-Za-z0-9][\w.³²-]*){0,5}", p, re.ASCII) or names_in(p))
        if not latin or len(p) > 48 or re.search(r"[。，：:=<>%×]|\b(?:on|with|at|only|per|vs)\b", p):
            return False
    return True


@check(47)
def enumeration_length(brief: Brief) -> Iterator[Finding]:
    """`6 items (A / B / C / D / E)`: as many names as it says."""
    for line, text in brief.text_lines():
        for m, total in _brackets(text):
            inside = m["in"]
            if total < 2 or m["more"] or _parts(inside) or _LOOSE.search(inside) or not _name_list(inside):
                continue
            if not re.match(rf"\s*{_UNIT}", m["noun"] or "", re.IGNORECASE):
                continue
            lengths = _members(inside)
            if lengths and total not in lengths and max(lengths) <= 24:
                n = max(lengths)
                yield Finding(47, Place(line, m[0].strip()), f"{total} are announced, the bracket names {n}", str(n))


@check(47)
def listed_after_colon(brief: Brief) -> Iterator[Finding]:
    """`7 documents: a 5 days, b 3 days, …` names seven."""
    pattern = re.compile(
        rf"(?:共|合计|total(?:ling)?|there are)\s*(?P<n>{NUMBER})\s*(?:个|份|件|documents?|files?|"
        rf"items?)\s*[：:]\s*(?P<list>[^。；;\n]{{3,300}})",
        re.IGNORECASE,
    )
    for line, text in brief.text_lines():
        for m in pattern.finditer(text):
            total = value_of(m["n"])
            lengths = _members(m["list"])
            if (
                total
                and total > 1
                and lengths
                and total not in lengths
                and not _LOOSE.search(m["list"])
                and max(lengths) - total in {1, -1, 2, -2}
            ):
                yield Finding(
                    47, Place(line, m[0].strip()), f"{total} are announced, the list names {max(lengths)}", str(max(lengths))
                )


@check(47)
def range_and_count(brief: Brief) -> Iterator[Finding]:
    """`cards 1195-1202 (8 cards)`: the range holds that many."""
    for line, text in brief.text_lines():
        for m in _RANGE.finditer(text):
            a, b, n = int(m["a"]), int(m["b"]), value_of(m["n"])
            if n is not None and 0 < b - a < 500 and b - a + 1 != n and len(m["a"]) == len(m["b"]):
                yield Finding(47, Place(line, m[0].strip()), f"{a}-{b} are {b - a + 1}, not {n}", str(b - a + 1))


# a kind of source -> (how prose calls it, how its files look)
_KINDS: tuple[tuple[str, str], ...] = (
    (r"(?:论文卡|paper[_ ]?cards?|卡片|cards?)", r"paper[_-]?cards?/|^\d{1,6}-\d{4}-\d{4,5}\.md$"),
    (r"(?:critical[- ]reads?|批判性阅读|批读)", r"critical[-_]read"),
    (r"(?:RSS(?:\s*(?:批次|源|feeds?))?)", r"rss"),
    (r"(?:radar(?:\s*rounds?)?|雷达)", r"radar"),
    (r"(?:工程简报|engineering[- ]brief)", r"engineering[-_]brief"),
    (r"(?:blog[s]?(?:\s*discovery)?|博客)", r"blog"),
)
_ONLY = re.compile(
    r"(?:唯一|仅有)(?:的)?(?:一(?:张|份|个|篇))?\s*(?P<zh>\S{2,16})|\bthe only (?:one )?(?P<en>[a-z][a-z -]{2,24})|\b(?:sole|"
    r"single) (?P<en2>[a-z][a-z -]{2,20}) (?:of|in) (?:the|this)",
    re.IGNORECASE,
)


@check(47)
def the_only_one(brief: Brief) -> Iterator[Finding]:
    """`the only paper card of the batch`, when increments cite two."""
    cited: list[tuple[str, int, str]] = []
    for item in brief.of("increment"):
        for piece in item.get("source"):
            cited += [(p.lower(), piece.line, p) for p in paths_in(piece.text)]
    for line, text in brief.text_lines():
        for m in _ONLY.finditer(text):
            noun = m["zh"] or m["en"] or m["en2"] or ""
            hit = next(
                (
                    (files, said)
                    for said, files in _KINDS
                    if re.match(said + r"(?:$|[，。；、,.;)）（(的 ]|of|in)", noun, re.IGNORECASE)
                ),
                None,
            )
            if not hit or words.NEGATION.search(text[max(0, m.start() - 3) : m.start()]):
                continue
            kind, said = hit
            files = {source_key(p): (n, shown) for p, n, shown in cited if re.search(kind, p) or re.search(kind, source_key(p))}
            if len(files) > 1:
                others = tuple(Place(n, p) for n, p in files.values() if n != line)
                begin = m.start(m.lastgroup or 0)
                named = re.match(said, noun, re.IGNORECASE)
                span = text[m.start() : begin + (named.end() if named else len(noun))]
                yield Finding(47, Place(line, span), f'"{span}", but {len(files)} are cited', "the true number", others)


_MERGED = words.rx(r"合并|归并|并入一条|merged|folded|combin(?:ed|es)|collapsed")
_FROM = re.compile(
    rf"(?:(?P<kind>[A-Za-z][\w-]{{2,}})\s*的\s*)?(?P<n>{NUMBER})\s*(?:条|篇|个|件|份)?\s*(?P<noun>[^，。；、（()）+与和\d]{{2,40}})",
    re.IGNORECASE,
)


@check(47)
def merges_are_real(brief: Brief) -> Iterator[Finding]:
    """`merged 5 RSS items and 2 papers`: what is said to be merged is found in the increments, and nothing is counted twice."""
    for line, text in brief.text_lines():
        for _, sentence in sentences(text):
            m = _MERGED.search(sentence)
            if not m or words.NEGATION.search(sentence[max(0, m.start() - 4) : m.start()]):
                continue
            tail = re.split(r"[，。；）)]|, (?=\w+ing)", sentence[m.end() :])[0]
            counted: list[tuple[int, set[str], str]] = []
            for part in re.split(r"与|和|、|\+|,|\band\b", tail):
                p = _FROM.search(part)
                n = value_of(p["n"]) if p else None
                if p and n and n > 1:
                    label = f"{p['kind'] or ''} {p['noun']}"
                    counted.append((n, _ids_of_kind(brief, label), part.strip()))
            wrong = [(n, ids, part) for n, ids, part in counted if ids and len(ids) < n]
            twice = [(a, b) for a in counted for b in counted if a is not b and b[1] and b[1] <= a[1] and b[0] <= a[0]]
            if wrong or twice:
                n, ids, part = wrong[0] if wrong else twice[0][1]
                told = (
                    f"only {len(ids)} such works are in the increments" if wrong else "these are already part of the other number"
                )
                yield Finding(
                    47,
                    Place(line, sentence[m.start() : m.end() + len(tail)].strip()),
                    f'"{part}" is said to be merged, but {told}',
                    "count every work once, and say where the rest went",
                    tuple(i.place for i in brief.of("increment") if set(i.ids) & ids)[:4],
                )


def _ids_of_kind(brief: Brief, label: str) -> set[str]:
    """Identifiers of increments whose source or level text names one of the label's Latin words."""
    keys = [
        w
        for w in re.findall(r"[A-Za-z][\w.-]{2,}", label)
        if w.lower() not in {"arxiv", "items", "papers", "the", "from", "entries", "works", "model", "paper", "cs.cl"}
    ]
    out: set[str] = set()
    for item in brief.of("increment"):
        told = " ".join(p.text for p in item.get("source", "boundary", "level"))
        if any(re.search(rf"(?<![A-Za-z]){re.escape(k)}", told, re.IGNORECASE) for k in keys):
            out |= set(item.ids)
    if not out:
        out = {
            i
            for item in brief.of("increment")
            for i in item.ids
            if any(re.search(rf"(?<![A-Za-z]){re.escape(k)}", item.title, re.IGNORECASE) for k in keys)
        }
    return out


_DENSITY = re.compile(
    rf"(?P<who>[A-Za-z\w\u4e00-\u9fff ]{{0,12}}?)(?P<n>{NUMBER})\s*(?:份|条|篇|件|张|个)(?:材料|来源)?\s*(?:中|里|"
    rf"当中)[，,：:]?\s*(?P<rest>.+)$|\bof (?:the |these )?(?P<m>{NUMBER}) (?:\w+ ){{1,3}}(?P<rest2>.+)$",
    re.IGNORECASE,
)
_SHARE = re.compile(
    rf"(?P<n>{NUMBER})\s*(?:份|条|篇|件|张|个)?\s*(?P<what>[^，。；,;\d]{{0,24}}?(?:摘要|TLDR|线索|正文|全文|卡|abstract|lead|"
    rf"full|snippet|digest|card|body)[^，。；,;\d]{{0,14}})",
    re.IGNORECASE,
)


_LEVEL_COUNT = re.compile(
    rf"(?P<what>摘要页级|摘要级|RSS\s*(?:摘要)?级?|TLDR\s*级?|线索级|搜索线索级|二手|转述级?|正文级|全文级)\s*"
    rf"(?P<n>{NUMBER})\s*(?:份|条|篇|件|个)",
    re.IGNORECASE,
)


@check(63)
def labelled_density_adds_up(brief: Brief) -> Iterator[Finding]:
    """`of 6 notes: abstracts 4, leads 3`: the parts exceed the whole. Levels of their own, each told once."""
    for line, text in brief.text_lines():
        for _, sentence in sentences(text):
            m = _DENSITY.search(sentence)
            total = value_of(m["n"] or m["m"]) if m else None
            shares = list(_LEVEL_COUNT.finditer(sentence, m.end("n") if m and m["n"] else 0)) if total else []
            added = sum(value_of(s["n"]) or 0 for s in shares)
            if m and total and len(shares) > 1 and len({s["what"] for s in shares}) == len(shares) and added > total:
                yield Finding(63, Place(line, m[0].strip()), f"the parts add up to {added} of {total}", f"parts that add up to {total}")


@check(63)
def density_adds_up(brief: Brief) -> Iterator[Finding]:
    """`of 6 notes, 4 are abstracts and 3 leads`: the parts exceed the whole."""
    for line, text in brief.text_lines():
        for _, sentence in sentences(text):
            m = _DENSITY.search(sentence)
            total = value_of(m["n"] or m["m"]) if m else None
            if not m or not total:
                continue
            rest = m["rest"] or m["rest2"]
            shares = [
                (value_of(s["n"]) or 0, s[0])
                for s in _SHARE.finditer(rest)
                if s.start() == 0 or re.search(r"[，,、;； ]|and $", rest[s.start() - 1 : s.start()] or "")
            ]
            nested = _DENSITY.search(rest)
            if nested:
                continue
            if len(shares) >= 2 and sum(v for v, _ in shares) > total and all(v <= total for v, _ in shares):
                yield Finding(
                    63,
                    Place(line, m[0].strip()),
                    f"the parts add up to {sum(v for v, _ in shares)} of {total}",
                    f"parts that add up to {total}",
                )
