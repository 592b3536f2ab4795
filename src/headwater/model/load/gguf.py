"""GGUF v2 and v3 containers, memory-mapped; every length, count and offset is checked before it is used.

Layout (GGUF specification in the ggml repository, docs/gguf.md): magic, version, tensor count, key count, the key-value pairs,
the tensor table, then the data section at the next multiple of `general.alignment`. All integers are little-endian.
"""

from __future__ import annotations

import math
import re
import struct
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np

from headwater.core.errors import FormatError
from headwater.model.load.mapped import MappedBytes, TensorInfo, check_no_overlap, malformed

# id -> (name, values per block, bytes per block); ids without an entry were never used or were removed from the format
GGML_TYPES: dict[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22), 7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 36), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110), 12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292), 16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50), 20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136), 24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66), 39: ("MXFP4", 32, 17),
}
READABLE = frozenset((
    "F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS",
    "I8", "I16", "I32", "I64", "F64",
))
BLOCK_SIZE: dict[str, tuple[int, int]] = {name: (values, nbytes) for name, values, nbytes in GGML_TYPES.values()}

MAX_KEYS = 1 << 16
MAX_TENSORS = 1 << 16
MAX_METADATA = 40 << 20                                             # bytes; the largest vocabularies of today take 16 MiB
HEAD_LIMIT = 48 << 20                                               # how much of a file in small parts is joined in memory
MAX_NESTED = 1 << 14                                                # arrays inside arrays, in all
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY, _BOOL = 8, 9, 7
_U64 = struct.Struct("<Q")
_SPLIT_NAME = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf", re.DOTALL)


class StringArray(Sequence[str]):
    """An array of strings that decodes an item when it is asked for; owns its bytes, so it outlives the file."""

    def __init__(self, label: str, span: bytes, ends: np.ndarray) -> None:
        """label: 'file: key' for errors. span: the encoded array (length prefix of 8 bytes before each string).
        ends: int64[n], the end of each string within span."""
        self._label, self.span, self._ends = label, span, ends

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, i: int) -> str: ...
    @overload
    def __getitem__(self, i: slice) -> list[str]: ...
    def __getitem__(self, i: int | slice) -> str | list[str]:
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(len(self)))]
        raw = self.bytes_at(i)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise malformed(self._label, f"item {i} is not UTF-8: {raw[:40]!r}") from None

    def bytes_at(self, i: int) -> bytes:
        """The bytes of string `i`, decoded or not."""
        i = range(len(self))[i]                                     # IndexError and negative indices as in a list
        start = 8 + (int(self._ends[i - 1]) if i else 0)
        return self.span[start : int(self._ends[i])]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tolist())

    def tolist(self) -> list[str]:
        """All strings. Raises FormatError naming the first that is not UTF-8."""
        text = self.joined()
        return self._decode_each() if text is None else text.split("\0")

    def joined(self) -> str | None:
        """All strings in one, separated by U+0000; None when one of them holds it, or there are none, or one is not UTF-8.

        Splitting one long string is several times as fast as decoding a hundred thousand short ones.
        """
        if not len(self._ends):
            return None
        raw, starts = np.frombuffer(self.span, np.uint8), np.concatenate(([0], self._ends[:-1]))
        keep = np.ones(len(raw), np.bool_)
        keep[(starts[:, None] + np.arange(8)).ravel()] = False      # the length prefixes go, but for one byte as the separator
        payload_zeros = np.count_nonzero(raw[keep] == 0)
        keep[starts[1:]] = True
        raw = raw.copy()
        raw[starts] = 0
        if payload_zeros:
            return None
        try:
            return raw[keep].tobytes().decode()
        except UnicodeDecodeError:
            return None

    def _decode_each(self) -> list[str]:
        span, start, out = self.span, 8, []
        try:
            for end in self._ends.tolist():
                out.append(str(span[start:end], "utf-8"))
                start = end + 8
        except UnicodeDecodeError:
            raise malformed(self._label, f"item {len(out)} is not UTF-8: {span[start:end][:40]!r}") from None
        return out


