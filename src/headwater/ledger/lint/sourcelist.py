"""Which sources a brief says it checked: described ones, included ones, not included ones, and who cites what."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwater.ledger.parse.ids import find_links

if TYPE_CHECKING:
    from headwater.ledger.lint.brief import Brief, Item, Piece

_FILE = re.compile(r"(?<![\w:/.@-])(?:[\w.@-]+/)*[\w.@-]*\w\.(?:md|markdown|txt|xml|rss|atom|jsonl?|bib|csv|html?)\b", re.ASCII)
_CARD = re.compile(r"(?:paper[_ ]cards?|论文卡|card)\s*#?\s*(?P<no>\d{1,6})\b(?!\s*[-–]\s*\d{1,6}\b(?!-))", re.IGNORECASE)
_CARD_FILE = re.compile(r"(?<![\w-])(?P<no>\d{1,6})-(?P<id>\d{4}-\d{4,5})(?![\w-])", re.ASCII)
_SHORT = re.compile(
    r"(?<![\w/.-])(?P<who>[A-Za-z][a-z0-9_]{1,15})\s+(?:(?:20\d\d[-/])?(?P<m>\d{1,2})[-/](?P<d>\d{1,2})\s+)?"
    r"(?:(?P<hh>[01]\d|2[0-3]):?(?P<mm>[0-5]\d)(?!\d)|(?P<words>[a-z]{3,}(?:[ -][a-z]{3,}){0,3}))",
    re.ASCII,
)


_NO_PRODUCER = frozenset(
    {"on", "at", "by", "from", "since", "until", "of", "and", "generated", "window", "to", "the", "updated", "est", "utc"}
)


@dataclass(slots=True)
class Source:
    """One checked source. key: lower-case file name; text: everything said about it; mark: included, not_included or empty."""

    key: str
    path: str
    line: int
    text: str
    mark: str = ""
    section: str = "source"


@dataclass(slots=True)
class SourceList:
    """All checked sources of a brief, one entry per mention in a source section."""

    entries: list[Source] = field(default_factory=list)
    lines: list[tuple[int, str]] = field(default_factory=list)

    @classmethod
    def of(cls, brief: Brief) -> SourceList:
        """Collect from the sections that list sources."""
        out = cls()
        mark, group = "", ""
        for n, text in brief.text_lines():
            kind = brief.kind_at(n)
            if kind not in {"source", "source_total", "footer"}:
                continue
            item = brief.item_at(n)
            heading = not item and not text[:1].isspace()
            if heading:
                group = text
            mark = item.mark if item else mark
            out.lines.append((n, f"{group} {text}" if not heading else text))
            if kind == "footer":
                continue
            for path in paths_in(text):
                out.entries.append(Source(source_key(path), path, n, text, item.mark if item else "", kind))
            for m in _CARD_FILE.finditer(text):
                if not any(m[0] in source_key(p) for p in paths_in(text)):
                    out.entries.append(Source(f"{m[0]}.md", m[0], n, text, item.mark if item else "", kind))
        return out

    @property
    def usable(self) -> bool:
        """A list that can be checked against: it names at least two files."""
        return len({e.key for e in self.entries if not _CARD_FILE.fullmatch(e.path)}) >= 2

    def marked(self, mark: str) -> list[Source]:
        return [e for e in self.entries if e.mark == mark]

    def described(self, key: str) -> str:
        """Everything the source sections say about a file."""
        return "\n".join(e.text for e in self.entries if e.key == key)

    @property
    def keys(self) -> set[str]:
        return {e.key for e in self.entries}

    @property
    def producers(self) -> set[str]:
        """Names of collectors: the folder under an inbox, or the first folder when there is no inbox."""
        out = set()
        for e in self.entries:
            parts = e.path.split("/")
            if len(parts) >= 3:
                out.add(parts[-2].lower())
            elif len(parts) == 2 and parts[0].lower() not in {"inbox", "organized", "paper_cards", "notes"}:
                out.add(parts[0].lower())
        for _, text in self.lines:
            out |= {m[1].lower() for m in re.finditer(r"inbox/([A-Za-z][\w-]*)", text)}
        return out - {"paper_cards", "queue", "knowledge", "organized", "inbox"}


@dataclass(frozen=True, slots=True)
class Citation:
    """A source as an item names it. keys: file names it resolves to; empty when nothing in the lists fits."""

    span: str
    line: int
    keys: tuple[str, ...]


def source_key(path: str) -> str:
    """Comparable form of a file: its last component in lower case."""
    return path.rsplit("/", 1)[-1].lower()


def paths_in(text: str) -> list[str]:
    """File names and paths (not links) in text order."""
    links = [(m.start, m.end) for m in find_links(text)]
    return [m[0] for m in _FILE.finditer(text) if not any(m.start() < e and m.end() > s for s, e in links)]


def citations(brief: Brief, item: Item) -> list[Citation]:
    """Sources an item names: paths and cards of its source field, or short forms (`producer 9-3 1735`) in a table row."""
    sources = brief.sources
    pieces = item.get("source") or (item.pieces if item.kind == "adjacent" else [])
    out: list[Citation] = []
    for piece in pieces:
        out += [Citation(p, piece.line, (source_key(p),) if source_key(p) in sources.keys else ()) for p in paths_in(piece.text)]
        out += [_card(sources, m, piece) for m in _CARD.finditer(piece.text)]
        out += list(_short_forms(brief, piece))
    return out


def _card(sources: SourceList, m: re.Match[str], piece: Piece) -> Citation:
    number = m["no"]
    known = [e.key for e in sources.entries if re.match(rf"{number}-", e.key)]
    if not known and any(_in_range(number, text) or re.search(rf"(?<!\d){number}(?!\d)", text) for _, text in sources.lines):
        known = [f"card {number}"]
    return Citation(m[0], piece.line, tuple(dict.fromkeys(known)))


def _in_range(number: str, text: str) -> bool:
    return any(
        int(a) <= int(number) <= int(b)
        for a, b in re.findall(r"(?<![\d-])(\d{3,6})\s*[-–~]\s*(\d{3,6})(?![\d-])", text)
        if int(a) < int(b)
    )


def _short_forms(brief: Brief, piece: Piece) -> list[Citation]:
    sources, out = brief.sources, []
    for m in _SHORT.finditer(piece.text):
        known = m["who"].lower() in sources.producers
        stamped = m["m"] and m["hh"] and m["who"].lower() not in _NO_PRODUCER  # `name 5-14 0700` can be nothing else
        if not (stamped or (known and (m["m"] or m["hh"]))):
            continue
        out.append(Citation(m[0].strip(), piece.line, _resolve(brief, m)))
    return out


def _resolve(brief: Brief, m: re.Match[str]) -> tuple[str, ...]:
    """Files by this producer with this time of day (or one of these words) in their name or description."""
    sources, who = brief.sources, m["who"].lower()
    day = f"{int(m['m']):02d}-{int(m['d']):02d}" if m["m"] else ""
    hits = []
    for n, text in sources.lines:
        flat = text.lower()
        if who not in flat:
            continue
        named = [e for e in sources.entries if e.line == n]
        keys = [e.key for e in named] or [f"line {n}"]
        stamp = " ".join(e.path for e in named) or text
        if m["hh"]:
            fits = bool(re.search(rf"(?<!\d){m['hh']}:?{m['mm']}(?!\d)", text))
        else:
            fits = any(re.search(rf"(?<![a-z]){re.escape(w)}(?![a-z])", flat) for w in re.split(r"[ -]", m["words"]) if len(w) >= 3)
        if fits and day and re.search(r"\d\d-\d\d", stamp) and day not in stamp and named:
            fits = False
        if fits:
            hits += keys
    return tuple(dict.fromkeys(hits))
