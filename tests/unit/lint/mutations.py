"""Consistent changes of a brief that keep or remove its defects: identifiers renumbered, dates moved by months, items reordered."""

from __future__ import annotations

import random
import re

from headwater.ledger.lint import Finding
from headwater.ledger.lint.brief import read_brief
from headwater.ledger.parse.ids import find_ids

_ISO = re.compile(r"(?<!\d)(20\d\d)-(\d\d)(?:-(\d\d))?(?!\d)")
_SHORT = re.compile(r"(?<![\d.\-×/A-Za-z])(\d{1,2})([-/])(\d{1,2})(?![\d.\-×%~A-Za-z])")
_ID = re.compile(r"(?<![\d.])(\d{2})(\d{2})([.-])(\d{5})(?!\d)")
_LAST = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def renumber(text: str, seed: int) -> str:
    """Every arXiv number gets another one of the same month, everywhere (links and cards included)."""
    rng = random.Random(seed)
    numbers = sorted({m.value for m in find_ids(text) if m.kind == "arxiv"})
    fresh: dict[str, str] = {}
    for n in numbers:
        new = f"{n[:4]}.{rng.randint(50_000, 99_999):05d}"
        while new in fresh.values():
            new = f"{n[:4]}.{rng.randint(50_000, 99_999):05d}"
        fresh[n] = new
    return _ID.sub(lambda m: f"{m[1]}{m[2]}{m[3]}{fresh.get(f'{m[1]}{m[2]}.{m[4]}', f'{m[1]}{m[2]}.{m[4]}')[5:]}", text)


def move_months(text: str, months: int) -> str:
    """All dates and the months of all identifiers move by the same number of months."""

    def moved(year: int, month: int) -> tuple[int, int]:
        total = year * 12 + month - 1 + months
        return total // 12, total % 12 + 1

    def iso(m: re.Match[str]) -> str:
        if not 1 <= int(m[2]) <= 12:
            return m[0]
        y, mo = moved(int(m[1]), int(m[2]))
        return f"{y}-{mo:02d}" + (f"-{min(int(m[3]), _LAST[mo - 1]):02d}" if m[3] else "")

    def short(m: re.Match[str]) -> str:
        if not (1 <= int(m[1]) <= 12 and 1 <= int(m[3]) <= 31):
            return m[0]
        mo = moved(2026, int(m[1]))[1]
        day = min(int(m[3]), _LAST[mo - 1])
        return f"{mo:0{len(m[1])}d}{m[2]}{day:0{len(m[3])}d}"

    def number(m: re.Match[str]) -> str:
        if not 1 <= int(m[2]) <= 12:
            return m[0]
        y, mo = moved(2000 + int(m[1]), int(m[2]))
        return f"{y - 2000:02d}{mo:02d}{m[3]}{m[4]}"

    marks: list[str] = []

    def keep(m: re.Match[str]) -> str:
        marks.append(iso(m))
        return f"\x00{len(marks) - 1}\x00"

    out = _ID.sub(number, text)
    out = _ISO.sub(keep, out)
    out = _SHORT.sub(short, out)
    return re.sub(r"\x00(\d+)\x00", lambda m: marks[int(m[1])], out)


def reorder(text: str, seed: int) -> str:
    """Increments, adjacent rows and summary rows, contradictions, id lists and source lists in another order, ranks renumbered."""
    rng = random.Random(seed)
    lines = text.split("\n")
    brief = read_brief(text)
    for kind in ("increment", "contradiction", "carry_over", "rejection"):
        lines = _shuffle(lines, brief, kind, rng)
        brief = read_brief("\n".join(lines))
    return "\n".join(lines)


def _shuffle(lines: list[str], brief, kind: str, rng: random.Random) -> list[str]:  # type: ignore[no-untyped-def]
    items = brief.of(kind)
    if len(items) < 2 or len({i.line for i in items}) < len(items):
        return lines
    starts = [i.line for i in items]
    section_end = next(b for k, a, b in brief.sections if a <= starts[0] <= b)
    ends = [s - 1 for s in starts[1:]] + [min(section_end, len(lines))]
    blocks = [lines[a - 1 : b] for a, b in zip(starts, ends, strict=True)]
    order = list(range(len(blocks)))
    while order == sorted(order):
        rng.shuffle(order)
    out: list[str] = []
    for new, old in enumerate(order):
        block = list(blocks[old])
        rank, wanted = items[old].rank, items[new].rank
        if rank and wanted:
            block[0] = re.sub(rf"(?<!\d){re.escape(rank)}(?=[.、【\s])", wanted, block[0], count=1)
        out += block
    return lines[: starts[0] - 1] + out + lines[ends[-1] :]


def repair(text: str, finding: Finding) -> str:
    """The text with one finding mended the way an author would: the number set right, the date moved, the wrong half taken out."""
    lines = text.split("\n")
    n, span = finding.place.line - 1, finding.place.span
    line = lines[n]
    if span not in line:
        return text
    match finding.rule:
        case 47 if finding.expected.isdigit():
            mended = re.sub(r"\d+|[一二三四五六七八九]", finding.expected, span, count=1)
        case 47 if finding.expected.endswith("or the missing parts"):
            mended = re.sub(r"[（(][^（）()]*[）)]$", "", span)
        case 51 if finding.needs == "calendar":
            mended = re.sub(r"20\d\d-\d\d", re.findall(r"20\d\d-\d\d", finding.expected)[-1], span, count=1)
        case 48:
            lines[n] = line.replace(span, f"{span}（仅登记备查）", 1)
            return "\n".join(lines)
        case 50:
            if cited_for := re.search(r"is cited for (.+?), but", finding.message):
                lines[finding.related[-1].line - 1] += f" + {cited_for[1]}"  # the description was incomplete
            else:
                lines[n] = line.replace(span, "", 1)
            return "\n".join(lines)
        case 59 if "by version" in finding.message:
            lines[n] = re.sub(r"(\d{4}\.\d{5})(?!\d|v)", r"\1v3", line, count=1)
            return "\n".join(lines)
        case 49 | 21:
            mended = "" if len(span) < 40 and finding.rule == 49 and "code" in finding.message else None
            if mended is None:
                del lines[n]
                return "\n".join(lines)
        case _:
            mended = ""
    lines[n] = line.replace(span, mended, 1)
    return "\n".join(lines)
