"""The derived index: where each record is, what it refers to, and its words. Everything in it can be rebuilt from the records.

SQLite with FTS5 `trigram`, which finds parts of Chinese and English words of three characters and more; shorter queries are scanned.
A rollback journal, not a write-ahead log, so that a reader leaves no file behind.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headwater.ledger.records import Record

_VERSION = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS files(file TEXT PRIMARY KEY, offset INTEGER NOT NULL, tail BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS records(rec INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, kind TEXT NOT NULL,
    file TEXT NOT NULL, offset INTEGER NOT NULL, length INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS records_kind ON records(kind, rec);
CREATE TABLE IF NOT EXISTS refs(kind TEXT, role TEXT, key TEXT, rec INTEGER, PRIMARY KEY(kind, role, key, rec)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS damage(file TEXT, offset INTEGER, length INTEGER);
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(text, content='', tokenize='trigram');
"""
Scan = Callable[[str, int], Iterator["Located"]]


@dataclass(frozen=True, slots=True)
class Located:
    """Where a record stands: file (without folder and suffix), byte offset, length in bytes."""

    file: str
    offset: int
    length: int


class Index:
    """One SQLite file. Not thread-safe; one per process and ledger."""

    def __init__(self, path: Path, read_only: bool, say: Callable[[str], None]) -> None:
        self.path, self.read_only, self._say = path, read_only, say
        self._depth = 0
        try:
            self._open()
        except sqlite3.DatabaseError as e:
            if read_only:
                raise
            say(f"{path.name}: unreadable ({e}); it is derived and gets rebuilt")
            path.unlink(missing_ok=True)
            self._open()

    def _open(self) -> None:
        if self.read_only:
            self.db = sqlite3.connect(f"{self.path.resolve().as_uri()}?mode=ro", uri=True)
            self.db.execute("SELECT count(*) FROM files").fetchone()
            return
        self.db = sqlite3.connect(self.path, isolation_level=None, timeout=60)
        self.db.execute("PRAGMA journal_mode=DELETE")
        self.db.execute("PRAGMA synchronous=OFF")
        self.db.execute("PRAGMA cache_size=-65536")
        found = self.db.execute("PRAGMA user_version").fetchone()[0]
        if found not in {0, _VERSION}:
            raise sqlite3.DatabaseError(f"index version {found}, wanted {_VERSION}")
        self.db.executescript(_TABLES)
        self.db.execute(f"PRAGMA user_version={_VERSION}")

    def close(self) -> None:
        """Close the database."""
        self.db.close()

    def clear(self) -> None:
        """Forget everything."""
        self.db.close()
        self.path.unlink(missing_ok=True)
        self._open()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing; may be nested."""
        self._depth += 1
        if self._depth == 1:
            self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._depth -= 1
            if self._depth == 0:
                self.db.execute("ROLLBACK")
            raise
        self._depth -= 1
        if self._depth == 0:
            self.db.execute("COMMIT")

    def add(self, record: Record, file: str, offset: int, length: int) -> None:
        """File a record; an id seen before keeps its first place."""
        kind = record.kind  # type: ignore[attr-defined]
        cursor = self.db.execute(
            "INSERT OR IGNORE INTO records(id, kind, file, offset, length) VALUES(?,?,?,?,?)", (record.id, kind, file, offset, length)
        )
        if cursor.rowcount != 1:
            return
        rec = cursor.lastrowid
        pairs = {(role, key) for role, key in record.refs() if key}
        self.db.executemany("INSERT OR IGNORE INTO refs VALUES(?,?,?,?)", [(kind, role, key, rec) for role, key in pairs])
        words = record.words()
        if words:
            self.db.execute("INSERT INTO words(rowid, text) VALUES(?,?)", (rec, words))

    def damage(self, file: str, offset: int, length: int) -> None:
        """Remember a line that is not a record."""
        self.db.execute("INSERT INTO damage VALUES(?,?,?)", (file, offset, length))

    def offset(self, file: str) -> int:
        """Bytes of a file that are indexed."""
        row = self.db.execute("SELECT offset FROM files WHERE file=?", (file,)).fetchone()
        return row[0] if row else 0

    def tail(self, file: str) -> bytes:
        """The last bytes before `offset`, to notice a file that was replaced."""
        row = self.db.execute("SELECT tail FROM files WHERE file=?", (file,)).fetchone()
        return row[0] if row else b""

    def set_offset(self, file: str, offset: int, tail: bytes) -> None:
        """Note how far a file is indexed."""
        self.db.execute("INSERT OR REPLACE INTO files VALUES(?,?,?)", (file, offset, tail))

    def has(self, record_id: str) -> bool:
        """Whether a record with this id is filed."""
        return self.db.execute("SELECT 1 FROM records WHERE id=?", (record_id,)).fetchone() is not None

    def size(self) -> int:
        """Number of records."""
        return self.db.execute("SELECT count(*) FROM records").fetchone()[0]

    def locate(self, record_id: str) -> Located | None:
        """Place of a record."""
        row = self.db.execute("SELECT file, offset, length FROM records WHERE id=?", (record_id,)).fetchone()
        return Located(*row) if row else None

    def of_kind(self, kind: str) -> Iterator[Located]:
        """Places of all records of a kind, in order of writing; fetched in pages, so writing in between is safe."""
        last = 0
        while True:
            rows = self.db.execute(
                "SELECT rec, file, offset, length FROM records WHERE kind=? AND rec>? ORDER BY rec LIMIT 500", (kind, last)
            ).fetchall()
            for _, *place in rows:
                yield Located(*place)
            if len(rows) < 500:
                return
            last = rows[-1][0]

    def referring(self, kind: str, role: str, key: str) -> Iterator[Located]:
        """Places of the records of a kind filed under (role, key), in order of writing."""
        last = 0
        while True:
            rows = self.db.execute(
                "SELECT r.rec, r.file, r.offset, r.length FROM refs JOIN records r ON r.rec=refs.rec"
                " WHERE refs.kind=? AND role=? AND key=? AND refs.rec>? ORDER BY refs.rec LIMIT 500",
                (kind, role, key, last),
            ).fetchall()
            for _, *place in rows:
                yield Located(*place)
            if len(rows) < 500:
                return
            last = rows[-1][0]

    def count(self, kind: str, role: str = "", key: str = "") -> int:
        """Number of records of a kind, under a reference if one is given."""
        if role:
            sql, args = "SELECT count(*) FROM refs WHERE kind=? AND role=? AND key=?", (kind, role, key)
            return self.db.execute(sql, args).fetchone()[0]
        return self.db.execute("SELECT count(*) FROM records WHERE kind=?", (kind,)).fetchone()[0]

    def keys(self, kind: str, role: str, prefix: str = "") -> Iterator[str]:
        """Distinct keys under a role that begin with a prefix, sorted; fetched in pages."""
        last, end = prefix, prefix + "\U0010ffff"
        while True:
            rows = self.db.execute(
                "SELECT DISTINCT key FROM refs WHERE kind=? AND role=? AND key>? AND key<? ORDER BY key LIMIT 500", (kind, role, last, end)
            ).fetchall()
            for (key,) in rows:
                yield key
            if len(rows) < 500:
                return
            last = rows[-1][0]

    def searchable(self) -> Iterator[Located]:
        """Places of all records that have words."""
        last = 0
        while True:
            rows = self.db.execute(
                "SELECT rec, file, offset, length FROM records WHERE rec>? AND rec IN (SELECT id FROM words_docsize) ORDER BY rec LIMIT 500", (last,)
            ).fetchall()
            for _, *place in rows:
                yield Located(*place)
            if len(rows) < 500:
                return
            last = rows[-1][0]

    def search(self, text: str, limit: int, scan: Scan) -> list[Located]:
        """Records that contain the text, best first; the caller scans for texts shorter than a trigram."""
        if len(text.strip()) < 3:
            return list(scan(text.strip(), limit)) if text.strip() else []
        quoted = '"' + text.strip().replace('"', '""') + '"'
        rows = self.db.execute(
            "SELECT r.file, r.offset, r.length FROM words JOIN records r ON r.rec=words.rowid WHERE words MATCH ? ORDER BY rank, r.rec LIMIT ?",
            (quoted, limit),
        ).fetchall()
        return [Located(*row) for row in rows]
