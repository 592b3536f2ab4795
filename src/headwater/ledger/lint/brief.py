"""A brief as the rules see it: the ledger's structured parse, with wider headings and labels, names, sources and dates.

Foreign briefs call things differently; headings are first translated into the parser's words (line numbers stay true), labels are
looked up in a wider list. Every piece of text keeps its line and column, so that a finding can quote exactly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property

from headwater.ledger.lint import words
from headwater.ledger.lint.finding import Place
from headwater.ledger.lint.names import name_key, names_in
from headwater.ledger.lint.sourcelist import SourceList
from headwater.ledger.parse.brief import Entry, ParsedBrief, parse_brief
from headwater.ledger.parse.ids import arxiv_ids, find_dates, find_ids, narrow

_MD = re.compile(r"^(#{1,6})\s+(.*?)\s*#*\s*$")
_NO = re.compile(
    r"^(?:(?:part|section)\s+)?(?:(?P<cn>[一二三四五六七八九十]{1,3})\s*[、.．]|（[一二三四五六七八九十]{1,3}）|"
    r"(?P<roman>[IVX]{1,4})\s*[.、:)]|(?P<num>\d{1,2})\s*[.、)]|"
    r"(?P<en>one|two|three|four|five|six|seven|eight|nine|ten)\s*[—–:.-]|(?P<letter>[A-H])\s*[.、)])\s*(?P<rest>\S.*)$",
    re.IGNORECASE,
)
_ITEM_HEAD = re.compile(r"^(?:增量|条目|Increment|Item|Entry)\s*(?:No\.?\s*|#\s*)?\d", re.IGNORECASE)
_TABLE_HEAD = re.compile(r"^#\s+(?:条目|项目|名称|item|entry|name)\b", re.IGNORECASE)
_BULLET = re.compile(r"^\s*(?:[•●▪*+\-–·✅☑✓>]+\s+|\d{1,3}[.、)）]\s*)*")
_BOLD_ITEM = re.compile(r"^(?:\*\*|__)(?P<no>\d{1,2})[.、)）]\s*(?P<title>.+?)(?:\*\*|__)\s*$")
_GROUP_LINE = re.compile(r"^(?![\s•●▪*+|#>-])[^。；;|]{2,60}[（(]\s*\w+\s*(?:个|条|篇)?\s*[)）]\s*[:：]?\s*$")
_SPLIT_TITLE = re.compile(r"[：:]|——|\s[—–]\s|\s-\s")
_GENERATED = re.compile(
    r"(?:生成(?:时间|于)?|generated(?: at| on)?|written at|compiled(?: at)?)[*_\s]*[：:]?[*_\s]*(?P<d>20\d\d-\d\d-\d\d)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Piece:
    """Text with its place: lines[line - 1][start:start + len(text)] == text. key: canonical label or empty."""

    line: int
    start: int
    text: str
    key: str = ""

    def place(self, span: str | None = None) -> Place:
        """Where this piece (or the part of it that reads `span`) stands."""
        return Place(self.line, (span if span is not None else self.text).strip())


@dataclass
class Item:
    """An entry of a section. names: what it is about; ids: identifiers of its heading, or of all of it when that has none."""

    kind: str
    rank: str
    title: str
    line: int
    end_line: int
    group: str
    mark: str
    pieces: list[Piece]
    names: list[str]
    ids: list[str]

    @property
    def place(self) -> Place:
        """Where the item begins: its title, else its first piece."""
        title = self.title.strip()[:120]
        return Place(self.line, title) if title or not self.pieces else self.pieces[0].place(self.pieces[0].text[:120])

    def get(self, *keys: str) -> list[Piece]:
        """Pieces under one of these labels."""
        return [p for p in self.pieces if p.key in keys]

    @property
    def text(self) -> str:
        return "\n".join(p.text for p in self.pieces)

    @cached_property
    def name_keys(self) -> set[str]:
        return {name_key(n) for n in self.names}


@dataclass
class Brief:
    """One file under inspection. name: file name as given. lines: without line ends, line 1 first."""

    name: str
    lines: list[str]
    parsed: ParsedBrief
    headings: dict[int, str] = field(default_factory=dict)

    @cached_property
    def items(self) -> list[Item]:
        return [self._item(e) for _, e in self.parsed.walk() if e.line <= len(self.lines)]

    def of(self, *kinds: str) -> list[Item]:
        """Items of these kinds, in text order."""
        return [i for i in self.items if i.kind in kinds]

    @cached_property
    def sections(self) -> list[tuple[str, int, int]]:
        """(kind, first line, last line) of every section; lines before the first are `header`."""
        cuts = [(s.kind, s.line) for s in self.parsed.sections]
        if not cuts:
            return [("header", 1, len(self.lines))]
        ends = [line - 1 for _, line in cuts[1:]] + [len(self.lines)]
        head = [("header", 1, cuts[0][1] - 1)] if cuts[0][1] > 1 else []
        return head + [(k, a, b) for (k, a), b in zip(cuts, ends, strict=True)]

    def kind_at(self, line: int) -> str:
        """Section kind of a line; the signature or integrity statement at the end is `footer`."""
        if line == self.footer_line or any(f.line == line for f in self.parsed.footer):
            return "footer"
        return self._kinds.get(line, "other")

    @cached_property
    def _kinds(self) -> dict[int, str]:
        return {n: k for k, a, b in reversed(self.sections) for n in range(a, b + 1)}

    @cached_property
    def footer_line(self) -> int:
        """The last line when it reads like a signature or an integrity statement, else 0."""
        last = max((n for n, _ in self.text_lines()), default=0)
        text = self.lines[last - 1] if last else ""
        signed = not text[:1].isspace() and not re.match(r"[•●▪*+\-–|#✅\d]", text) and words.FOOTER.search(text)
        return last if signed and len(self.parsed.sections) > 1 else 0

    def item_at(self, line: int) -> Item | None:
        """The innermost item that contains a line."""
        return self._owners.get(line)

    @cached_property
    def _owners(self) -> dict[int, Item]:
        return {n: i for i in self.items for n in range(i.line, i.end_line + 1)}

    def text_lines(self) -> Iterator[tuple[int, str]]:
        """(line number, text) of every non-blank line."""
        return iter(self._text_lines)

    @cached_property
    def _text_lines(self) -> list[tuple[int, str]]:
        return [(n, t) for n, t in enumerate(self.lines, 1) if t.strip()]

    @cached_property
    def ids(self) -> list[tuple[int, str, int, int]]:
        """(line, arXiv number, start, end) of every mention, links and cards included."""
        return [(n, m.value, m.start, m.end) for n, t in self.text_lines() for m in find_ids(t) if m.kind == "arxiv"]

    @cached_property
    def date(self) -> date | None:
        """The day the brief speaks for: the title's, else the one it was generated on."""
        for text in [t for _, t in self.text_lines()][:3]:
            full = [d.value for d in find_dates(text) if len(d.value) == 10]
            if full:
                return _day(full[0])
        m = next((m for t in self.lines[:40] if (m := _GENERATED.search(t))), None)
        return _day(m["d"]) if m else None

    @cached_property
    def language(self) -> str:
        return self.parsed.language

    @cached_property
    def sources(self) -> SourceList:
        return SourceList.of(self)

    @cached_property
    def works(self) -> dict[str, str]:
        """Short name by arXiv number, from headings and id lists (`2608.1 — Name: title`, `Name: title（2608.1）`)."""
        out: dict[str, str] = {}
        for n, text in self.text_lines():
            del n
            for m in find_ids(text):
                if m.kind == "arxiv" and m.value not in out and (name := _name_beside(text, m.start, m.end)):
                    out[m.value] = name
        return out

    def name_of(self, number: str) -> str:
        return self.works.get(number, number)

    def subject(self, item: Item) -> str:
        """How a message should call an item."""
        return item.names[0] if item.names else (item.rank or item.title[:24])

    def _item(self, entry: Entry) -> Item:
        raw = self.lines[entry.line - 1]
        flattened = bool(entry.fields) and entry.kind == "citable" and entry.line == entry.end_line and entry.fields[0].start > 4
        if flattened:
            f = entry.fields[0]
            pieces = [Piece(entry.line, f.start, raw[f.start : f.end])]
            title = pieces[0].text
        else:
            pieces = list(self._pieces(entry.line, entry.end_line))
            title = entry.title
        heading = f"{entry.tag} {title}"
        ids = arxiv_ids(heading) or list(dict.fromkeys(i for p in pieces for i in arxiv_ids(p.text)))
        return Item(
            entry.kind,
            entry.rank,
            title,
            entry.line,
            entry.end_line,
            entry.group,
            entry.mark,
            pieces,
            self._subjects(title, ids),
            ids,
        )

    def _subjects(self, title: str, ids: list[str]) -> list[str]:
        head = _SPLIT_TITLE.split(_BULLET.sub("", title), maxsplit=1)[0]
        found = [n.text for n in names_in(head)] or [n.text for n in names_in(title)]
        found += [self.works[i] for i in ids if i in self.works]
        return list(dict.fromkeys(found))

    def _pieces(self, first: int, last: int) -> Iterator[Piece]:
        """The lines of an entry cut at labels; bullets below a bare label belong to it."""
        inherited = ""
        for n in range(first, last + 1):
            text = self.lines[n - 1]
            if not text.strip():
                continue
            cuts = list(labels_in(text))
            lead = _BULLET.match(text)
            at = lead.end() if lead else 0
            if not cuts or cuts[0][0] > at:
                stop = cuts[0][0] if cuts else len(text)
                if text[at:stop].strip():
                    yield Piece(n, at, text[at:stop].rstrip(), inherited if n > first else "title")
            for k, (_, body, key) in enumerate(cuts):
                stop = cuts[k + 1][0] if k + 1 < len(cuts) else len(text)
                value = text[body:stop]
                if value.strip():
                    yield Piece(n, body + len(value) - len(value.lstrip()), value.strip(), key)
                    inherited = inherited if key in {"links", "source", "venue", "authors", "grade", "status", "level"} else key
                else:
                    inherited = key


