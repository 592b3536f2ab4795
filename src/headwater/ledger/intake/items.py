"""Cutting a note into items: the smallest parts that have an address of their own and usually speak of one work.

Headings cut; a list cuts when several of its points carry an identifier or link each. Every line is in exactly one item; a heading with
nothing but such a list below it is the title of the list's items.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from headwater.ledger.parse.ids import canonical_url, find_ids, find_links, find_sections, title_key

_HEAD = re.compile(r"^\s{0,3}(#{1,6})\s+(\S.*)$")
_MARK = re.compile(
    r"^\s{0,3}(?:\*\*)?(?P<mark>§[A-Z]?\d+(?:\.\d+)*|"
    r"对象[一二三四五六七八九十]|第[一二三四五六七八九十\d]+[条份]|object (?:one|two|three|\d+)|entry \d+)"
    r"[:：.、\s]+(?P<rest>.*)$",
    re.IGNORECASE,
)
_WORD = re.compile(r"[\w.~/-]+", re.ASCII)
_POINT = re.compile(r"^(?P<pad>\s*)(?:[-*+•●]|\d{1,3}[.、)])\s+\S")
_ADDRESS = re.compile(
    r"§\s*[A-Z]?\d[\w.()（）]*|对象[一二三四五六七八九十]|第[一二三四五六七八九十\d]+[条份]|object (?:one|two|three|four|five|\d+)|entry \d+",
    re.IGNORECASE,
)
LIMIT = 64 * 1024


@dataclass(slots=True)
class Chunk:
    """A part of a note: lines are 1-based and inclusive; heading is the title line it stands under."""

    address: str
    heading: str
    line: int
    end_line: int
    text: str


def address_of(text: str, fallback: str) -> str:
    """The mark a heading names (`§A1`, `对象一`), or a fallback."""
    m = _ADDRESS.search(text)
    return m[0].replace(" ", "") if m and m[0].startswith("§") else m[0] if m else fallback


def cut(lines: list[str], first: int = 1) -> list[Chunk]:
    """Cut a note. first: number of the first line (after front matter)."""
    chunks: list[Chunk] = []
    heading, start, trail = "", 0, [""]
    for i, line in enumerate([*lines, "# "]):
        head = _HEAD.match(line) or (None if i == len(lines) else _MARK.match(line))
        if i < len(lines) and not head:
            continue
        body = lines[start:i]
        if any(b.strip() for b in body):
            chunks += _points(body, heading, first + start, len(chunks), " / ".join(t for t in trail if t))
        if i < len(lines) and head:
            level = len(head[1]) if head.re is _HEAD else 6
            heading = (head[2] if head.re is _HEAD else line).strip().rstrip("#").strip("* ")
            trail = [*trail[:level], *[""] * (level - len(trail)), heading][: level + 1]
            start = i
    return chunks


def _points(body: list[str], heading: str, line: int, count: int, trail: str) -> list[Chunk]:
    """One chunk, or one per list point when at least two points carry an identifier or a link of their own."""
    starts = [i for i, b in enumerate(body) if (m := _POINT.match(b)) and len(m["pad"]) <= 2]
    bounds = [*starts, len(body)]
    texts = ["\n".join(body[a:b]) for a, b in pairwise(bounds)]
    rich = sum(bool(find_ids(t) or find_links(t)) for t in texts)
    if rich < 2 or _same_subject(texts):
        return [Chunk(address_of(heading, f"#{count + 1}"), trail, line, line + len(body) - 1, "\n".join(body))]
    out = []
    lead = body[: starts[0]]
    if any(b.strip() for b in lead[1:] if heading) or (lead and not heading and any(b.strip() for b in lead)):
        out.append(Chunk(address_of(heading, f"#{count + 1}"), trail, line, line + starts[0] - 1, "\n".join(lead)))
    base = address_of(heading, "")
    for k, (a, b) in enumerate(pairwise(bounds), 1):
        address = address_of(body[a], f"{base or '#' + str(count + 1)}.{k}")
        out.append(Chunk(address, trail, line + a, line + b - 1, "\n".join(body[a:b])))
    return out


def _same_subject(texts: list[str]) -> bool:
    """All points speak of one and the same identifier."""
    ids = {i.key for t in texts for i in find_ids(t) if i.kind in {"arxiv", "doi"}}
    return len(ids) == 1 and sum(bool(find_ids(t)) for t in texts) >= 1


def segments(text: str, limit: int = LIMIT) -> Iterator[tuple[int, str]]:
    """(offset, piece) of a long text, cut at line ends, or inside a line longer than the limit."""
    at = 0
    while at < len(text):
        stop = min(at + limit, len(text))
        if stop < len(text):
            cut_at = text.rfind("\n", at + 1, stop)
            stop = cut_at + 1 if cut_at > at else stop
        yield at, text[at:stop]
        at = stop


def work_keys(text: str) -> list[str]:
    """Keys of the works a text names: arXiv and DOI; a code repository or other link only when there is neither."""
    found = find_ids(text)
    strong = list(dict.fromkeys(i.key for i in found if i.kind in {"arxiv", "doi"}))
    if strong:
        return strong
    repos = list(dict.fromkeys(i.key for i in found if i.kind == "repo"))
    if repos:
        return repos
    return list(dict.fromkeys(f"url:{canonical_url(u.value)}" for u in find_links(text)))


def title_work(title: str) -> str:
    """Key of a work that has nothing but a title."""
    return f"title:{title_key(title)[:120]}"


def section_numbers(text: str) -> list[str]:
    """Section numbers of the living document a text names, without note addresses such as `A1`."""
    return list(dict.fromkeys(s.value for s in find_sections(text) if s.value[0].isdigit()))


def cited_files(text: str) -> list[str]:
    """Paths of note files a text names (`inbox/jay/2026-09-03-x.md`), each once; links are not files."""
    flat = text
    for link in find_links(text):
        flat = flat[: link.start] + " " * (link.end - link.start) + flat[link.end :]
    return list(dict.fromkeys(m[0] for m in _WORD.finditer(flat) if "/" in m[0] and m[0].endswith((".md", ".txt", ".xml", ".bib"))))
