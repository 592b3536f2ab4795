"""The bench itself at a small size; the full size is documented in docs/ledger.md."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path

import pytest

from headwater.core.errors import UserInputError
from headwater.ledger.bench import generate, measure
from headwater.ledger.brief.view import find_batch
from headwater.ledger.digest.run import Digest
from headwater.ledger.instance import Instance, clock
from headwater.ledger.store import Ledger


class Steps:
    """Counts what a progress bar would have shown."""

    seen: list[tuple[str, int, int]] = []  # noqa: RUF012

    def update(self, done: int, total: int) -> None:
        self.seen.append(("ingest", done, total))

    def stage(self, name: str, done: int, total: int) -> None:
        self.seen.append((name, done, total))


@contextmanager
def bar(_: str):
    yield Steps()


def test_generated_notes_are_the_same_for_a_seed(tmp_path: Path) -> None:
    for name in "ab":
        generate(tmp_path / name, 40, 15, 3)
    first, second = ({p.relative_to(tmp_path / n): p.read_bytes() for p in (tmp_path / n).rglob("*.md")} for n in "ab")
    assert first == second and len(first) == 41


@pytest.mark.slow
def test_a_round_shows_progress_and_a_second_one_writes_nothing(tmp_path: Path) -> None:
    Steps.seen.clear()
    figures = measure(400, 150, 1, tmp_path / "bench", bar)
    assert ("ingest", 401, 401) in Steps.seen and any(name == "works" and done == total for name, done, total in Steps.seen)
    before = {p.name: p.stat().st_size for p in (tmp_path / "bench" / "ledger" / "records").iterdir()}
    with Ledger(tmp_path / "bench" / "ledger") as ledger:
        assert Digest(ledger, Instance(topic="inference"), clock("2026-10-09T22:00", "UTC")).run().batch == ""
        assert find_batch(ledger, None).name == "inference 2026-10-02 22:00"
    assert {p.name: p.stat().st_size for p in (tmp_path / "bench" / "ledger" / "records").iterdir()} == before
    assert figures["records"] > 400


def test_two_digests_at_once_are_refused(ledger: Ledger) -> None:
    with ledger.alone(), Ledger(ledger.home) as other, pytest.raises(UserInputError, match="another digest is running"):
        Digest(other, Instance(topic="inference"), clock("2026-10-09T22:00", "UTC")).run()
