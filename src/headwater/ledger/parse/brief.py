"""The structure of a brief or a note: sections, entries, labelled fields, each with line and column.

Understands Markdown (headings, bullets, pipe tables, front matter) and the flattened plain text that copying from a viewer leaves
(`一、…`, `1.1 …`, `  • …`, tables reduced to lines `A item …`, several `- ` bullets or two labelled fields on one line),
Chinese and English. Nothing is dropped: every non-blank line belongs to exactly one entry, or stands in `Section.loose`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from headwater.ledger.parse import labels
from headwater.ledger.parse.ids import IdMention, Mention, arxiv_ids, find_dates, find_ids, find_links, find_sections
from headwater.ledger.parse.quantity import Quantity, find_quantities

_CN_DIGITS = "一二三四五六七八九十"
_HEAD_MD = re.compile(r"^(#{1,6})\s+(.*?)\s*#*$")
_HEAD_CN = re.compile(rf"^(?P<no>[{_CN_DIGITS}]{{1,3}})、\s*(?P<title>.+)$")
_HEAD_EN = re.compile(r"^(?P<no>One|Two|Three|Four|Five|Six|Seven|Eight|Nine|Ten|Eleven|Twelve)\s*[—–:-]\s*(?P<title>.+)$", re.IGNORECASE)
_HEAD_SUB = re.compile(r"^(?P<no>\d{1,2}\.\d{1,2})\s+(?P<title>\S.*)$")
_BULLET = re.compile(r"^(?P<pad>\s*)(?P<mark>[•●▪*+\-–]|✅)\s+(?P<body>\S.*)$")
_NUMBERED = re.compile(r"^(?P<pad>\s*)(?P<no>\d{1,3})[.、)）]\s*(?P<body>\S.*)$")
_INCREMENT = re.compile(
    r"^(?:增量|Increment|Item)\s*(?P<no>\d{1,3})\s*(?P<tag>[【\[][^】\]]*[】\]])?\s*[:：.]?\s*(?P<title>.*)$", re.IGNORECASE
)
_ROW = re.compile(r"^(?P<no>[A-Z]|\d{1,2})\s+(?P<body>\S.*)$")
_PIPE = re.compile(r"^\s*\|(.+)\|\s*$")
_FLAG = re.compile(r"^[\s]*([🟢🟡🔴🟠🔵⚪⚠]️?)\s*")
_EN_ORDINALS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


_HAN = re.compile(r"[\u4e00-\u9fff]")
_LATIN = re.compile(r"[A-Za-z]")
_LISTS = {
    "adjacent",
    "summary",
    "citable",
    "carry_over",
    "source_total",
    "source",
    "rejection",
    "handle",
    "contradiction",
    "status",
}


@dataclass(frozen=True, slots=True)
class Field:
    """A labelled piece of text. key: canonical name (see `labels.FIELDS`) or empty; label: as written; line is 1-based; start and
    end are columns of `text` in that line. A field over several lines has its first line's place and `lines` > 1."""

    key: str
    label: str
    text: str
    line: int
    start: int
    end: int
    lines: int = 1


@dataclass(slots=True)
class Entry:
    """One addressable item: an increment, adjacent row, contradiction, id line, carry-over, source, rejection, handle, summary row.

    kind: see `labels.SECTIONS`. rank: number or letter as written, empty for bullets. title: heading text without number, tag and
    flag. tag: bracketed `§ · date` text. mark: `included`, `not_included` or empty. group: sub-heading it stands under.
    """

    kind: str
    rank: str
    title: str
    line: int
    end_line: int
    tag: str = ""
    flag: str = ""
    mark: str = ""
    group: str = ""
    text: str = ""
    fields: list[Field] = field(default_factory=list)

    def get(self, key: str) -> list[Field]:
        """Fields with this canonical key, in order."""
        return [f for f in self.fields if f.key == key]

    def first(self, key: str) -> str:
        """Text of the first such field, or empty."""
        return next((f.text for f in self.fields if f.key == key), "")

    @property
    def ids(self) -> list[str]:
        """Distinct arXiv numbers in the heading if it has any, else in the whole entry."""
        return arxiv_ids(f"{self.tag} {self.title}") or arxiv_ids(self.text)

    @property
    def all_ids(self) -> list[str]:
        """Distinct arXiv numbers anywhere in the entry."""
        return arxiv_ids(self.text)


