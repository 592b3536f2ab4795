"""Ledger folders under the same rules: records are read line by line, without the store, the index or a lock.

A finding's file is the JSON-lines file, its line the record, its span the text or field at fault.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwater.core.errors import FormatError
from headwater.ledger.lint import words
from headwater.ledger.lint.brief import read_brief
from headwater.ledger.lint.finding import Finding, Place
from headwater.ledger.lint.registry import all_checks
from headwater.ledger.parse.ids import ArxivId, title_key

# rules that look at one text alone, with the kinds of records and the fields that hold text
_TEXT_RULES = (13, 44, 45, 54, 55, 58, 59, 61)
_TEXT_FIELDS = {"claim": "statement", "increment": "text", "contradiction": "text", "adjacent": "text", "handle": "text"}


@dataclass(frozen=True, slots=True)
class Row:
    """One record with its place."""

    file: str
    line: int
    data: dict[str, Any]

    @property
    def kind(self) -> str:
        return str(self.data.get("kind", ""))

    def text(self, field: str) -> str:
        value = self.data.get(field, "")
        return value if isinstance(value, str) else ""

    def place(self, field: str) -> Place:
        """The value of a field as the quoted span."""
        value = self.data.get(field, "")
        return Place(self.line, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def ledger_files(folder: Path) -> list[Path]:
    """The JSON-lines files of a ledger folder (or of its `records` folder); empty when it is none."""
    for home in (folder / "records", folder):
        files = sorted(home.glob("*.jsonl"))
        if files:
            return files
    return []


def read_rows(path: Path) -> Iterator[Row]:
    """Records of one file. Raises FormatError naming file and line for what is no JSON object; an unfinished last line is left alone."""
    with path.open("rb") as stream:
        for number, raw in enumerate(stream, 1):
            if not raw.strip():
                continue
            try:
                data = json.loads(raw)
            except (ValueError, RecursionError):
                if not raw.endswith(b"\n"):
                    return  # a writer was interrupted here; the ledger repairs it on its next write
                raise FormatError(f"{path}: line {number} is not a JSON record", field=str(path)) from None
            if not isinstance(data, dict):
                raise FormatError(f"{path}: line {number} is not a JSON object", field=str(path))
            yield Row(str(path), number, data)


def lint_ledger(paths: Iterable[Path], rules: set[int]) -> Iterator[Finding]:
    """Findings over all records of a ledger."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for path in paths:
        for row in read_rows(path):
            if rules & set(_TEXT_RULES):
                yield from _text_findings(row, rules)
            if row.kind in {"work", "same", "card", "disposition", "reading", "increment", "contradiction", "claim", "source"}:
                groups[row.kind].append(row)
    checks = (
        (13, _identifiers),
        (20, _titles),
        (21, _cards),
        (33, _boundaries),
        (42, _readings),
        (48, _dispositions),
        (51, _dates),
        (57, _grades),
    )
    for number, check in checks:
        if number in rules:
            for row, finding in check(groups):
                yield dataclasses.replace(finding, file=row.file)


def _text_findings(row: Row, rules: set[int]) -> Iterator[Finding]:
    field = _TEXT_FIELDS.get(row.kind)
    text = row.text(field) if field else ""
    if not text:
        return
    brief = read_brief(text)
    for number in _TEXT_RULES:
        if number in rules:
            for run in all_checks().get(number, ()):
                for f in run(brief):
                    related = tuple(Place(row.line, p.span) for p in f.related)
                    yield dataclasses.replace(f, file=row.file, place=Place(row.line, f.place.span), related=related)


Found = Iterator[tuple[Row, Finding]]


def _identifiers(groups: dict[str, list[Row]]) -> Found:
    for row in groups["work"]:
        m = re.fullmatch(r"arxiv:(\d{4})\.(\d+)", row.text("key"))
        if m and not (1 <= int(m[1][2:]) <= 12 and len(m[2]) == (5 if int(m[1]) >= 1501 else 4)):
            yield row, Finding(13, row.place("key"), f"{row.text('key')} is no arXiv identifier", "yymm.number, month 01 to 12")


def _tokens(title: str) -> set[str]:
    return {w.lower() for w in re.findall(r"[A-Za-z0-9]{2,}", title)} - {
        "the",
        "of",
        "for",
        "and",
        "with",
        "in",
        "on",
        "to",
        "by",
        "an",
        "via",
    }


def _flagged(groups: dict[str, list[Row]], *titles: str) -> bool:
    """A contradiction record keeps these titles side by side, or one of them is a sentence about a link and no title."""
    if any("://" in t for t in titles):
        return True
    return any(all(t in str(row.data.get("parties")) for t in titles) for row in groups["contradiction"] if row.text("conflict") == "title")


