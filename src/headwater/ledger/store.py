"""The append-only ledger on disk: one JSON-lines file per kind under `records/`, a lock, and the derived index.

Only `append` writes. Writers of several processes take turns through an exclusive lock; a batch of records goes out in one write per
file. A crash in the middle leaves at most one unfinished line, which the next writer moves to `damaged/` and reports. A line that
is not a record stays where it is, is reported with file and line, and is skipped.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from headwater.core.errors import FormatError, UserInputError
from headwater.ledger.index import Index, Located
from headwater.ledger.records import ADAPTER, FILES, SCHEMA, Record, file_of

R = TypeVar("R", bound=Record)
LOCKS = ("lock", "round.lock")
Say = Callable[[str], None]


def encode(record: Record) -> bytes:
    """One line: kind and version first, fields at their defaults left out, UTF-8, a newline at the end."""
    kind = record.kind  # type: ignore[attr-defined]
    rest = record.model_dump_json(exclude_defaults=True, exclude={"kind", "v"})
    return f'{{"kind":"{kind}","v":{record.v},{rest[1:]}\n'.encode()


def decode(line: bytes, where: str) -> Any:
    """The record in a line.

    Raises:
        FormatError: the line is not valid JSON or not a record of a known version; names `where` and the first field at fault.
    """
    try:
        return ADAPTER.validate_json(line)
    except ValidationError as e:
        first = e.errors()[0]
        field = ".".join(str(p) for p in first["loc"]) or "line"
        if field.endswith(".v"):
            raise FormatError(f"{where}: record version {first['input']!r} is not known here (this program reads version {SCHEMA})") from None
        raise FormatError(f"{where}: not a ledger record, {field}: {first['msg'].lower()}; the line is kept and skipped") from None


class Ledger:
    """A ledger folder. say receives one-line messages about repairs; read_only opens it without touching a byte.

    Raises:
        UserInputError: the folder is no ledger, or (read-only) its index is missing or behind.
    """

    def __init__(self, home: Path | str, say: Say | None = None, read_only: bool = False) -> None:
        self.home = Path(home)
        self.records = self.home / "records"
        self.read_only = read_only
        self.messages: list[str] = []
        self._say = say
        self._files: dict[str, Any] = {}
        if not self.records.is_dir():
            raise UserInputError(f"{self.home}: not a ledger (no folder 'records'); make one with `headwater ledger init {self.home}`", "ledger")
        if read_only and not self.index_path.exists():
            raise UserInputError(f"{self.home}: the index is missing; run `headwater ledger reindex --ledger {self.home}`", "ledger")
        self.index = Index(self.index_path, read_only, self.say)
        self._shared = None
        if read_only:
            self._shared = self._lock(shared=True)
            behind = sum(self._path(f).stat().st_size - self.index.offset(f) for f in FILES if self._path(f).exists())
            if behind:
                self.close()
                raise UserInputError(
                    f"{self.home}: the index is {behind:,} bytes behind the records; run `headwater ledger reindex --ledger {self.home}`", "ledger"
                )

    @classmethod
    def create(cls, home: Path | str, say: Say | None = None) -> Ledger:
        """Make the folder if needed and open it."""
        Path(home, "records").mkdir(parents=True, exist_ok=True)
        for name in LOCKS:
            Path(home, name).touch()
        return cls(home, say)

    @property
    def index_path(self) -> Path:
        """The derived SQLite index; deleting it loses nothing."""
        return self.home / "index.sqlite"

    def _path(self, file: str) -> Path:
        return self.records / f"{file}.jsonl"

    def say(self, message: str) -> None:
        """Report a repair or an oddity."""
        self.messages.append(message)
        if self._say:
            self._say(message)

    def close(self) -> None:
        """Release files, index and lock."""
        self.index.close()
        for f in self._files.values():
            f.close()
        self._files.clear()
        if self._shared is not None:
            os.close(self._shared)
            self._shared = None

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _lock(self, shared: bool = False) -> int:
        fd = self._open_lock(LOCKS[0])
        fcntl.flock(fd, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        return fd

    def _open_lock(self, name: str) -> int:
        path = self.home / name
        if self.read_only and not path.exists():
            raise UserInputError(f"{path}: missing; run `headwater ledger reindex --ledger {self.home}`", "ledger")
        return os.open(path, os.O_RDONLY | (0 if self.read_only else os.O_CREAT), 0o644)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the ledger for one long step at a time; other writers still get in between its writes.

        Raises:
            UserInputError: another process is in such a step.
        """
        fd = self._open_lock(LOCKS[1])
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserInputError(f"{self.home}: another digest is running on this ledger; wait for it", "ledger") from None
            yield
        finally:
            os.close(fd)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the writers' lock with an index that has caught up."""
        if self.read_only:
            raise UserInputError(f"{self.home}: opened read-only", "ledger")
        fd = self._lock()
        try:
            self._catch_up()
            yield
        finally:
            os.close(fd)

    # -- writing -------------------------------------------------------------------------------------------------------------------

    def append(self, records: Iterable[Record], durable: bool = True) -> list[Record]:
        """Write records whose id is not in the ledger yet; return those written. durable: wait for the disk."""
        pending = list(records)
        if not pending:
            return []
        with self.writing():
            fresh: dict[str, Record] = {}
            for r in pending:
                if r.id not in fresh and not self.index.has(r.id):
                    fresh[r.id] = r
            groups: dict[str, list[Record]] = {}
            for r in fresh.values():
                groups.setdefault(file_of(r.kind), []).append(r)  # type: ignore[attr-defined]
            with self.index.transaction():
                for file, group in groups.items():
                    self._write(file, group, durable)
        return list(fresh.values())

    def _write(self, file: str, group: list[Record], durable: bool) -> None:
        path = self._path(file)
        lines = [encode(r) for r in group]
        with open(path, "ab", buffering=0) as f:
            at = f.tell()
            view = memoryview(b"".join(lines))
            while view:
                view = view[f.write(view) :]
            if durable:
                os.fsync(f.fileno())
        for record, line in zip(group, lines, strict=True):
            self.index.add(record, file, at, len(line))
            at += len(line)
        self.index.set_offset(file, at, lines[-1][-64:])

    # -- catching up and repair ----------------------------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        for file in FILES:
            path = self._path(file)
            if not path.exists():
                continue
            self._mend_tail(file, path)
            size, known = path.stat().st_size, self.index.offset(file)
            if known and not self._same_tail(file, path, known):
                self.say(f"{path.name}: does not continue what the index knows; the index is rebuilt")
                self.index.clear()
                return self._catch_up()
            if size > known:
                self._index_from(file, path, known)
        return None

    def _same_tail(self, file: str, path: Path, known: int) -> bool:
        tail = self.index.tail(file)
        if path.stat().st_size < known:
            return False
        with open(path, "rb") as f:
            f.seek(known - len(tail))
            return f.read(len(tail)) == tail

    def _mend_tail(self, file: str, path: Path) -> None:
        """Move an unfinished last line out of the way."""
        size = path.stat().st_size
        if size == 0:
            return
        with open(path, "rb") as f:
            f.seek(-1, os.SEEK_END)
            if f.read(1) == b"\n":
                return
            end = size
            while end > 0:
                step = min(end, 65536)
                f.seek(end - step)
                hit = f.read(step).rfind(b"\n")
                if hit >= 0:
                    end = end - step + hit + 1
                    break
                end -= step
            f.seek(end)
            fragment = f.read()
        kept = self.home / "damaged" / f"{file}-{end}.txt"
        kept.parent.mkdir(exist_ok=True)
        kept.write_bytes(fragment)
        os.truncate(path, end)
        self.say(f"{path.name}: unfinished last line of {len(fragment):,} bytes (a writer was interrupted) moved to damaged/{kept.name}")

    def _index_from(self, file: str, path: Path, start: int) -> None:
        with open(path, "rb") as f, self.index.transaction():
            f.seek(start)
            at, tail = start, b""
            for line in f:
                try:
                    record = decode(line, f"{path.name}: byte {at:,}")
                except FormatError as e:
                    self.say(str(e))
                    self.index.damage(file, at, len(line))
                else:
                    self.index.add(record, file, at, len(line))
                at += len(line)
                tail = line[-64:]
            self.index.set_offset(file, at, tail)

    def reindex(self) -> int:
        """Throw the index away and build it again from the records; return how many records it holds."""
        fd = self._lock()
        try:
            self.index.clear()
            self._catch_up()
        finally:
            os.close(fd)
        return self.index.size()

    def catch_up(self) -> None:
        """Take in what other processes wrote."""
        with self.writing():
            pass

    # -- reading -------------------------------------------------------------------------------------------------------------------

    def _load(self, place: Located) -> Any:
        f = self._files.get(place.file)
        if f is None:
            f = self._files[place.file] = open(self._path(place.file), "rb")  # noqa: SIM115 (kept open for many reads, closed in close)
        f.seek(place.offset)
        return decode(f.read(place.length), f"{place.file}.jsonl: byte {place.offset:,}")

    def get(self, record_id: str) -> Any:
        """The record with this id, or None."""
        place = self.index.locate(record_id)
        return self._load(place) if place else None

    def all(self, cls: type[R]) -> Iterator[R]:
        """Every record of a class, in the order of writing."""
        for place in self.index.of_kind(kind_of(cls)):
            yield self._load(place)

    def by(self, cls: type[R], role: str, key: str) -> Iterator[R]:
        """Records of a class filed under (role, key), in the order of writing."""
        for place in self.index.referring(kind_of(cls), role, key):
            yield self._load(place)

    def one(self, cls: type[R], role: str, key: str) -> R | None:
        """The latest record filed under (role, key), or None."""
        return next(reversed(list(self.by(cls, role, key))), None)

    def count(self, cls: type[Record], role: str = "", key: str = "") -> int:
        """How many records of a class there are (under a reference)."""
        return self.index.count(kind_of(cls), role, key)

    def search(self, text: str, limit: int = 20) -> list[Any]:
        """Records whose words contain `text` (any script; below three characters by scanning)."""
        return [self._load(p) for p in self.index.search(text, limit, self._scan)]

    def _scan(self, text: str, limit: int) -> Iterator[Located]:
        folded, found = text.casefold(), 0
        for place in self.index.searchable():
            if folded in self._load(place).words().casefold():
                yield place
                found += 1
                if found >= limit:
                    return

    def check(self) -> list[str]:
        """Read every line of every file; return one message for each that is not a record."""
        out = []
        for file in FILES:
            path = self._path(file)
            if not path.exists():
                continue
            with open(path, "rb") as f:
                for no, line in enumerate(f, 1):
                    try:
                        if not line.endswith(b"\n"):
                            raise FormatError(f"{path.name}:{no}: unfinished line of {len(line):,} bytes; the next write repairs it")
                        decode(line, f"{path.name}:{no}")
                    except FormatError as e:
                        out.append(str(e))
        return out


def kind_of(cls: type[Record]) -> str:
    """The `kind` that records of a class carry."""
    return cls.model_fields["kind"].default


def file_hash(path: Path) -> str:
    """SHA-256 of a file's bytes, read in pieces."""
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()