@dataclass(slots=True)
class Section:
    """A section with its canonical kind (`labels.SECTIONS`, or `other`). no: 1-based number or 0. loose: lines outside entries."""

    kind: str
    no: int
    title: str
    line: int
    end_line: int
    entries: list[Entry] = field(default_factory=list)
    loose: list[Field] = field(default_factory=list)
    subheads: list[Field] = field(default_factory=list)


@dataclass(slots=True)
class ParsedBrief:
    """A text taken apart. lines[i] is line i + 1 without its newline. header: lines before the first section, as fields."""

    lines: list[str]
    title: str
    topic: str
    date: str
    language: str
    layout: str
    header: list[Field]
    sections: list[Section]
    footer: list[Field]

    def section(self, kind: str) -> Section | None:
        """First section of a kind."""
        return next((s for s in self.sections if s.kind == kind), None)

    def entries(self, kind: str) -> list[Entry]:
        """All entries of a kind, over all sections."""
        return [e for s in self.sections for e in s.entries if e.kind == kind]

    def walk(self) -> Iterator[tuple[Section, Entry]]:
        """Every entry with its section, in text order."""
        for section in self.sections:
            for entry in section.entries:
                yield section, entry

    @property
    def is_brief(self) -> bool:
        """True when the text has the parts that make a brief: increments and at least one other known section."""
        kinds = {s.kind for s in self.sections}
        return "increment" in kinds and len(kinds - {"other", "increment"}) >= 1

    def ids(self) -> list[tuple[int, IdMention]]:
        """(line, mention) for every identifier; columns are relative to the line."""
        return [(n, m) for n, line in enumerate(self.lines, 1) for m in find_ids(line)]

    def links(self) -> list[tuple[int, Mention]]:
        """(line, mention) for every http(s) link."""
        return [(n, m) for n, line in enumerate(self.lines, 1) for m in find_links(line)]

    def section_marks(self) -> list[tuple[int, Mention]]:
        """(line, mention) for every `§` mark."""
        return [(n, m) for n, line in enumerate(self.lines, 1) for m in find_sections(line)]

    def quantities(self) -> list[tuple[int, Quantity]]:
        """(line, quantity) for every number with a place."""
        return [(n, q) for n, line in enumerate(self.lines, 1) for q in find_quantities(line)]


def language_of(text: str) -> str:
    """`zh` when more than a tenth of the letters are Chinese, else `en`."""
    han = len(_HAN.findall(text))
    latin = len(_LATIN.findall(text))
    return "zh" if han * 9 > latin else "en"


def _heading(line: str) -> tuple[int, str, int] | None:
    """(level, title, number) when the line is a heading: level 1 is a section, 2 a part of one."""
    m = _HEAD_MD.match(line)
    level = 0
    if m:
        level, line = len(m[1]), m[2]
    for rx in (_HEAD_CN, _HEAD_EN):
        h = rx.match(line)
        if h and (level or len(line) < 120):
            word = h["no"].lower()
            no = _EN_ORDINALS.index(word) + 1 if word in _EN_ORDINALS else _CN_DIGITS.find(word) + 1
            return 1, h["title"].strip(), no
    h = _HEAD_SUB.match(line)
    if h and len(line) < 160:
        return 2, line.strip(), 0
    if m:
        return (level if level < 3 else 3), line.strip(), 0
    if not line[:1].isspace() and labels.bare_heading(line):
        return (2 if labels.section_kind(line) in {"", "source"} else 1), line.strip(), 0
    return None


