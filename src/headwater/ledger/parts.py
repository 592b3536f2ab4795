"""What a brief is made of: increments, adjacent items, contradictions, id lines, and the rest. Texts that are ours are codes here.

The digest of our own rounds and the import of foreign briefs write the same parts, so that one renderer serves both.
"""

# ruff: noqa: RUF012 (pydantic gives every record its own copy of a default)
from __future__ import annotations

from typing import Literal

from headwater.ledger.record import Piece, Record, Refs


class Quote(Piece):
    """A labelled text kept as written."""

    key: str = ""
    label: str = ""
    text: str


class Grade(Piece):
    """Credibility of one aspect, 1..5, with reason codes on both sides; words keeps what a foreign brief said."""

    aspect: str = "source"
    grade: int | None = None
    words: str = ""
    up: list[str] = []
    down: list[str] = []


class Part(Record):
    """Base of what a brief is made of. brief: batch name or imported brief; order: place in it."""

    brief: str
    order: int = 0
    works: list[str] = []
    text: str = ""

    def refs(self) -> Refs:
        return [("brief", self.brief), *(("work", w) for w in self.works)]

    def words(self) -> str:
        return self.text


class Increment(Part):
    """A main item. claims: ids of claims (levels are computed when printed); fields: labelled texts kept as written."""

    kind: Literal["increment"] = "increment"
    rank: int
    title: str
    date: str = ""
    tag: str = ""
    flag: str = ""
    sources: list[Quote] = []
    links: list[Quote] = []
    fields: list[Quote] = []
    claims: list[str] = []
    credibility: list[Grade] = []
    relation: list[str] = []
    sections: list[str] = []
    form: str = ""
    status: str = "net_new"
    status_text: str = ""
    priority: str = ""
    stars: int | None = None
    boundary: str = ""
    missing: list[str] = []
    independent: int = 0

    def words(self) -> str:
        return f"{self.title}\n{self.text}"


class Adjacent(Part):
    """A row of the table of adjacent items."""

    kind: Literal["adjacent"] = "adjacent"
    rank: str
    title: str
    identifier: str = ""
    source: str = ""
    status: str = "adjacent"
    status_text: str = ""
    section: str = ""
    stars: int | None = None


class Contradiction(Part):
    """Something that does not fit. parties, consequence and action are texts; both sides are always printed."""

    kind: Literal["contradiction"] = "contradiction"
    rank: int
    conflict: str = "other"
    title: str = ""
    parties: list[str] = []
    reason: str = ""
    consequence: str = ""
    action: str = ""
    priority: str = ""
    sections: list[str] = []


class Citable(Part):
    """A line of the id list."""

    kind: Literal["citable"] = "citable"
    group: str = ""
    rank: str = ""
    title: str = ""
    note: str = ""


class CarryOver(Part):
    """A work from an earlier brief that is not settled. state: pending, anchored, declined; first_seen: brief and date."""

    kind: Literal["carry_over"] = "carry_over"
    title: str
    state: str = "pending"
    first_seen: str = ""
    first_brief: str = ""
    age_days: int | None = None


class Rejection(Part):
    """Something checked that became no increment, with the reason and, for a duplicate, the brief and number."""

    kind: Literal["rejection"] = "rejection"
    title: str
    status: str = ""
    reason: str = ""
    source: str = ""
    ref_brief: str = ""
    ref_number: str = ""


class Handle(Part):
    """One of at most three pieces of advice for the evening. advice: repair, anchor, read; subject: what it is about."""

    kind: Literal["handle"] = "handle"
    rank: int
    repair: bool = False
    advice: str = ""
    subject: str = ""
    sections: list[str] = []


class SourceLine(Part):
    """A source as the brief lists it. verdict: included, not_included or empty (description only); found: works by disposition."""

    kind: Literal["source_line"] = "source_line"
    group: str = ""
    path: str = ""
    producer: str = ""
    source_kind: str = ""
    timestamp: str = ""
    gist: str = ""
    yielded: int | None = None
    salience: int | None = None
    verdict: str = ""
    reason: str = ""
    found: dict[str, int] = {}


class SummaryRow(Part):
    """A row of the closing table of a foreign brief; our own table is generated from increments and adjacent items."""

    kind: Literal["summary_row"] = "summary_row"
    rank: str
    title: str
    section: str = ""
    stars: int | None = None
    status_text: str = ""


class Statement(Part):
    """A sentence of a brief that is not an entry: nature, purpose, convention, counts as stated, comparison, footer, …; values of a
    sentence that is ours and is worded when printed."""

    kind: Literal["statement"] = "statement"
    key: str
    label: str = ""
    values: dict[str, str] = {}
