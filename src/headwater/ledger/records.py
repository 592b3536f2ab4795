"""What the ledger stores: versioned, frozen records, one JSON line each. Entities after the specification's sections 1.1 to 1.5.

A record is never changed. Whatever changes is another record about the same thing; views fold them. Evidence levels have no field:
they are computed from `Reading` records (`headwater.ledger.evidence`).
"""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

SCHEMA = 1
Refs: TypeAlias = list[tuple[str, str]]


def fingerprint(*parts: object, size: int = 16) -> str:
    """Hex digest of the parts: the same facts give the same record id, so writing twice changes nothing."""
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False, sort_keys=True, default=str).encode()).hexdigest()[:size]


class Piece(BaseModel):
    """A part of a record."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Record(Piece):
    """Base of all records. v: schema version; at: ISO time from the clock the caller named; by: who or what wrote it."""

    v: Literal[1] = 1
    id: str
    at: str = ""
    by: str = ""

    def refs(self) -> Refs:
        """(role, key) pairs under which the index files this record."""
        return []

    def words(self) -> str:
        """Text for the full-text index, empty when the record is not searched."""
        return ""


class Source(Record):
    """A file or feed that was looked at. sha256 covers the bytes; encoding is what they were read as; flags say what was odd."""

    kind: Literal["source"] = "source"
    path: str
    producer: str
    source_kind: str
    timestamp: str = ""
    sha256: str
    size: int
    encoding: str = "utf-8"
    language: str = ""
    title: str = ""
    gist: str = ""
    topic: str = ""
    items: int = 0
    flags: list[str] = []

    def refs(self) -> Refs:
        return [("path", self.path), ("sha", self.sha256), ("source_kind", self.source_kind)]

    def words(self) -> str:
        return f"{self.path} {self.title}"


class Item(Record):
    """An addressable part of a source. address: `§A1`, `对象一`, `entry 2`, …; lines count from 1; text is quoted, never rewritten.

    instructions: quotes that address the reader with orders (data, never acted on). excerpt: the text is only the beginning.
    """

    kind: Literal["item"] = "item"
    source: str
    address: str = ""
    line: int = 1
    end_line: int = 1
    title: str = ""
    text: str = ""
    works: list[str] = []
    links: list[str] = []
    sections: list[str] = []
    instructions: list[str] = []
    excerpt: bool = False

    def refs(self) -> Refs:
        return [("source", self.source), *(("work", w) for w in self.works)]

    def words(self) -> str:
        return f"{self.title}\n{self.text}"


class Count(Piece):
    """A citation count as one service gave it on a date."""

    service: str
    count: int
    date: str = ""


class Work(Record):
    """One source's statement about a work's identity; a work's view is the union, with disagreements side by side.

    key: `arxiv:…`, `doi:…`, `repo:…`, `url:…`, `title:…`. basis of the affiliation: stated, inferred, none.
    """

    kind: Literal["work"] = "work"
    key: str
    title: str = ""
    authors: list[str] = []
    affiliation: str = ""
    affiliation_basis: Literal["stated", "inferred", "none"] = "none"
    venue: str = ""
    date: str = ""
    version: int | None = None
    category: str = ""
    code: str = ""
    weights: str = ""
    citations: list[Count] = []
    identifiers: list[str] = []
    source: str = ""
    item: str = ""

    def refs(self) -> Refs:
        from headwater.ledger.parse.ids import title_key

        out = [("key", self.key), *(("identifier", i) for i in self.identifiers)]
        return out + ([("title", title_key(self.title))] if self.title else [])

    def words(self) -> str:
        return f"{self.key} {self.title} {' '.join(self.authors)}"


class Same(Record):
    """Two keys name one work. reason: identifier, title, near_title."""

    kind: Literal["same"] = "same"
    key: str
    other: str
    reason: str

    def refs(self) -> Refs:
        return [("same", self.key), ("same", self.other)]


class Card(Record):
    """A paper card. fields keeps every label and text of the card; conflicts are found later, not repaired."""

    kind: Literal["card"] = "card"
    number: int
    work: str
    title: str = ""
    main_class: str = ""
    card_type: str = ""
    action: str = ""
    tldr: str = ""
    fields: dict[str, str] = {}
    source: str = ""

    def refs(self) -> Refs:
        return [("card", str(self.number)), ("work", self.work), ("source", self.source)]


class Amount(Piece):
    """A typed number: see `parse.quantity.Quantity`. definition: what the metric means when the text says so, else `unknown`."""

    raw: str
    low: float
    high: float
    unit: str = ""
    direction: int = 0
    bound: str = ""
    percentile: str = ""
    metric: str = ""
    definition: str = "unknown"
    measured: Literal["measured", "simulated", "unknown"] = "unknown"


class Setting(Piece):
    """Where a number holds; empty means the text does not say."""

    model: str = ""
    task: str = ""
    hardware: str = ""
    baseline: str = ""
    baseline_generation: str = ""
    context: str = ""
    batch: str = ""
    normalisation: str = ""


class Claim(Record):
    """What somebody reports about a work, with the quoted statement. amount is None for a claim that could not be typed.

    claim_kind: performance, quality, capability, mechanism, availability, version, event, opinion, thesis.
    """

    kind: Literal["claim"] = "claim"
    work: str
    statement: str
    claim_kind: str = "performance"
    amount: Amount | None = None
    setting: Setting = Setting()
    origin: str = "unknown"
    missing: list[str] = []
    boundary: str = ""
    source: str = ""
    item: str = ""

    def refs(self) -> Refs:
        return [("work", self.work), ("item", self.item)]

    def words(self) -> str:
        return f"{self.work} {self.statement}"


class Reading(Record):
    """Who read which form of a work, at which level, with the words relied on. The only thing that gives a claim its level.

    act: `opening` is the reading behind the claim's first report (one per claim), `reading` a later one.
    """

    kind: Literal["reading"] = "reading"
    claim: str
    work: str
    level: int = Field(ge=0, le=5)
    act: Literal["opening", "reading"]
    reader: str
    source: str = ""
    form: str = ""
    quote: str = ""

    def refs(self) -> Refs:
        return [("claim", self.claim), ("work", self.work)]


class Mention(Record):
    """A source names a work in a batch. claims: those it states first; retells: those it repeats. Never evidence by itself.

    origins: keys of where its content comes from (canonical links, `author:<work>`, text fingerprint).
    """

    kind: Literal["mention"] = "mention"
    batch: str
    work: str
    source: str
    item: str
    claims: list[str] = []
    retells: list[str] = []
    origins: list[str] = []
    relevance: int = 0

    def refs(self) -> Refs:
        return [
            ("batch_work", f"{self.batch}|{self.work}"), ("batch_source", f"{self.batch}|{self.source}"), ("work", self.work),
            *(("origin", o) for o in self.origins),
        ]


class Prediction(Record):
    """What must be seen, frozen before any run. tolerance is relative to the magnitude; `id` covers every field."""

    kind: Literal["prediction"] = "prediction"
    claim: str
    mechanism: str = ""
    metric: str = ""
    direction: int = 0
    magnitude: float | None = None
    tolerance: float = 0.25
    exactness: bool = False
    setting: dict[str, str] = {}
    companions: list[str] = []

    def refs(self) -> Refs:
        return [("claim", self.claim)]


class Binding(Record):
    """A claim and the experiment that tests it; an experiment name of empty means not testable here, with what is missing."""

    kind: Literal["binding"] = "binding"
    claim: str
    experiment: str
    prediction: str
    missing: list[str] = []

    def refs(self) -> Refs:
        return [("claim", self.claim), ("experiment", self.experiment)]


class Judgment(Record):
    """A typed answer about a subject; may lower a level or a status, never raise. cap: level that must not be exceeded."""

    kind: Literal["judgment"] = "judgment"
    subject: str
    question: str
    answer: str
    probability: float | None = None
    judge: str = ""
    cap: int | None = Field(default=None, ge=0, le=5)
    reason: str = ""

    def refs(self) -> Refs:
        return [("subject", self.subject)]


class Disposition(Record):
    """What became of a work or item in a batch: exactly one per batch and subject."""

    kind: Literal["disposition"] = "disposition"
    batch: str
    subject: str
    status: str
    reason: str = ""
    brief: str = ""
    number: str = ""

    def refs(self) -> Refs:
        return [("batch", self.batch), ("subject", self.subject)]


class Run(Record):
    """One execution of a bound experiment: environment, outcome, companion metrics and the verdict computed by code."""

    kind: Literal["run"] = "run"
    claim: str
    experiment: str
    prediction: str
    started: str = ""
    seconds: float = 0.0
    environment: dict[str, str] = {}
    outcome: dict[str, Any] = {}
    verdict: str
    verdict_kind: Literal["reproduction", "replication", "simulation"] = "replication"
    exceeded: bool = False
    differs: list[str] = []
    missing: list[str] = []
    reasons: list[str] = []

    def refs(self) -> Refs:
        return [("claim", self.claim), ("experiment", self.experiment)]


class Batch(Record):
    """A round: what was handed over, in which window, against which document. declared: files per producer; sources: how many source records the
    ledger had when the batch was opened, so that a resumed run takes the same ones."""

    kind: Literal["batch"] = "batch"
    name: str
    topic: str
    owner: str = ""
    language: str = "zh"
    layout: str = "D"
    generated: str = ""
    window_start: str = ""
    window_end: str = ""
    document: str = ""
    document_sha: str = ""
    document_note: str = ""
    document_ids: int = 0
    sources: int = 0
    declared: dict[str, int] = {}
    imported: bool = False
    title: str = ""
    source: str = ""

    def refs(self) -> Refs:
        return [("topic", self.topic), ("name", self.name)]


class Digested(Record):
    """A source went through the digest in a batch: marks progress, so that an interrupted run resumes."""

    kind: Literal["digested"] = "digested"
    batch: str
    source: str

    def refs(self) -> Refs:
        return [("source", self.source), ("batch", self.batch)]


class Done(Record):
    """A batch is complete."""

    kind: Literal["done"] = "done"
    batch: str
    counts: dict[str, int] = {}

    def refs(self) -> Refs:
        return [("batch", self.batch)]


class Anchor(Record):
    """A section of the living document as it stood: number, heading, hash and the ids it cites."""

    kind: Literal["anchor"] = "anchor"
    document: str
    number: str
    heading: str
    sha256: str
    line: int
    works: list[str] = []
    text: str = ""

    def refs(self) -> Refs:
        return [("document", self.document), *(("work", w) for w in self.works)]

    def words(self) -> str:
        return f"§{self.number} {self.heading}\n{self.text}"


class Queued(Record):
    """A line of the work queue. queue_kind: card, document, topic."""

    kind: Literal["queued"] = "queued"
    source: str
    queue_kind: str
    subject: str
    age_days: int | None = None
    flag: str = ""
    text: str = ""

    def refs(self) -> Refs:
        return [("source", self.source)]


class Flag(Record):
    """Something a person should look at: instruction-like text, a file that could not be read, a fallback that was taken."""

    kind: Literal["flag"] = "flag"
    subject: str
    flag: str
    text: str = ""

    def refs(self) -> Refs:
        return [("subject", self.subject), ("flag", self.flag)]


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


AnyRecord = Annotated[
    Source | Item | Work | Same | Card | Claim | Reading | Mention | Prediction | Binding | Judgment | Disposition | Run | Batch | Digested
    | Done | Anchor | Queued | Flag | Increment | Adjacent | Contradiction | Citable | CarryOver | Rejection | Handle | SourceLine
    | SummaryRow | Statement,
    Field(discriminator="kind"),
]
ADAPTER: TypeAdapter[Any] = TypeAdapter(AnyRecord)

FILE_OF: dict[str, str] = {
    "source": "sources", "item": "sources", "work": "works", "same": "works", "card": "works", "claim": "claims", "prediction": "claims",
    "binding": "claims", "reading": "readings", "judgment": "judgments", "disposition": "judgments", "run": "runs",
}
FILES = ("sources", "works", "readings", "claims", "judgments", "runs", "events")


def file_of(kind: str) -> str:
    """Name of the JSON-lines file for a kind of record."""
    return FILE_OF.get(kind, "events")