def labels_in(text: str) -> Iterator[tuple[int, int, str]]:
    """(label start, value start, canonical key) of every label in a line; most labels count only at the line's beginning."""
    lead = _BULLET.match(text)
    begin = lead.end() if lead else 0
    for m in words.LABEL.finditer(text):
        key = m.lastgroup or ""
        if text[begin : m.start()].strip(" \t*_") and key not in words.MIDLINE_LABELS:
            continue
        yield m.start(), m.end(), key


def _name_beside(text: str, start: int, end: int) -> str:
    """The name written next to an identifier: after a dash (`id — Name: …`) or right before its bracket (`Name: title（id）`)."""
    after = re.match(r"(?:v\d+)?\s*[)）]?\s*(?:—|–|-|:|：)+\s*(?=[A-Za-z])", text[end:])
    if after:
        head = _SPLIT_TITLE.split(text[end + after.end() : end + after.end() + 80], maxsplit=1)[0]
        found = names_in(head)
        if found and found[0].start == 0:
            return found[0].text
    short = re.match(r"\s+(?=[A-Z])", text[end:])
    if (short and text[:start].rstrip().lower().endswith("arxiv:")) or short:
        found = names_in(text[end : end + 40])
        if found and found[0].start <= 1 and re.match(r"[\s]*(?:$|[,，;；+)）·（(])", text[end + found[0].end :]):
            return found[0].text
    before = re.search(r"(?P<head>[^。；;•]*?)\s*[（(]\s*(?:arXiv\s*[:：]\s*)?$", text[:start])
    if before:
        head = re.sub(r"^.*(?:①|②|③|④|⑤|\s-\s)", "", before["head"])
        found = names_in(_SPLIT_TITLE.split(head, maxsplit=1)[0] if _SPLIT_TITLE.search(head) else head)
        if found:
            return found[-1].text if len(found) == 1 or not _SPLIT_TITLE.search(head) else found[0].text
        last = re.split(r"[、，,：:]|和|与|\band\b", before["head"])[-1].strip()
        found = names_in(last)
        if len(found) == 1 and found[0].text == last:  # one of a list: `read four: A（id）、B（id）`
            return found[0].text
    near = re.search(r"(?P<head>[^。；;•（）()]*?)\s+(?:arXiv\s*[:：]\s*)?$", text[:start])
    if near:
        found = names_in(near["head"])
        if found and found[-1].end == len(near["head"].rstrip()):
            return found[-1].text
    return ""


