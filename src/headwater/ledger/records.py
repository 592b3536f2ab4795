"""All records of the ledger in one place, as a union told apart by `kind`, and the file each kind is kept in."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from headwater.ledger.entities import (
    Amount,
    Anchor,
    Batch,
    Binding,
    Card,
    Claim,
    Count,
    Digested,
    Disposition,
    Done,
    Flag,
    Item,
    Judgment,
    Mention,
    Prediction,
    Queued,
    Reading,
    Run,
    Same,
    Setting,
    Source,
    Work,
)
from headwater.ledger.parts import (
    Adjacent,
    CarryOver,
    Citable,
    Contradiction,
    Grade,
    Handle,
    Increment,
    Part,
    Quote,
    Rejection,
    SourceLine,
    Statement,
    SummaryRow,
)
from headwater.ledger.record import SCHEMA, Piece, Record, Refs, fingerprint

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

__all__ = [
    "ADAPTER",
    "FILES",
    "FILE_OF",
    "SCHEMA",
    "Adjacent",
    "Amount",
    "Anchor",
    "AnyRecord",
    "Batch",
    "Binding",
    "Card",
    "CarryOver",
    "Citable",
    "Claim",
    "Contradiction",
    "Count",
    "Digested",
    "Disposition",
    "Done",
    "Flag",
    "Grade",
    "Handle",
    "Increment",
    "Item",
    "Judgment",
    "Mention",
    "Part",
    "Piece",
    "Prediction",
    "Queued",
    "Quote",
    "Reading",
    "Record",
    "Refs",
    "Rejection",
    "Run",
    "Same",
    "Setting",
    "Source",
    "SourceLine",
    "Statement",
    "SummaryRow",
    "Work",
    "file_of",
    "fingerprint",
]
