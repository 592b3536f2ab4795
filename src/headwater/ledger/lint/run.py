"""Run all checks over texts, files and ledger folders."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from headwater.core.errors import UserInputError
from headwater.ledger.lint.brief import Brief, read_brief
from headwater.ledger.lint.catalogue import CATALOGUE
from headwater.ledger.lint.finding import Finding
from headwater.ledger.lint.ledgers import ledger_files, lint_ledger
from headwater.ledger.lint.reading import NOTE_SUFFIXES, read_note
from headwater.ledger.lint.registry import all_checks


def lint_text(text: str, name: str = "", rules: Iterable[int] | None = None) -> list[Finding]:
    """Findings in one brief or note, sorted by line. rules: only these numbers; all when None."""
    return lint_brief(read_brief(text.replace("\r\n", "\n").replace("\r", "\n"), name), rules)


def lint_brief(brief: Brief, rules: Iterable[int] | None = None) -> list[Finding]:
    """Findings of an already parsed brief; one per rule, line and span."""
    wanted = set(rules) if rules is not None else set(CATALOGUE)
    found: dict[tuple[int, int, str], Finding] = {}
    for number, checks in all_checks().items():
        if number not in wanted:
            continue
        for run in checks:
            for finding in run(brief):
                key = (finding.rule, finding.place.line, finding.place.span)
                found.setdefault(key, dataclasses.replace(finding, file=brief.name))
    return sorted(found.values(), key=lambda f: f.sort_key)


def expand(paths: Iterable[Path]) -> list[Path]:
    """Files to look at: a ledger folder stays one path, another folder becomes its notes. Raises UserInputError for an empty folder."""
    out: list[Path] = []
    for path in paths:
        if not path.is_dir() or ledger_files(path):
            out.append(path)
            continue
        notes = sorted(
            p
            for p in path.rglob("*")
            if p.suffix.lower() in NOTE_SUFFIXES and p.is_file() and not any(q.startswith(".") for q in p.parts)
        )
        if not notes:
            raise UserInputError(
                f"{path}: neither a ledger (records/*.jsonl) nor a folder with notes (*.md, *.txt)", field=str(path)
            )
        out += notes
    return out


def lint_path(path: Path, rules: Iterable[int] | None = None) -> list[Finding]:
    """Findings of one file or ledger folder. Raises UserInputError or FormatError with one line that names the file."""
    wanted = set(rules) if rules is not None else set(CATALOGUE)
    if path.is_dir() and (files := ledger_files(path)):
        return sorted(lint_ledger(files, wanted), key=lambda f: f.sort_key)
    if path.suffix == ".jsonl" and path.is_file():
        return sorted(lint_ledger([path], wanted), key=lambda f: f.sort_key)
    return lint_text(read_note(path), str(path), wanted)


def lint_paths(
    paths: Iterable[Path], rules: Iterable[int] | None = None, on_file: Callable[[Path], None] | None = None
) -> Iterator[Finding]:
    """Findings of files, folders of notes and ledger folders, in the order given. on_file is called before each file.

    Raises UserInputError or FormatError (one line, naming the file) for the first that cannot be read.
    """
    wanted = list(rules) if rules is not None else None
    for path in expand(paths):
        if on_file:
            on_file(path)
        yield from lint_path(path, wanted)