def _day(text: str) -> date | None:
    try:
        return datetime.strptime(text, "%Y-%m-%d").date()
    except ValueError:
        return None


def heading_kind(title: str) -> str:
    """Canonical section kind of a heading in free words, empty when none fits."""
    flat = narrow(title).strip(" *_#:：")
    return next((kind for kind, pattern in words.SECTION_WORDS if pattern.search(flat)), "")


def _translate(lines: list[str]) -> tuple[list[str], dict[int, str]]:
    """Headings rewritten in the parser's words. Returns the lines to parse and the original headings by line number."""
    out, seen = [], {}
    depth = 99  # Markdown level of the open increments section
    current = ""
    for n, line in enumerate(lines, 1):
        around = (lines[n - 2] if n > 1 else "", lines[n] if n < len(lines) else "")
        kind, level, rest = _section_heading(line, around, current, depth) if n > 1 else ("", 0, "")  # line 1 is the title
        if kind:
            depth, current = level, kind
            seen[n] = line
            out.append(f"## {words.CANONICAL_TITLE[kind]}")
        elif current == "increment" and level > depth and rest and not re.match(r"\s*\d", rest) and not _ITEM_HEAD.match(rest):
            seen[n] = line  # a Markdown sub-heading without a number opens an item as well
            out.append(f"{'#' * level} 0. {rest}" if not _only_label(rest) else rest)
        elif current == "increment" and (bold := _BOLD_ITEM.match(line)):
            out.append(f"{bold['no']}. {bold['title']}")
        elif current == "citable" and _GROUP_LINE.match(line) and re.match(r"\s*[•●▪*+-]\s", around[1]):
            out.append(f"### {line.strip().rstrip(':：')}")
        else:
            out.append(line)
    return out, seen


