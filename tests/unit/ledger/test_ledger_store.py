"""The append-only store and its derived index."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
from pathlib import Path

import pytest

from headwater.core.errors import FormatError, UserInputError
from headwater.ledger.records import Flag, Item, Record, fingerprint
from headwater.ledger.store import Ledger, decode, encode


def flag(n: int | str, text: str = "") -> Flag:
    return Flag(id=f"f{n}", subject=f"s{n}", flag="x", text=text)


def tree(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_record_survives_its_line() -> None:
    record = Item(id="i", source="s", text="中文 text", works=["arxiv:2608.20359"])
    assert decode(encode(record), "here") == record


def test_writing_a_record_twice_writes_it_once(ledger: Ledger) -> None:
    assert [r.id for r in ledger.append([flag(1), flag(1)])] == ["f1"]
    assert ledger.append([flag(1)]) == []


def test_a_line_cut_short_by_a_crash_is_moved_away_and_reported(ledger: Ledger) -> None:
    ledger.append([flag(1)])
    path = ledger.records / "events.jsonl"
    with open(path, "ab") as f:
        f.write(encode(flag(2))[:-9])
    ledger.append([flag(3)])
    assert [r.id for r in ledger.all(Flag)] == ["f1", "f3"]
    (kept,) = (ledger.home / "damaged").iterdir()
    assert kept.read_bytes() == encode(flag(2))[:-9]
    assert "unfinished last line" in ledger.messages[-1]


def test_a_corrupt_line_is_named_kept_and_skipped(ledger: Ledger) -> None:
    ledger.append([flag(1)])
    with open(ledger.records / "events.jsonl", "ab") as f:
        f.write(b"{not json}\n" + encode(flag(2)))
    ledger.catch_up()
    assert [r.id for r in ledger.all(Flag)] == ["f1", "f2"]
    assert ledger.check() and "events.jsonl:2" in ledger.check()[0]
    assert b"{not json}" in (ledger.records / "events.jsonl").read_bytes()


def test_an_unknown_record_version_is_refused_by_name() -> None:
    with pytest.raises(FormatError, match="record version 2"):
        decode(b'{"kind":"flag","v":2,"id":"a","subject":"s","flag":"x"}', "events.jsonl:1")


def test_the_index_can_be_rebuilt_and_says_the_same(ledger: Ledger) -> None:
    ledger.append([flag(n, f"文字 {n}") for n in range(50)])
    before = [r.id for r in ledger.all(Flag)]
    ledger.index_path.unlink()
    with Ledger(ledger.home) as again:
        assert again.reindex() == 50
        assert [r.id for r in again.all(Flag)] == before


def test_a_broken_index_is_rebuilt_with_a_message(ledger: Ledger) -> None:
    ledger.append([flag(1)])
    ledger.close()
    ledger.index_path.write_bytes(b"this is no database, not at all" * 100)
    with Ledger(ledger.home) as again:
        again.catch_up()
        assert again.get("f1") == flag(1)
        assert "rebuilt" in again.messages[0]


def test_a_replaced_records_file_is_noticed(ledger: Ledger) -> None:
    ledger.append([flag(1, "a"), flag(2, "b")])
    (ledger.records / "events.jsonl").write_bytes(encode(flag(7, "c")) * 2 + encode(flag(8, "d")) * 3)
    ledger.append([flag(9)])
    assert sorted(r.id for r in ledger.all(Flag)) == ["f7", "f8", "f9"]


@pytest.mark.parametrize("query", ["调度策略", "调度", "2608.20359", "Fork", "策"])
def test_search_finds_parts_of_chinese_and_english_words(ledger: Ledger, query: str) -> None:
    ledger.append([Item(id="i", source="s", title="ForkPoint", text="一种调度策略（2608.20359）"), Item(id="j", source="s", text="unrelated")])
    assert [r.id for r in ledger.search(query)] == ["i"]


def _write(home: str, name: str, count: int) -> None:
    with Ledger(home) as ledger:
        for n in range(count):
            records: list[Record] = [flag(f"{name}{n}"), Item(id=fingerprint(name, n), source="s", text=f"text {n}")]
            ledger.append(records, durable=False)


def test_two_processes_write_at_once_and_nothing_is_lost(ledger: Ledger) -> None:
    home = str(ledger.home)
    ledger.close()
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=_write, args=(home, name, 40)) for name in "ab"]
    for w in workers:
        w.start()
    for w in workers:
        w.join(120)
    assert [w.exitcode for w in workers] == [0, 0]
    with Ledger(home) as again:
        assert again.check() == []
        assert again.count(Flag) == 80 and again.count(Item) == 80
        assert again.messages == []


def test_reading_only_leaves_every_byte_as_it_was(ledger: Ledger) -> None:
    ledger.append([flag(1)])
    ledger.close()
    before = tree(ledger.home)
    with Ledger(ledger.home, read_only=True) as reader:
        assert reader.get("f1") is not None
        with pytest.raises(UserInputError, match="read-only"):
            reader.append([flag(2)])
    assert tree(ledger.home) == before


def test_reading_only_refuses_an_index_that_is_behind(ledger: Ledger) -> None:
    ledger.append([flag(1)])
    ledger.close()
    with open(ledger.records / "events.jsonl", "ab") as f:
        f.write(encode(flag(2)))
    with pytest.raises(UserInputError, match="behind the records"):
        Ledger(ledger.home, read_only=True)


def test_a_folder_that_is_no_ledger_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserInputError, match="headwater ledger init"):
        Ledger(tmp_path / "nowhere")


def test_a_writer_that_dies_leaves_a_ledger_that_opens(ledger: Ledger) -> None:
    ledger.append([flag(1)])
    home = ledger.home
    ledger.close()
    pid = os.fork()
    if pid == 0:
        with Ledger(home) as child:
            child._write = lambda *_: os._exit(9)  # type: ignore[method-assign]
            child.append([flag(2)])
    os.waitpid(pid, 0)
    with Ledger(home) as again:
        again.append([flag(3)])
        assert [r.id for r in again.all(Flag)] == ["f1", "f3"]