class GgufFile:
    """An open GGUF model.

    metadata: scalars as Python values, strings as str, numeric arrays as numpy (copies), string arrays as StringArray.
    tensors: in file order.
    """

    def __init__(self, shards: list[MappedBytes], metadata: dict[str, Any], tensors: dict[str, TensorInfo]) -> None:
        self._shards, self.metadata, self.tensors = shards, metadata, tensors
        self.name = shards[0].name
        self.nbytes = sum(s.size for s in shards)

    def raw(self, name: str) -> np.ndarray:
        """uint8[nbytes], read-only: the encoded tensor, without a copy unless it crosses the border of two parts.

        Raises FormatError for an unknown name or an encoding that cannot be read.
        """
        info = self.tensors.get(name)
        if info is None:
            raise malformed(self.name, f"no tensor '{name}'", name)
        if info.ggml_type not in READABLE:
            known = ", ".join(sorted(READABLE))
            raise malformed(self.name, f"tensor '{name}' has the unsupported type {info.ggml_type}; supported: {known}", name)
        return self._shards[info.shard].view(info.offset, info.nbytes)

    def read_ahead(self) -> None:
        """All tensors will be read soon."""
        for s in self._shards:
            s.read_ahead()

    def close(self) -> None:
        """Release the mapping; metadata and the tensor table stay usable, `raw` does not."""
        for s in self._shards:
            s.close()

    def __enter__(self) -> GgufFile:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def open_gguf(paths: Path | str | Sequence[Path]) -> GgufFile:
    """Open a GGUF model: one file, a split model (one of its `-00001-of-0000N` files, or all), or the parts of one file in order.

    Raises FormatError, one line naming the file and the field, for anything malformed.
    """
    listed = [Path(paths)] if isinstance(paths, str | Path) else [Path(p) for p in paths]
    if not listed:
        raise FormatError("no GGUF file given")
    if len(listed) == 1:
        listed = _siblings(listed[0])
    split = len(listed) > 1 and all(_starts_as_gguf(p) for p in listed)
    shards: list[MappedBytes] = []
    try:
        for group in [[p] for p in listed] if split else [listed]:
            shards.append(MappedBytes(group))
        metadata: dict[str, Any] = {}
        tensors: dict[str, TensorInfo] = {}
        for i, shard in enumerate(shards):
            _read_shard(shard, i, len(shards), metadata, tensors)
        _check_split_total(shards[0].name, metadata, tensors)
        return GgufFile(shards, metadata, tensors)
    except BaseException:
        for s in shards:
            s.close()
        raise


def _siblings(path: Path) -> list[Path]:
    """All files of the split model that `path` belongs to; [path] when its name is not that of a split."""
    m = _SPLIT_NAME.fullmatch(path.name)
    if m is None:
        return [path]
    count = int(m[3])
    found = [path.with_name(f"{m[1]}-{i:05d}-of-{m[3]}.gguf") for i in range(1, count + 1)]
    for p in found:
        if not p.is_file():
            raise malformed(path.name, f"the model is split into {count} files and {p.name} is missing")
    return found or [path]


def _starts_as_gguf(path: Path) -> bool:
    mapped = MappedBytes([path])
    magic = mapped.view(0, min(4, mapped.size)).tobytes()
    mapped.close()
    return magic == b"GGUF"


class _Cursor:
    """Reads the header front to back; refuses to step over its end. `copied` counts the bytes of metadata kept in memory."""

    def __init__(self, shard: MappedBytes) -> None:
        self.name, self.buf, self.pos = shard.name, shard.head(HEAD_LIMIT), 0
        self.copied = 0
        self.nested = 0
        whole = len(self.buf) >= shard.size
        self.end = f"the file has {shard.size:,}" if whole else f"the header may take the first {len(self.buf):,}"

    def fail(self, what: str) -> FormatError:
        return malformed(self.name, what)

    def need(self, nbytes: int, what: str) -> int:
        """Reserve `nbytes` and return where they start."""
        start = self.pos
        if nbytes > len(self.buf) - start:
            raise self.fail(f"{what} needs {nbytes:,} bytes at byte {start:,}, but {self.end} (truncated download?)")
        self.pos = start + nbytes
        return start

    def scalar(self, code: str, what: str) -> Any:
        fmt = struct.Struct("<" + code)
        return fmt.unpack_from(self.buf, self.need(fmt.size, what))[0]

    def string(self, what: str, limit: int = MAX_METADATA) -> str:
        n = self.scalar("Q", f"length of {what}")
        if n > limit:
            raise self.fail(f"{what} claims {n:,} bytes; at most {limit:,} are allowed")
        start = self.need(n, what)
        try:
            return str(self.buf[start : start + n], "utf-8")
        except UnicodeDecodeError as e:
            raise self.fail(f"{what} is not UTF-8 (at its byte {e.start})") from None

    def keep(self, nbytes: int, what: str) -> None:
        self.copied += nbytes
        if self.copied > MAX_METADATA:
            raise self.fail(f"{what} brings the metadata to {self.copied:,} bytes; at most {MAX_METADATA:,} are allowed")