def _only_label(text: str) -> bool:
    m = words.LABEL.match(text.strip() + ":")
    return bool(m and m.end() >= len(text.strip()))


def _section_heading(line: str, around: tuple[str, str], current: str, depth: int) -> tuple[str, int, str]:
    """(kind, level, rest): kind is empty when the line opens no known section; level is Markdown's, 2 for plain headings."""
    if _TABLE_HEAD.match(line) or line[:1].isspace() or len(line) > 140:
        return "", 0, ""
    md = _MD.match(line)
    body = (md[2] if md else line).strip().strip("*_").strip()
    level = len(md[1]) if md else 2
    if not body or _ITEM_HEAD.match(body):
        return "", level if md else 0, body
    numbered = _NO.match(body)
    title = numbered["rest"] if numbered else body
    if md:
        return ("" if current == "increment" and level > depth else heading_kind(title)), level, body
    if numbered and (numbered["cn"] or numbered["roman"] or numbered["en"]):
        return heading_kind(title), 2, body
    before, after = around
    if before.strip() or re.search(r"[。；;.!?]\s*$|[：:].*\S", title) or not _wordy(title):
        return "", 0, body  # a plain line is a heading only when short, alone and without a sentence's end
    kind = heading_kind(title)
    bold = line.lstrip().startswith("**")
    if numbered:  # `3. Main increments`, but not the first item of the increments
        opens = not after.strip() or (after[:1].isspace() and current != "increment")
        return (kind if opens and (current != "increment" or kind != "increment") else ""), 2, body
    if re.match(r"[•●▪*+\-–|✅>\d]", body) or (
        current == "increment" and not bold and kind not in {"included", "not_included", "carry_over"}
    ):
        return "", 0, body
    return kind, 2, body


def _wordy(title: str) -> bool:
    """Short enough to be nothing but a heading."""
    han = sum("\u4e00" <= c <= "\u9fff" for c in title)
    return len(title.split()) <= 7 and han <= 24


def read_brief(text: str, name: str = "") -> Brief:
    """Parse any brief or note. Never fails: a text without structure has no items, and the rules that need none still run."""
    lines = text.split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    translated, headings = _translate(lines)
    return Brief(name, lines, parse_brief("\n".join(translated)), headings)


def quote(text: str, start: int, end: int) -> str:
    """The exact characters of a span, without surrounding blanks."""
    return text[start:end].strip()
