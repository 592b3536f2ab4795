"""Read-only bytes of one logical file that lies on disk as one file or as several consecutive parts; mapped, not read."""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headwater.core.errors import FormatError


def malformed(file: str, what: str, field: str | None = None) -> FormatError:
    """The error for a malformed file: one line of bounded length, whatever names the file brings along."""
    text = f"{file}: {what}"
    if len(text) > 600:
        text = text[:450] + " ... " + text[-140:]
    return FormatError(text, field=field or file)


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Where a tensor lies in its container.

    name: as in the file. ggml_type: name of the encoding ('F32', 'Q4_1', 'BF16', ...; for safetensors its dtype name).
    shape: numpy order, (rows, columns) for a matrix. offset: first byte, from the start of the (joined) file. nbytes: encoded size.
    shard: index of the file among the shards of a split model.
    """

    name: str
    ggml_type: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int
    shard: int = 0


class MappedBytes:
    """One logical file made of the bytes of `paths` in order. `name` is what error messages call it."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.name = paths[0].name
        self._maps: list[mmap.mmap] = []
        self._starts: list[int] = []
        self.size = 0
        try:
            for path in paths:
                self._starts.append(self.size)
                self._maps.append(_map(path))
                self.size += len(self._maps[-1])
        except BaseException:
            self.close()
            raise

    def view(self, offset: int, nbytes: int) -> np.ndarray:
        """uint8[nbytes], read-only: a view into the mapping, or a copy when the range crosses the border of two parts.

        The caller has checked the range; a wrong one is a bug and raises ValueError.
        """
        if not 0 <= offset <= offset + nbytes <= self.size:
            raise ValueError(f"{self.name}: bytes {offset}..{offset + nbytes} of {self.size} (mapping closed?)")
        i = max(0, bisect_right(self._starts, offset) - 1)
        at = offset - self._starts[i]
        if at + nbytes <= len(self._maps[i]):
            return np.frombuffer(self._maps[i], np.uint8, nbytes, at)
        out = np.empty(nbytes, np.uint8)
        done = 0
        while done < nbytes:
            piece = np.frombuffer(self._maps[i], np.uint8, min(nbytes - done, len(self._maps[i]) - at), at)
            out[done : done + len(piece)] = piece
            done, i, at = done + len(piece), i + 1, 0
        out.flags.writeable = False
        return out

    def read_ahead(self) -> None:
        """Ask the system to bring the whole file into memory while we are busy with its beginning. A wish: systems may ignore it."""
        for m in self._maps:
            if hasattr(mmap, "MADV_WILLNEED"):
                with contextlib.suppress(OSError):
                    m.madvise(mmap.MADV_WILLNEED)

    def head(self, limit: int) -> memoryview:
        """The first bytes as one piece: the whole first part, or a copy of the first `limit` bytes when that part is shorter."""
        if len(self._maps) == 1 or len(self._maps[0]) >= limit:
            return memoryview(self._maps[0])
        return self.view(0, min(limit, self.size)).data

    def close(self) -> None:
        """Release the mappings; one that a living view still uses goes away together with that view."""
        for m in self._maps:
            with contextlib.suppress(BufferError):                  # exported views own it now; dropping our reference is enough
                m.close()
        self._maps, self._starts, self.size = [], [], 0


def _map(path: Path) -> mmap.mmap:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as e:
        reason = e.strerror if isinstance(e, OSError) else e
        raise malformed(str(path), f"cannot be opened ({reason})") from None
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise malformed(str(path), "not a regular file")
        if info.st_size == 0:
            raise malformed(str(path), "the file is empty")
        return mmap.mmap(fd, info.st_size, access=mmap.ACCESS_READ)
    finally:
        os.close(fd)


def check_no_overlap(name: str, tensors: Sequence[TensorInfo]) -> None:
    """Raise FormatError when two tensors of one file share a byte."""
    last: TensorInfo | None = None
    for t in sorted(tensors, key=lambda t: (t.offset, t.nbytes)):
        if last is not None and t.nbytes and t.offset < last.offset + last.nbytes:
            end = last.offset + last.nbytes
            raise malformed(name, f"tensors '{last.name}' and '{t.name}' overlap (ends at {end:,}, starts at {t.offset:,})")
        last = t
