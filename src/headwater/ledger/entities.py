"""Sources, items, works, claims, readings, judgments, runs, batches: the entities of the ledger, one JSON line each."""

# ruff: noqa: RUF012 (pydantic gives every record its own copy of a default)
from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from headwater.ledger.parse.ids import title_key
from headwater.ledger.record import Piece, Record, Refs


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
