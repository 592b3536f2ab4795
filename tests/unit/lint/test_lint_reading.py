"""Files from outside: every unreadable one gives one clear line, the readable ones are read in their encoding."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headwater.core.errors import FormatError, UserInputError
from headwater.ledger import facts
from headwater.ledger.lint import lint_paths
from headwater.ledger.lint.reading import MAX_BYTES, decode, read_note
from headwater.ledger.lint.run import lint_path

BRIEF = "# 简报（2026-05-14）\n\n卡片 301-2604-01234 与 307-2604-01234，来源相同，其余为中文说明，用来判断编码是否正确。\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "gb18030", "utf-16"])
def test_a_chinese_brief_is_read_in_any_usual_encoding(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "brief.txt"
    path.write_bytes(BRIEF.encode(encoding))
    assert [f.rule for f in lint_path(path)] == [21]


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"\x7fELF\x00\x01", "binary"),
        (b"caf\xe9 and \xff more", "neither UTF-8"),
        (b"broken in the middle" + b"\xc3\x28 \xa4\xa4", "UTF-8"),
        (b"\xff\xfe\x00", "UTF-16"),
        (b"x" * 300_000, "characters"),
        (bytes(range(1, 9)) * 400, "control"),
    ],
)
def test_what_is_no_text_is_refused_with_its_name_and_reason(data: bytes, word: str) -> None:
    with pytest.raises(FormatError) as e:
        decode(data, "note.md")
    assert str(e.value).startswith("note.md: ") and word in str(e.value) and "\n" not in str(e.value)


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.md"
    with path.open("wb") as f:
        f.truncate(MAX_BYTES + 1)
    with pytest.raises(FormatError, match="bytes; a brief or note has at most"):
        read_note(path)


def test_a_missing_file_and_an_empty_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserInputError, match="no such file"):
        read_note(tmp_path / "none.md")
    with pytest.raises(UserInputError, match="neither a ledger"):
        list(lint_paths([tmp_path]))


def test_an_empty_file_is_clean(tmp_path: Path) -> None:
    (tmp_path / "empty.md").write_text("")
    assert list(lint_paths([tmp_path / "empty.md"])) == []


def _ledger(folder: Path, **files: list[dict[str, object]]) -> Path:
    (folder / "records").mkdir(parents=True)
    for name, rows in files.items():
        lines = [json.dumps({"v": 1, "id": str(i), **r}, ensure_ascii=False) for i, r in enumerate(rows)]
        (folder / "records" / f"{name}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    return folder


def test_a_clean_ledger_is_silent(tmp_path: Path) -> None:
    home = _ledger(
        tmp_path,
        works=[
            {
                "kind": "work",
                "key": "arxiv:2604.01234",
                "title": "Paged Trees for Long Contexts",
                "date": "2026-04-02",
                "version": 1,
            }
        ],
        claims=[{"kind": "claim", "work": "arxiv:2604.01234", "statement": "latency falls by 12 % on A100 (80 GB)"}],
    )
    assert list(lint_paths([home])) == []


LEDGER_DEFECTS = [
    (13, "works", [{"kind": "work", "key": "arxiv:2613.01234"}]),
    (
        20,
        "works",
        [
            {"kind": "work", "key": "arxiv:2604.01234", "title": "Paged Trees for Long Contexts"},
            {"kind": "work", "key": "arxiv:2604.01234", "title": "Weekly Reading About Robots"},
        ],
    ),
    (
        21,
        "events",
        [{"kind": "card", "number": 7, "work": "arxiv:2604.01234"}, {"kind": "card", "number": 9, "work": "arxiv:2604.01234"}],
    ),
    (33, "briefs", [{"kind": "increment", "title": "Paged Trees", "claims": ["c1"], "boundary": ""}]),
    (
        42,
        "readings",
        [
            {"kind": "reading", "claim": "c1", "act": "opening", "level": 2, "reader": "a"},
            {"kind": "reading", "claim": "c1", "act": "opening", "level": 4, "reader": "b"},
        ],
    ),
    (
        48,
        "judgments",
        [
            {"kind": "disposition", "batch": "b", "subject": "w", "status": "net_new"},
            {"kind": "disposition", "batch": "b", "subject": "w", "status": "off_topic"},
        ],
    ),
    (51, "works", [{"kind": "work", "key": "arxiv:2604.01234", "date": "2026-02-11", "version": 1}]),
    (54, "claims", [{"kind": "claim", "work": "w", "statement": "decode is slow on H200 (80 GB)"}]),
    (
        57,
        "briefs",
        [{"kind": "increment", "title": "Paged Trees", "credibility": [{"aspect": "numbers", "grade": 5, "up": ["card_stored"]}]}],
    ),
    (59, "claims", [{"kind": "claim", "work": "w", "statement": "needs vLLM v3.2.0"}]),
]


@pytest.mark.parametrize(("rule", "file", "rows"), LEDGER_DEFECTS, ids=[str(d[0]) for d in LEDGER_DEFECTS])
def test_a_defect_in_a_ledger_is_found_at_its_record(rule: int, file: str, rows: list[dict[str, object]], tmp_path: Path) -> None:
    home = _ledger(tmp_path, **{file: rows})
    found = list(lint_paths([home]))
    assert [(f.rule, f.place.line) for f in found] == [(rule, len(rows))] and found[0].file.endswith(f"{file}.jsonl")


def test_a_corrupt_ledger_line_is_named_and_an_unfinished_last_one_is_left_alone(tmp_path: Path) -> None:
    home = _ledger(tmp_path, works=[{"kind": "work", "key": "arxiv:2604.01234"}])
    path = home / "records" / "works.jsonl"
    path.write_bytes(path.read_bytes() + b'{"kind": "wo')
    assert list(lint_paths([home])) == []
    path.write_bytes(path.read_bytes() + b'rk"\n')
    with pytest.raises(FormatError, match=r"works\.jsonl: line 2 is not a JSON record"):
        list(lint_paths([home]))


@pytest.mark.parametrize("kind", facts.KINDS)
def test_every_fact_has_a_name_a_source_and_a_date(kind: str) -> None:
    entries = facts.load(kind)
    assert entries and all(e["name"] and e["source"] and e["date"] for e in entries)