def split_fields(text: str, line: int, offset: int = 0) -> list[Field]:
    """Labelled fields of one line: `来源：… 状态：…` gives two; a text without a known label gives one with an empty key."""
    cuts = labels.find_labels(text)
    if not cuts or text[: cuts[0][0]].strip(" •*-–✅"):
        cuts = [(0, 0, "", ""), *cuts]
    out = []
    for i, (_, body, key, label) in enumerate(cuts):
        stop = cuts[i + 1][0] if i + 1 < len(cuts) else len(text)
        raw = text[body:stop]
        stripped = raw.strip()
        if stripped or key:
            begin = body + len(raw) - len(raw.lstrip()) if stripped else body
            out.append(Field(key, label, stripped, line, offset + begin, offset + begin + len(stripped)))
    return out


class _Builder:
    """Walks the lines once. The state is the open section, the open entry and the open multi-line field."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.header: list[Field] = []
        self.sections: list[Section] = []
        self.entry: Entry | None = None
        self.group = ""
        self.key = ("", "")  # label that following bullets belong to
        self.columns: list[str] = []

    def run(self) -> None:
        for no, line in enumerate(self.lines, 1):
            if not line.strip():
                continue
            self.line(no, line)
        self._close(len(self.lines))

    def line(self, no: int, line: str) -> None:
        section = self.sections[-1] if self.sections else None
        increment = self._increment_heading(line, section)
        if increment:
            rank, tag, title = increment
            self._open("increment", no, title, rank=rank, tag=tag)
            return
        if section and labels.table_heading(line):
            section.loose.append(Field("columns", "", line.strip(), no, 0, len(line)))
            return
        head = None if re.fullmatch(r"\s*[-=_*]{3,}\s*", line) else _heading(line)
        if head:
            self._head(no, line, *head)
            return
        if section is None:
            self.header += _header_fields(line, no)
            return
        if section.kind == "citable" and " - arXiv" in line:
            self._flattened_ids(no, line)
            return
        self._body(section, no, line)

    def _increment_heading(self, line: str, section: Section | None) -> tuple[str, str, str] | None:
        bare = _HEAD_MD.sub(r"\2", line).strip()
        m = _INCREMENT.match(bare)
        if m and (m["tag"] or _HEAD_MD.match(line)):
            return m["no"], m["tag"] or "", m["title"]
        if section and section.kind == "increment":
            n = _NUMBERED.match(bare)
            if n and not line.startswith(("  ", "\t")) and not labels.find_labels(n["body"]):
                return n["no"], "", n["body"]
        return None

    def _head(self, no: int, line: str, level: int, title: str, number: int) -> None:
        kind = labels.section_kind(title)
        top = level == 1 or (level == 2 and bool(kind) and kind != self._kind() and not _HEAD_SUB.match(title)) or not self.sections
        if not self.sections and level == 1 and not kind and not number and not self.header:
            self.header.append(Field("title", "", title, no, line.find(title), line.find(title) + len(title)))
            return
        self._close(no - 1)
        self.group, self.key, self.columns = "", ("", ""), []
        if top:
            self.sections.append(Section(kind or "other", number, title, no, no))
        else:
            self.group = title
            self.sections[-1].subheads.append(Field("", "", title, no, line.find(title), line.find(title) + len(title)))

    def _kind(self) -> str:
        return self.sections[-1].kind if self.sections else ""

    def _close(self, no: int) -> None:
        if self.entry:
            self.entry.end_line = max(self.entry.line, no)
            while self.entry.end_line > self.entry.line and not self.lines[self.entry.end_line - 1].strip():
                self.entry.end_line -= 1
            self.entry.text = self.entry.text or "\n".join(self.lines[self.entry.line - 1 : self.entry.end_line])
        if self.sections:
            self.sections[-1].end_line = max(self.sections[-1].line, no)
        self.entry = None

    def _open(self, kind: str, no: int, title: str, *, rank: str = "", tag: str = "", mark: str = "") -> Entry:
        self._close(no - 1)
        flag = _FLAG.match(title)
        if flag:
            title = title[flag.end() :]
        self.entry = Entry(kind, rank, title.strip(), no, no, tag, flag[1] if flag else "", mark, self.group)
        self.key = ("", "")
        if not self.sections:
            self.sections.append(Section(kind, 0, "", no, no))
        self.sections[-1].entries.append(self.entry)
        return self.entry

    def _flattened_ids(self, no: int, line: str) -> None:
        self._close(no - 1)
        lead, *items = re.split(r"\s+-\s+(?=arXiv)", line)
        self.group = lead.strip()
        self.sections[-1].subheads.append(
            Field("", "", self.group, no, line.find(self.group), line.find(self.group) + len(self.group))
        )
        at = 0
        for item in items:
            at = line.find(item, at)
            entry = Entry("citable", "", item.strip(), no, no, group=self.group, text=item)
            entry.fields = [Field("", "", item.strip(), no, at, at + len(item.rstrip()))]
            self.sections[-1].entries.append(entry)
            at += len(item)

    def _body(self, section: Section, no: int, line: str) -> None:
        kind = section.kind
        pipe = _PIPE.match(line)
        bullet, numbered = _BULLET.match(line), _NUMBERED.match(line)
        if pipe:
            self._pipe(section, no, line)
        elif kind == "increment":
            self._field(section, no, line)
        elif kind in {"adjacent", "summary"} and _ROW.match(line) and not line.startswith("# "):
            row = _ROW.match(line)
            assert row
            entry = self._open("adjacent" if kind == "adjacent" else "summary_row", no, row["body"], rank=row["no"])
            entry.fields = [Field("", "", row["body"].strip(), no, row.start("body"), len(line.rstrip()))]
        elif numbered and kind in labels.NUMBERED_KINDS and len(numbered["pad"]) <= 2:
            entry = self._open(kind, no, numbered["body"], rank=numbered["no"])
            entry.fields = split_fields(line[numbered.start("body") :], no, numbered.start("body"))
        elif bullet and (kind in labels.BULLET_KINDS) and not (self.entry and self.entry.rank and len(bullet["pad"]) > 2):
            mark = "included" if "✅" in line[:6] else section_mark(self.group, section.title)
            entry_kind = "carry_over" if kind == "citable" and labels.section_kind(self.group) == "carry_over" else kind
            entry = self._open(entry_kind, no, bullet["body"].removeprefix("✅").strip(), mark=mark)
            entry.fields = split_fields(line[bullet.start("body") :], no, bullet.start("body"))
        elif self.entry and not self._paragraph(kind, no, line):
            self.entry.fields += split_fields(line, no)
        else:
            self._close(no - 1)
            section.loose += split_fields(line, no)

    def _paragraph(self, kind: str, no: int, line: str) -> bool:
        """An unindented line after a blank one ends a list; it belongs to the section."""
        return kind in _LISTS and not line[0].isspace() and not self.lines[no - 2].strip()

    def _field(self, section: Section, no: int, line: str) -> None:
        bullet = _BULLET.match(line)
        at = bullet.start("body") if bullet else 0
        found = split_fields(line[at:], no, at)
        owner = self.entry.fields if self.entry else section.loose
        if len(found) == 1 and found[0].key and not found[0].text:
            self.key = (found[0].key, found[0].label)  # `要点：` on its own: the bullets below belong to it
            owner.append(found[0])
            return
        for f in found:
            key, label = (f.key, f.label) if f.key or not self.key[0] else self.key
            owner.append(Field(key, label, f.text, f.line, f.start, f.end))
        if found and found[-1].key and not bullet:
            self.key = ("", "")

    def _pipe(self, section: Section, no: int, line: str) -> None:
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if all(re.fullmatch(r":?-+:?", c) for c in cells):
            return
        below = self.lines[no] if no < len(self.lines) else ""
        ruled = bool(re.fullmatch(r"\s*\|?(?:\s*:?-+:?\s*\|)+\s*:?-*:?\s*\|?\s*", below))
        if not self.columns and not ruled and re.fullmatch(r"[A-Z]|\d{1,2}", cells[0]):
            self.columns = [""] * len(cells)                             # a table without a heading begins with its first row
        if not self.columns:
            self.columns = [labels.column(c) for c in cells]
            section.loose.append(Field("columns", "", line.strip(), no, 0, len(line)))
            return
        kind = {"summary": "summary_row"}.get(section.kind, section.kind)
        title = cells[1] if len(cells) > 1 else cells[0]
        entry = self._open(kind, no, title, rank=cells[0])
        at = 0
        for name, cell in zip(self.columns, cells, strict=False):
            at = max(line.find(cell, at), at)
            entry.fields.append(Field(name, "", cell, no, at, at + len(cell)))
            at += len(cell)


def section_mark(*titles: str) -> str:
    """`included` or `not_included` from the heading of a source list, else empty."""
    for title in titles:
        if re.search(r"未纳入|not included|无净?新增", title, re.IGNORECASE):
            return "not_included"
        if re.search(r"已纳入|included", title, re.IGNORECASE):
            return "included"
    return ""


def _header_fields(line: str, no: int) -> list[Field]:
    bullet = _BULLET.match(line)
    at = bullet.start("body") if bullet else 0
    out = []
    for part in re.finditer(r"[^｜]+", line[at:]):
        out += split_fields(part[0], no, at + part.start())
    return out


def _title_parts(title: str) -> tuple[str, str]:
    topic = re.split(r"\s*[·|:：]\s*", title)[0].strip() if re.search(r"[·|:：]", title) else title
    dates = [d.value for d in find_dates(title) if len(d.value) == 10]
    return topic, dates[-1] if dates else ""


def parse_brief(text: str) -> ParsedBrief:
    """Take a brief or note apart. Never fails: a text without structure comes back as header fields."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    start = _front_matter(lines)
    body = [""] * start + lines[start:]
    builder = _Builder(body)
    builder.run()
    title = next((h.text for h in builder.header if h.key in {"title", ""} and h.text), "")
    if not builder.header and builder.sections:
        title = builder.sections[0].title
    topic, date = _title_parts(title)
    kinds = {s.kind for s in builder.sections}
    layout = "B" if "handle" in kinds else "D" if kinds & {"summary", "source_total", "adjacent"} else ""
    footer = _take_footer(builder.sections)
    for f in (front_matter(lines) if start else {}).items():
        builder.header.append(Field(labels.FIELD_OF.get(f[0].lower(), f[0].lower()), f[0], f[1], 1, 0, 0))
    return ParsedBrief(lines, title, topic, date, language_of(text), layout, builder.header, builder.sections, footer)


