"""Evidence levels, computed. A level has no field anywhere: it is the highest reading of the claim itself, under every cap.

Retelling, translating, storing as a card, citing and merging write `Mention`, `Card`, `Same` or `Part` records, none of which is read
here; a judgment can only add a cap. So no sequence of those can raise a level (R1), and the only way up is `add_reading`.
"""

from __future__ import annotations

from headwater.core.errors import UserInputError
from headwater.ledger.records import Claim, Judgment, Reading, fingerprint
from headwater.ledger.store import Ledger


def level_of(ledger: Ledger, claim: str) -> int:
    """Evidence level 0..5 of a claim: highest of its own readings, never above a judgment's cap; 0 without any reading."""
    level = max((r.level for r in ledger.by(Reading, "claim", claim)), default=0)
    caps = [j.cap for j in ledger.by(Judgment, "subject", claim) if j.cap is not None]
    return min([level, *caps])


def opening(claim: Claim, level: int, reader: str, quote: str, form: str = "") -> Reading:
    """The reading behind a claim's first report. Its id depends on the claim alone, so that a claim has exactly one."""
    return Reading(
        id=fingerprint("opening", claim.id), at=claim.at, by=claim.by, claim=claim.id, work=claim.work, level=level, act="opening",
        reader=reader, source=claim.source, form=form, quote=quote,
    )


def add_reading(ledger: Ledger, claim: str, level: int, reader: str, quote: str, at: str, form: str = "") -> Reading:
    """Record that somebody read more of the work; returns the record.

    Raises:
        UserInputError: no such claim, a level outside 0..5, or no quote (a reading without the words relied on is no reading).
    """
    found = ledger.get(claim)
    if not isinstance(found, Claim):
        raise UserInputError(f"{claim}: no claim with this id; `headwater claims list` shows them", "claim")
    if not 0 <= level <= 5:
        raise UserInputError(f"level: {level} is outside 0..5", "level")
    if not quote.strip():
        raise UserInputError("quote: a reading needs the exact words relied on", "quote")
    record = Reading(
        id=fingerprint("reading", claim, level, reader, quote, at), at=at, by=reader, claim=claim, work=found.work, level=level,
        act="reading", reader=reader, form=form, quote=quote,
    )
    ledger.append([record])
    return record