def _read_shard(
    shard: MappedBytes, index: int, shards: int, metadata: dict[str, Any], tensors: dict[str, TensorInfo]
) -> None:
    c = _Cursor(shard)
    n_tensors, n_keys = _read_counts(c)
    own = _read_metadata(c, n_keys)
    _check_split_place(c, own, index, shards)
    table = _read_tensor_table(c, n_tensors)
    alignment = _alignment(c, own)
    start = -(-c.pos // alignment) * alignment
    infos = []
    for entry in table:
        nbytes = _tensor_bytes(c, entry)
        if entry.offset % alignment:
            raise c.fail(f"tensor '{entry.name}' starts at {entry.offset:,}, not a multiple of the alignment {alignment}")
        end = start + entry.offset + nbytes
        if end > shard.size:
            raise c.fail(f"tensor '{entry.name}' ends at byte {end:,} but the file has {shard.size:,} bytes (truncated download?)")
        if entry.name in tensors:
            raise c.fail(f"tensor '{entry.name}' appears twice")
        info = TensorInfo(entry.name, entry.type_name, tuple(reversed(entry.dims)), start + entry.offset, nbytes, index)
        tensors[entry.name] = info
        infos.append(info)
    check_no_overlap(c.name, infos)
    for key, value in own.items():                                  # the first file of a split model speaks for all
        metadata.setdefault(key, value)


def _read_counts(c: _Cursor) -> tuple[int, int]:
    start = c.need(4, "the magic number")
    magic = bytes(c.buf[start : start + 4])
    if magic != b"GGUF":
        raise c.fail(f"not a GGUF file (it starts with {magic!r}, not b'GGUF')")
    version = c.scalar("I", "the version")
    if version not in (2, 3):
        why = "big-endian files are not supported" if version in (2 << 24, 3 << 24) else "2 and 3 are supported"
        raise c.fail(f"GGUF version {version}: {why}")
    n_tensors, n_keys = c.scalar("Q", "the tensor count"), c.scalar("Q", "the key count")
    for label, n, most in (("tensors", n_tensors, MAX_TENSORS), ("metadata keys", n_keys, MAX_KEYS)):
        if n > most:
            raise c.fail(f"claims {n:,} {label}; at most {most:,} are allowed")
    return n_tensors, n_keys


def _read_metadata(c: _Cursor, n_keys: int) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for i in range(n_keys):
        key = c.string(f"name of metadata key {i}", limit=65535)
        if key in out:
            raise c.fail(f"metadata key '{key}' appears twice")
        out[key] = _read_value(c, c.scalar("I", f"type of '{key}'"), f"'{key}'", 0)
    return out


def _read_value(c: _Cursor, kind: int, what: str, depth: int) -> Any:
    if kind == _STRING:
        text = c.string(what)
        c.keep(len(text), what)
        return text
    if kind == _ARRAY:
        return _read_array(c, what, depth)
    if kind == _BOOL:
        value = c.scalar("B", what)
        if value > 1:
            raise c.fail(f"{what} is a truth value but holds {value}")
        return bool(value)
    if kind not in _SCALARS:
        raise c.fail(f"{what} has the unknown value type {kind}")
    return c.scalar(_SCALARS[kind], what)


def _read_array(c: _Cursor, what: str, depth: int) -> Any:
    kind, n = c.scalar("I", f"item type of {what}"), c.scalar("Q", f"length of {what}")
    if kind == _STRING:
        return _read_strings(c, what, n)
    if kind == _ARRAY:
        c.nested += min(n, MAX_NESTED + 1)
        if depth >= 3 or c.nested > MAX_NESTED:
            raise c.fail(f"{what} nests arrays deeper than 4 or holds more than {MAX_NESTED:,} of them")
        return [_read_array(c, f"{what}[{i}]", depth + 1) for i in range(n)]
    if kind not in _SCALARS:
        raise c.fail(f"{what} is an array of the unknown value type {kind}")
    dtype = np.dtype(_SCALARS[kind]).newbyteorder("<")
    start = c.need(n * dtype.itemsize, f"{what} ({n:,} items)")
    c.keep(n * dtype.itemsize, what)
    if kind == _BOOL:
        raw = np.frombuffer(c.buf, np.uint8, n, start)
        if n and raw.max() > 1:
            raise c.fail(f"{what} is an array of truth values but holds {raw.max()}")
        return raw.astype(np.bool_)
    return np.frombuffer(c.buf, dtype, n, start).copy()


def _read_strings(c: _Cursor, what: str, n: int) -> StringArray:
    """Walk the length prefixes without decoding: a vocabulary of a quarter million costs milliseconds."""
    first = c.pos
    room = len(c.buf) - first
    if n > room // 8:
        raise c.fail(f"{what} claims {n:,} strings but only {room:,} bytes follow (truncated download?)")
    limit = min(room, MAX_METADATA - c.copied)
    span = c.buf[first : first + limit]
    ends = _string_ends(span, n)
    if len(ends) < n:
        if limit < room:
            c.keep(limit + 1, what)                                 # raises: the metadata budget is spent
        raise c.fail(f"{what}: string {len(ends):,} of {n:,} needs more bytes, but {c.end} (truncated download?)")
    used = ends[-1] if n else 0
    c.need(used, what)
    c.keep(used, what)
    return StringArray(f"{c.name}: {what}", bytes(span[:used]), np.array(ends, np.int64))


def _string_ends(span: memoryview, n: int) -> array[int]:
    """The ends of the first `n` strings of an encoded array; fewer when one reaches behind `span`.

    Nearly all strings are shorter than 256 bytes, so a chunk is first walked by the low byte of each length (2.5 times as fast as
    reading all eight) and then checked at once; a chunk with a longer string is walked again in full.
    """
    ends, raw, pos = array("q", bytes(0)), np.frombuffer(span, np.uint8), 0
    while len(ends) < n:
        count = min(4096, n - len(ends))
        chunk, at = [pos], pos
        try:
            for _ in range(count):
                at += 8 + span[at]
                chunk.append(at)
        except IndexError:
            pass
        starts = np.array(chunk[:-1], np.int64)
        if len(starts) < count or chunk[-1] > len(span) or raw[starts[:, None] + np.arange(1, 8)].any():
            chunk = [pos, *_string_ends_exact(span, pos, count)]
        ends.extend(chunk[1:])
        pos = chunk[-1]
        if len(chunk) <= count:
            break
    return ends


def _string_ends_exact(span: memoryview, pos: int, n: int) -> list[int]:
    ends: list[int] = []
    while len(ends) < n and pos <= len(span) - 8:
        pos += 8 + _U64.unpack_from(span, pos)[0]
        if pos > len(span):
            break
        ends.append(pos)
    return ends


class _Entry(NamedTuple):
    """A line of the tensor table as stored: dims fastest first, offset from the start of the data section."""

    name: str
    type_name: str
    dims: tuple[int, ...]
    offset: int


def _read_tensor_table(c: _Cursor, n: int) -> list[_Entry]:
    if n * 32 > len(c.buf) - c.pos:                                 # a name may be empty, but 32 bytes are always there
        raise c.fail(f"claims {n:,} tensors but only {len(c.buf) - c.pos:,} bytes follow the metadata (truncated download?)")
    out = []
    for i in range(n):
        name = c.string(f"name of tensor {i}", limit=1024)
        n_dims = c.scalar("I", f"dimension count of tensor '{name}'")
        if not 1 <= n_dims <= 4:
            raise c.fail(f"tensor '{name}' has {n_dims} dimensions; 1 to 4 are allowed")
        start = c.need(8 * n_dims, f"dimensions of tensor '{name}'")
        dims = struct.unpack_from(f"<{n_dims}Q", c.buf, start)
        type_id, offset = c.scalar("I", f"type of tensor '{name}'"), c.scalar("Q", f"offset of tensor '{name}'")
        type_name = GGML_TYPES[type_id][0] if type_id in GGML_TYPES else f"type {type_id}"
        out.append(_Entry(name, type_name, dims, offset))
    return out


def _alignment(c: _Cursor, metadata: dict[str, Any]) -> int:
    value = metadata.get("general.alignment", 32)
    if not isinstance(value, int) or not 1 <= value <= 1 << 16 or value & (value - 1):
        raise c.fail(f"'general.alignment' is {value!r}; a power of two up to 65,536 would be right")
    return value


def _tensor_bytes(c: _Cursor, t: _Entry) -> int:
    """Encoded size of a tensor whose dimensions fit its type; 0 for a type that we do not know."""
    if 0 in t.dims:
        raise c.fail(f"tensor '{t.name}' has a dimension of 0: {list(t.dims)}")
    block, block_bytes = BLOCK_SIZE.get(t.type_name, (1, 0))
    if t.dims[0] % block:
        raise c.fail(f"tensor '{t.name}': its rows have {t.dims[0]:,} values, {t.type_name} needs a multiple of {block}")
    values = math.prod(t.dims)
    if values >= 1 << 62:
        raise c.fail(f"tensor '{t.name}' claims {values:,} values: {list(t.dims)}")
    return values // block * block_bytes


def _check_split_place(c: _Cursor, own: dict[str, Any], index: int, shards: int) -> None:
    count, place = own.get("split.count", 1), own.get("split.no", 0)
    if not isinstance(count, int) or not isinstance(place, int):
        raise c.fail(f"'split.count' and 'split.no' are {count!r} and {place!r}; whole numbers would be right")
    if max(count, 1) != shards:
        raise c.fail(f"'split.count' says {count} files, {shards} given; give one named -00001-of-{count:05d}.gguf")
    if place != index:
        raise c.fail(f"'split.no' says {place}, but this is file {index} of the model (files in the wrong order?)")


def _check_split_total(name: str, metadata: dict[str, Any], tensors: dict[str, TensorInfo]) -> None:
    total = metadata.get("split.tensors.count")
    if total is not None and total != len(tensors):
        raise malformed(name, f"'split.tensors.count' says {total!r} tensors, the files hold {len(tensors)}")