def _take_footer(sections: list[Section]) -> list[Field]:
    """The last unindented paragraph of the last section when it reads like a signature or an integrity statement."""
    if not sections:
        return []
    last = sections[-1]
    pools = [p for p in (last.loose, last.entries[-1].fields if last.entries else []) if p]
    if not pools:
        return []
    pool = max(pools, key=lambda p: p[-1].line)
    line = pool[-1].line
    tail = [f for f in pool if f.line == line]
    text = " ".join(f"{f.label}{f.text}" for f in tail)
    own_line = not last.entries or last.entries[-1].line < line
    if not (own_line and labels.is_footer(text)):
        return []
    for f in tail:
        pool.remove(f)
    if last.entries and last.entries[-1].end_line == line:
        entry = last.entries[-1]
        kept = entry.text.split("\n")[: line - entry.line]
        while kept and not kept[-1].strip():
            kept.pop()
        entry.text, entry.end_line = "\n".join(kept), entry.line + max(len(kept) - 1, 0)
    return tail


def _front_matter(lines: list[str]) -> int:
    """Number of lines of a YAML front matter block, 0 when there is none."""
    if not lines or lines[0].strip() != "---":
        return 0
    for i, line in enumerate(lines[1:200], 1):
        if line.strip() in {"---", "..."}:
            return i + 1
    return 0


def front_matter(lines: list[str]) -> dict[str, str]:
    """`key: value` pairs of a leading front matter block; nested values are kept as text."""
    out: dict[str, str] = {}
    for line in lines[1 : max(_front_matter(lines) - 1, 1)]:
        m = re.match(r"^([\w -]+?)\s*:\s*(.*)$", line)
        if m and m[2].strip():
            out[m[1].strip()] = m[2].strip().strip("\"'")
    return out
