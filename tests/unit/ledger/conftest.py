"""A ledger folder, the example inbox, and a round over it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.ledger.brief.view import View, find_batch, load_view
from headwater.ledger.digest.run import Digest, Outcome
from headwater.ledger.instance import Instance, clock
from headwater.ledger.intake.ingest import Report, ingest
from headwater.ledger.store import Ledger

ROOT = Path(__file__).parents[3]
INBOX = ROOT / "examples" / "inbox"


@pytest.fixture(scope="session")
def instance() -> Instance:
    """The instance of the example inbox."""
    return Instance(**tomllib.loads((INBOX / "ledger.toml").read_text("utf-8")))


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """An empty ledger."""
    with Ledger.create(tmp_path / "ledger") as made:
        yield made


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


@pytest.fixture
def work(ledger: Ledger, instance: Instance) -> Round:
    """A round over an empty ledger."""
    return Round(ledger, instance)


@pytest.fixture
def two_days(work: Round) -> Round:
    """The example inbox, both days ingested and digested."""
    work.ingest(INBOX / "knowledge", INBOX / "day1")
    work.digest()
    work.ingest(INBOX / "knowledge", INBOX / "day2", now="2026-10-07T22:00")
    work.digest("2026-10-07T22:00")
    return work
