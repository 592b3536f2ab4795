"""Ingest and digest as a user would, for tests."""

from __future__ import annotations

from pathlib import Path

from headwater.ledger.brief.view import View, find_batch, load_view
from headwater.ledger.digest.run import Digest, Outcome
from headwater.ledger.instance import Instance, clock
from headwater.ledger.intake.ingest import Report, ingest
from headwater.ledger.store import Ledger

ROOT = Path(__file__).parents[3]
INBOX = ROOT / "examples" / "inbox"


class Round:
    """Ingest and digest as a user would, with a fixed clock."""

    def __init__(self, ledger: Ledger, instance: Instance) -> None:
        self.ledger, self.instance = ledger, instance

    def ingest(self, *folders: Path, now: str = "2026-10-06T22:00") -> Report:
        return ingest(self.ledger, self.instance, list(folders), clock(now, self.instance.zone).isoformat(), durable=False)

    def digest(self, now: str = "2026-10-06T22:00") -> Outcome:
        return Digest(self.ledger, self.instance, clock(now, self.instance.zone), durable=False).run()

    def note(self, folder: Path, name: str, text: str | bytes) -> Path:
        """Write a file below a folder."""
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def view(self, batch: str | None = None, language: str | None = None) -> View:
        return load_view(self.ledger, find_batch(self.ledger, batch), language)
