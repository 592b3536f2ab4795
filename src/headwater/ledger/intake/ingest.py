"""`ingest`: walk folders, skip what is unchanged, turn the rest into records. Reads only; interrupted runs resume where they stopped."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from headwater.core.errors import UserInputError
from headwater.ledger.instance import Instance
from headwater.ledger.intake import notes
from headwater.ledger.intake.classify import classify
from headwater.ledger.intake.decoding import decode_bytes
from headwater.ledger.intake.imported import read_brief
from headwater.ledger.parse.brief import language_of, parse_brief
from headwater.ledger.records import Flag, Record, Source, fingerprint
from headwater.ledger.store import Ledger, file_hash

SUFFIXES = {".md", ".markdown", ".txt", ".text", ".rst", ".xml", ".rss", ".atom", ".bib", ".org", ""}
WHOLE = 8 * 1024 * 1024
CHUNK = 200
_HIDDEN = (".", "~")


@dataclass(slots=True)
class Report:
    """What an ingest did. kinds: files by kind; messages: one line per oddity."""

    seen: int = 0
    new: int = 0
    unchanged: int = 0
    skipped: int = 0
    items: int = 0
    flagged: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)


def walk(folders: list[Path], say: Callable[[str], None]) -> Iterator[tuple[Path, str]]:
    """(path, name) of every candidate file, sorted; the name begins with the folder's own name.

    Links to folders are followed once; a link that leads back to a folder on the way is reported and not followed.
    """
    done: set[tuple[int, int]] = set()
    for folder in folders:
        base = folder.resolve()
        if folder.is_file():
            yield folder, f"{base.parent.name}/{base.name}"
            continue
        if not folder.is_dir():
            raise UserInputError(f"{folder}: no such file or folder", "folder")
        for at, dirs, files in os.walk(base, followlinks=True, onerror=lambda e: say(f"{e.filename}: cannot be listed ({e.strerror})")):
            stat = os.stat(at)
            if (stat.st_dev, stat.st_ino) in done:
                say(f"{Path(at).relative_to(base.parent)}: a link back to a folder already read; not followed again")
                dirs[:] = []
                continue
            done.add((stat.st_dev, stat.st_ino))
            dirs[:] = sorted(d for d in dirs if not d.startswith(_HIDDEN))
            for name in sorted(files):
                path = Path(at, name)
                if not name.startswith(_HIDDEN):
                    yield path, path.relative_to(base.parent).as_posix()


def ingest(
    ledger: Ledger, instance: Instance, folders: list[Path], at: str, progress: Callable[[int, int], None] | None = None, durable: bool = True
) -> Report:
    """Read every new or changed file below the folders into the ledger.

    at: ISO time to stamp records with. progress: called with (files done, files in all).
    """
    report = Report()

    def say(message: str) -> None:
        report.messages.append(message)

    names = list(walk(folders, say))
    pending: list[Record] = []
    for n, (path, name) in enumerate(names, 1):
        report.seen += 1
        try:
            records = _read(ledger, instance, path, name, at, report, say)
        except OSError as e:
            say(f"{name}: cannot be read ({e.strerror or e})")
            report.skipped += 1
            continue
        pending += records
        if len(pending) >= CHUNK * 8 or (pending and n % CHUNK == 0):
            ledger.append(pending, durable)
            pending = []
        if progress:
            progress(n, len(names))
    ledger.append(pending, durable)
    return report


def _read(
    ledger: Ledger, instance: Instance, path: Path, name: str, at: str, report: Report, say: Callable[[str], None]
) -> list[Record]:
    if not path.is_file():
        say(f"{name}: not a regular file; skipped")
        report.skipped += 1
        return []
    if path.suffix.lower() not in SUFFIXES:
        say(f"{name}: suffix {path.suffix!r} is not read here; skipped")
        report.skipped += 1
        return []
    digest = file_hash(path)
    ident = fingerprint("source", name, digest)
    if ledger.index.has(ident):
        report.unchanged += 1
        return []
    source, records = read_source(instance, path, name, digest, ident)
    report.new += 1
    report.items += source.items
    report.kinds[source.source_kind] = report.kinds.get(source.source_kind, 0) + 1
    flagged = [r for r in records if isinstance(r, Flag)]
    report.flagged += len(flagged)
    for text in source.flags:
        say(f"{name}: {text}")
    # the source record comes last: a run cut short before it reads the file again, and equal ids make that harmless
    return [r.model_copy(update={"at": at, "by": source.producer}) for r in (*records, source)]


def read_source(instance: Instance, path: Path, name: str, digest: str, ident: str) -> tuple[Source, list[Record]]:
    """One file as records. Never fails on content: what cannot be read becomes a source of kind `unreadable` with the reason."""
    size = path.stat().st_size
    if size > WHOLE:
        return _large(path, name, digest, ident, size)
    decoded = decode_bytes(path.read_bytes())
    if decoded is None:
        return Source(id=ident, path=name, producer=classify(name, {}, "", "").producer, source_kind="unreadable", sha256=digest, size=size,
                      encoding="binary", flags=["not text (contains NUL bytes); recorded by hash only"]), []
    text = decoded.text.replace("\r\n", "\n").replace("\r", "\n")
    head, _, _ = notes.split_front(text)
    kind = classify(name, head, instance.document, instance.topic)
    source_kind, topic = kind.kind, kind.topic
    if source_kind in {"inbox_note", "sibling_brief", "earlier_brief"}:
        parsed = parse_brief(text)
        if parsed.is_brief and parsed.date:
            same = (topic or parsed.topic).casefold() == instance.topic.casefold() or parsed.topic.casefold() == instance.topic.casefold()
            source_kind, topic = ("earlier_brief" if same else "sibling_brief"), parsed.topic or topic
            got = read_brief(ident, name, parsed, topic)
        else:
            source_kind = "inbox_note" if source_kind == "inbox_note" else source_kind
            got = notes.read_note(ident, text)
    elif source_kind == "paper_card":
        got = notes.read_card(ident, name, text)
    elif source_kind == "work_queue":
        got = notes.read_queue(ident, text)
    elif source_kind == "bibliography":
        got = notes.read_bibliography(ident, text)
    elif source_kind == "rss_batch" and path.suffix.lower() in {".xml", ".rss", ".atom"}:
        got = notes.read_feed(ident, path.read_bytes())
    elif source_kind == "living_document":
        got = notes.read_document(ident, name, text)
    else:
        got = notes.read_note(ident, text)
    source = Source(
        id=ident, path=name, producer=kind.producer, source_kind=source_kind, timestamp=kind.timestamp, sha256=digest, size=size,
        encoding=decoded.encoding, language=language_of(text[:20000]), title=got.title or head.get("title", ""),
        gist=notes.update_note(text) if source_kind == "living_document" else head.get("gist", ""), topic=topic, items=got.items,
        flags=[*decoded.flags, *got.flags],
    )
    return source, got.records


def _large(path: Path, name: str, digest: str, ident: str, size: int) -> tuple[Source, list[Record]]:
    """A file above `WHOLE` bytes, read in pieces so that memory does not grow with it. The encoding is that of its first megabyte."""
    with open(path, "rb") as f:
        head = f.read(2**20)
    sample = decode_bytes(head[: head.rfind(b"\n") + 1] or head[:-4])
    kind = classify(name, {}, "", "")
    if sample is None:
        return Source(id=ident, path=name, producer=kind.producer, source_kind="unreadable", sha256=digest, size=size, encoding="binary",
                      flags=["not text (contains NUL bytes); recorded by hash only"]), []
    with open(path, encoding=sample.encoding, errors="replace") as f:
        got = notes.read_large(ident, iter(partial(f.readline, 65536), ""))
    source_kind = kind.kind if kind.kind not in {"earlier_brief", "sibling_brief", "living_document", "bibliography"} else "inbox_note"
    return Source(
        id=ident, path=name, producer=kind.producer, source_kind=source_kind, timestamp=kind.timestamp, sha256=digest, size=size,
        encoding=sample.encoding, language=language_of(sample.text[:20000]), items=got.items,
        flags=[*sample.flags, f"large file of {size:,} bytes: identifiers, links and marks are read throughout, text kept as {got.items} excerpts"],
    ), got.records
