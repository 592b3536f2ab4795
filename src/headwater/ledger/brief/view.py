"""What a brief shows: the parts of one batch, loaded from the ledger, with levels computed and counters counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TypeVar

from headwater.core.errors import UserInputError
from headwater.ledger.evidence import level_of
from headwater.ledger.parse.ids import arxiv_ids
from headwater.ledger.records import (
    Adjacent,
    Batch,
    CarryOver,
    Citable,
    Claim,
    Contradiction,
    Done,
    Handle,
    Increment,
    Part,
    Rejection,
    SourceLine,
    Statement,
    SummaryRow,
)
from headwater.ledger.store import Ledger

P = TypeVar("P", bound=Part)


@dataclass(slots=True)
class View:
    """A brief before layout. claims and levels are keyed by claim id; language may differ from the batch's."""

    batch: Batch
    language: str
    increments: list[Increment]
    adjacent: list[Adjacent]
    contradictions: list[Contradiction]
    citable: list[Citable]
    carried: list[CarryOver]
    rejections: list[Rejection]
    handles: list[Handle]
    sources: list[SourceLine]
    rows: list[SummaryRow]
    statements: list[Statement]
    claims: dict[str, Claim] = field(default_factory=dict)
    levels: dict[str, int] = field(default_factory=dict)

    @property
    def date(self) -> str:
        """Day of the brief."""
        return self.batch.generated[:10]

    @property
    def title_given(self) -> str:
        return self.batch.title

    def said(self, prefix: str) -> list[Statement]:
        """Statements whose key is `prefix` or begins with `prefix:`."""
        return [s for s in self.statements if s.key == prefix or s.key.startswith(prefix + ":")]

    def totals(self, verdict: str) -> list[SourceLine]:
        """Lines of the closing source lists."""
        return [s for s in self.sources if s.verdict == verdict]

    def net_new(self) -> list[str]:
        """arXiv numbers that are new with this brief, in order."""
        return list(dict.fromkeys(w[6:] for i in self.increments if i.status in {"net_new", ""} for w in i.works if w.startswith("arxiv:")))

    def by_producer(self) -> str:
        """`jay 3 · tom 2`, over all sources of the closing lists."""
        counts = Counter(s.producer or "-" for s in self.sources if s.verdict)
        return " · ".join(f"{name} {n}" for name, n in sorted(counts.items(), key=lambda p: (-p[1], p[0])))

    def level_counts(self) -> dict[int, int]:
        """Claims in increments by evidence level."""
        return dict(sorted(Counter(self.levels[c] for i in self.increments for c in i.claims if c in self.levels).items()))

    def ids(self) -> list[str]:
        """Every arXiv number of the id list."""
        return list(dict.fromkeys(n for c in self.citable for n in arxiv_ids(c.text)[:1]))


def batches(ledger: Ledger) -> list[Batch]:
    """Batches in the order of writing, one per name (the latest)."""
    found: dict[str, Batch] = {}
    for b in ledger.all(Batch):
        found[b.name] = b
    return list(found.values())


def find_batch(ledger: Ledger, name: str | None) -> Batch:
    """A batch by name, or the latest of our own.

    Raises:
        UserInputError: there is none, or none of that name; lists what there is.
    """
    known = batches(ledger)
    if name:
        for b in known:
            if name in (b.name, b.id):
                if not _complete(ledger, b):
                    raise UserInputError(f"batch: {b.name!r} is not complete; run `headwater ledger digest` to finish it", "batch")
                return b
        names = ", ".join(b.name for b in known[-8:]) or "none yet"
        raise UserInputError(f"batch: no batch {name!r} in this ledger (there are: {names})", "batch")
    whole = [b for b in known if _complete(ledger, b)]
    own = [b for b in whole if not b.imported] or whole
    if not own:
        raise UserInputError("batch: the ledger has none yet; run `headwater ledger ingest FOLDER` and `headwater ledger digest`", "batch")
    return own[-1]


def _complete(ledger: Ledger, batch: Batch) -> bool:
    return batch.imported or ledger.count(Done, "batch", batch.name) > 0


def load_view(ledger: Ledger, batch: Batch, language: str | None = None) -> View:
    """Load the parts of a batch, in their order."""

    def parts(cls: type[P]) -> list[P]:
        return sorted(ledger.by(cls, "brief", batch.name), key=lambda p: (p.order, p.id))

    view = View(
        batch, language or batch.language, parts(Increment), parts(Adjacent), parts(Contradiction), parts(Citable), parts(CarryOver),
        parts(Rejection), parts(Handle), parts(SourceLine), parts(SummaryRow), parts(Statement),
    )
    for increment in view.increments:
        for ident in increment.claims:
            claim = ledger.get(ident)
            if isinstance(claim, Claim):
                view.claims[ident] = claim
                view.levels[ident] = level_of(ledger, ident)
    return view
