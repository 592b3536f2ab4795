"""A ledger folder, the example inbox, and a round over it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from ledger_round import INBOX, Round

from headwater.ledger.instance import Instance
from headwater.ledger.store import Ledger


@pytest.fixture(scope="session")
def instance() -> Instance:
    """The instance of the example inbox."""
    return Instance(**tomllib.loads((INBOX / "ledger.toml").read_text("utf-8")))


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """An empty ledger."""
    with Ledger.create(tmp_path / "ledger") as made:
        yield made


@pytest.fixture
def work(ledger: Ledger, instance: Instance) -> Round:
    """A round over an empty ledger."""
    return Round(ledger, instance)


@pytest.fixture(scope="session")
def two_days(tmp_path_factory: pytest.TempPathFactory, instance: Instance) -> Iterator[Round]:
    """The example inbox, both days ingested and digested; for tests that only read."""
    with Ledger.create(tmp_path_factory.mktemp("example") / "ledger") as made:
        work = Round(made, instance)
        work.ingest(INBOX / "knowledge", INBOX / "day1")
        work.digest()
        work.ingest(INBOX / "knowledge", INBOX / "day2", now="2026-10-07T22:00")
        work.digest("2026-10-07T22:00")
        yield work
