"""Loading weights against a plain read of the same file, with the file in the page cache and after asking the system to drop it."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from headwater.bench.report import Figure, Report
from headwater.core.errors import UserInputError

PIECE = 1 << 20


def forget(paths: Sequence[Path]) -> None:
    """Ask the system to drop the files from its page cache; pages that somebody maps or writes stay."""
    for path in paths:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def plain_read(paths: Sequence[Path]) -> int:
    """Read the files from beginning to end in pieces of 1 MiB into one buffer; -> bytes."""
    buffer = bytearray(PIECE)
    done = 0
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while n := file.readinto(buffer):
                done += n
    return done


def bench(model: str, rounds: int = 5) -> Report:
    """MB/s of file bytes: a plain read and `load_model`, in turn, warm and cold. Raises UserInputError where the cache cannot be dropped."""
    from headwater.model.catalog import resolve
    from headwater.model.load.loader import load_model

    if not hasattr(os, "posix_fadvise"):
        raise UserInputError("bench load: this system cannot drop a file from its page cache (no posix_fadvise)")
    paths = [Path(p) for p in resolve(model)]
    size = sum(p.stat().st_size for p in paths)
    ways = {"plain read": lambda: plain_read(paths), "load": lambda: load_model(paths)}
    report = Report("loading")
    for state in ("warm", "cold"):
        rates: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(rounds + 1):
            for name, way in ways.items():
                if state == "cold":
                    forget(paths)
                begin = time.perf_counter()
                kept = way()
                seconds = time.perf_counter() - begin
                del kept
                if turn:
                    rates[name].append(size / seconds / 1e6)
        for name, values in rates.items():
            report.add(f"{size / 1e6:.0f} MB {state}", name, Figure("rate", "MB/s", values))
    return report
