"""The base of all ledger records and their fingerprints.

A record is never changed. Whatever changes is another record about the same thing; views fold them. Evidence levels have no field:
they are computed from `Reading` records (`headwater.ledger.evidence`).
"""

from __future__ import annotations

import hashlib
import json
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

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