def _titles(groups: dict[str, list[Row]]) -> Found:
    """One key under two unrelated titles; one title under two keys that no `same` record joins."""
    joined = {frozenset((r.text("key"), r.text("other"))) for r in groups["same"]}
    by_key: dict[str, Row] = {}
    by_title: dict[str, Row] = {}
    for row in groups["work"]:
        key, title = row.text("key"), row.text("title")
        a = _tokens(title)
        if len(a) < 3:
            continue
        first = by_key.setdefault(key, row)
        b = _tokens(first.text("title"))
        if first is not row and len(a & b) / min(len(a), len(b)) < 0.34 and not _flagged(groups, title, first.text("title")):
            yield (
                row,
                Finding(
                    20,
                    row.place("title"),
                    f'{key} is "{title}" here and "{first.text("title")}" in line {first.line}',
                    "one title per work, the mis-attached one flagged",
                    (first.place("title"),),
                ),
            )
        other = by_title.setdefault(title_key(title), row)
        if (
            other.text("key") != key
            and frozenset((key, other.text("key"))) not in joined
            and all(k.startswith("arxiv:") for k in (key, other.text("key")))
        ):
            yield (
                row,
                Finding(
                    20,
                    row.place("title"),
                    f'"{title}" is {key} here and {other.text("key")} in line {other.line}',
                    "one identifier per title, or a `same` record",
                    (other.place("title"),),
                ),
            )


def _cards(groups: dict[str, list[Row]]) -> Found:
    first: dict[str, Row] = {}
    reported = {str(w) for row in groups["contradiction"] if row.text("conflict") == "duplicate_cards" for w in row.data.get("works") or []}
    for row in groups["card"]:
        work = row.text("work")
        other = first.setdefault(work, row)
        if work and work not in reported and other.data.get("number") != row.data.get("number"):
            yield (
                row,
                Finding(
                    21,
                    row.place("work"),
                    f"cards {other.data.get('number')} and {row.data.get('number')} are both for {work}",
                    "one card per work",
                    (other.place("work"),),
                ),
            )


def _boundaries(groups: dict[str, list[Row]]) -> Found:
    read = {row.text("claim") for row in groups["reading"]}  # for these a boundary is derived wherever they are printed
    for row in groups["increment"]:
        claims = row.data.get("claims")
        if claims and not row.text("boundary") and not (isinstance(claims, list) and read.issuperset(map(str, claims))):
            yield (
                row,
                Finding(
                    33,
                    row.place("title"),
                    "an increment with claims and no boundary sentence",
                    "the boundary travels with the claim",
                ),
            )


def _readings(groups: dict[str, list[Row]]) -> Found:
    """A claim has one opening reading; a later one names who read what."""
    opened: dict[str, Row] = {}
    for row in groups["reading"]:
        claim = row.text("claim")
        if row.text("act") == "opening":
            first = opened.setdefault(claim, row)
            if first is not row:
                yield (
                    row,
                    Finding(
                        42,
                        row.place("claim"),
                        f"a second opening reading of {claim} (first in line {first.line})",
                        "a retelling opens nothing; record a mention",
                        (first.place("claim"),),
                    ),
                )
        elif not row.text("reader") or not (row.text("form") or row.text("source")):
            yield (
                row,
                Finding(
                    42,
                    row.place("claim"),
                    "a later reading that does not say who read which form",
                    "reader and form (or source) of the reading",
                ),
            )


def _dispositions(groups: dict[str, list[Row]]) -> Found:
    first: dict[tuple[str, str], Row] = {}
    for row in groups["disposition"]:
        key = (row.text("batch"), row.text("subject"))
        other = first.setdefault(key, row)
        if other is not row and other.text("status") != row.text("status"):
            yield (
                row,
                Finding(
                    48,
                    row.place("subject"),
                    f"{key[1]} is {row.text('status')} here and {other.text('status')} in line {other.line}",
                    "one disposition per batch and subject",
                    (other.place("subject"),),
                ),
            )


def _dates(groups: dict[str, list[Row]]) -> Found:
    """A first version dated outside the month of its identifier."""
    for row in groups["work"]:
        m = re.fullmatch(r"arxiv:(\d{4}\.\d{5})", row.text("key"))
        stated = re.match(r"(20\d\d)-(\d\d)", row.text("date"))
        month = ArxivId(m[1]).month if m else None
        if month and stated and row.data.get("version") == 1:
            months = (int(stated[1]) - month[0]) * 12 + int(stated[2]) - month[1]
            near = months == -1 and re.match(r"20\d\d-\d\d-(2[5-9]|3[01])", row.text("date"))
            if months and not near:
                yield (
                    row,
                    Finding(
                        51,
                        row.place("date"),
                        f"{row.text('key')} is of {month[0]}-{month[1]:02d}, its v1 is dated {row.text('date')}",
                        f"{month[0]}-{month[1]:02d}",
                        (row.place("key"),),
                        "calendar",
                    ),
                )


def _grades(groups: dict[str, list[Row]]) -> Found:
    """A grade of 4 or 5 whose only reasons are storage, citations or affiliation."""
    for row in groups["increment"]:
        for grade in row.data.get("credibility") or []:
            up = [str(u) for u in grade.get("up") or []] if isinstance(grade, dict) else []
            weak = [
                u
                for u in up
                if words.STORED.search(u)
                or words.CITED.search(u)
                or re.search(r"card|stored|cited|citations|affiliation", u, re.IGNORECASE)
            ]
            if up and len(weak) == len(up) and (grade.get("grade") or 0) >= 4:
                yield (
                    row,
                    Finding(
                        57,
                        Place(row.line, ", ".join(up)),
                        "storage, citations or affiliation alone raise a grade",
                        "reasons about the evidence",
                        (row.place("title"),),
                    ),
                )
