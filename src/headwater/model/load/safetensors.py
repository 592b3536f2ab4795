"""safetensors containers, memory-mapped: one file, a sharded set with its index, or a folder; every offset is checked before use.

Layout (format description of the safetensors project): u64 header length, JSON header, data section without holes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headwater.core.errors import FormatError
from headwater.model.load.mapped import MappedBytes, TensorInfo, check_no_overlap, malformed

DTYPE_BYTES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1,
    "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1,
}
READABLE = frozenset(t for t in DTYPE_BYTES if not t.startswith("F8"))
MAX_HEADER = 8 << 20
MAX_JSON_ITEMS = 300_000                                            # some 33,000 tensors; parsed, an item takes up to 200 bytes of memory
MAX_DIMS = 8


class SafetensorsFile:
    """Open weights. metadata: the `__metadata__` strings of all shards, the first one's winning. tensors: in file order."""

    def __init__(self, shards: list[MappedBytes], metadata: dict[str, str], tensors: dict[str, TensorInfo]) -> None:
        self._shards, self.metadata, self.tensors = shards, metadata, tensors
        self.name = shards[0].name
        self.nbytes = sum(s.size for s in shards)

    def raw(self, name: str) -> np.ndarray:
        """uint8[nbytes], read-only view of the tensor's bytes (row-major, little-endian).

        Raises FormatError for an unknown name or a dtype that cannot be read.
        """
        info = self.tensors.get(name)
        if info is None:
            raise malformed(self.name, f"no tensor '{name}'", name)
        if info.ggml_type not in READABLE:
            what = f"tensor '{name}' is stored as {info.ggml_type}; 8-bit floats are not supported, convert the weights to BF16"
            raise malformed(self.name, what, name)
        return self._shards[info.shard].view(info.offset, info.nbytes)

    def read_ahead(self) -> None:
        """All tensors will be read soon."""
        for s in self._shards:
            s.read_ahead()

    def close(self) -> None:
        """Release the mapping; the tensor table stays usable, `raw` does not."""
        for s in self._shards:
            s.close()

    def __enter__(self) -> SafetensorsFile:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def open_safetensors(path: Path | str | Sequence[Path]) -> SafetensorsFile:
    """Open one `.safetensors` file, a list of shards, a `.safetensors.index.json`, or a folder that holds either.

    Raises FormatError, one line naming the file and the field, for anything malformed.
    """
    wanted: dict[str, str] = {}
    if isinstance(path, str | Path):
        files, wanted = _resolve(Path(path))
    else:
        files = [Path(p) for p in path]
    if not files:
        raise FormatError("no safetensors file given")
    shards: list[MappedBytes] = []
    try:
        metadata: dict[str, str] = {}
        tensors: dict[str, TensorInfo] = {}
        for i, file in enumerate(files):
            shards.append(MappedBytes([file]))
            _read_shard(shards[-1], i, metadata, tensors)
        for name, file_name in wanted.items():
            if name not in tensors:
                raise malformed(Path(str(path)).name, f"tensor '{name}' is said to be in {file_name} but is not there", name)
        return SafetensorsFile(shards, metadata, tensors)
    except BaseException:
        for s in shards:
            s.close()
        raise


def _resolve(path: Path) -> tuple[list[Path], dict[str, str]]:
    """The shard files that `path` stands for, and the index's weight map (empty without an index)."""
    if path.is_dir():
        single, index = path / "model.safetensors", path / "model.safetensors.index.json"
        if not single.is_file() and not index.is_file():
            raise malformed(str(path), "holds neither model.safetensors nor model.safetensors.index.json")
        path = single if single.is_file() else index
    if not path.name.endswith(".json"):
        return [path], {}
    wanted = _weight_map(path)
    names = sorted(set(wanted.values()))
    return [path.parent / n for n in names], wanted


def _weight_map(path: Path) -> dict[str, str]:
    try:
        with path.open("rb") as f:
            text = f.read(MAX_HEADER + 1)
    except OSError as e:
        raise malformed(str(path), f"cannot be opened ({e.strerror})") from None
    if len(text) > MAX_HEADER:
        raise malformed(path.name, f"an index of more than {MAX_HEADER:,} bytes")
    index = parse_json_object(text, path.name)
    wanted = index.get("weight_map")
    if not isinstance(wanted, dict) or not wanted:
        raise malformed(path.name, "'weight_map' is missing or not an object of tensor name -> file name", "weight_map")
    for name, file in wanted.items():
        # the file must lie beside the index: a path out of the folder would open anything on the machine
        if not isinstance(file, str) or not file.endswith(".safetensors") or file != Path(file).name or "\0" in file:
            raise malformed(path.name, f"weight_map['{name}'] is {file!r}; the name of a .safetensors file would be right", name)
    return wanted


def parse_json_object(text: bytes, label: str) -> dict[str, Any]:
    """Parse untrusted JSON that must be an object. Raises FormatError for anything else, duplicate keys included."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(pairs)
        if len(out) < len(pairs):
            seen: set[str] = set()
            twice = next(k for k, _ in pairs if k in seen or seen.add(k))  # type: ignore[func-returns-value]
            raise malformed(label, f"key '{twice}' appears twice", twice)
        return out

    if text.count(b",") + text.count(b"{") + text.count(b"[") > MAX_JSON_ITEMS:
        raise malformed(label, f"the JSON holds more than {MAX_JSON_ITEMS:,} items")
    try:
        value = json.loads(text.decode(), object_pairs_hook=unique)
    except UnicodeDecodeError as e:
        raise malformed(label, f"the JSON is not UTF-8 (at its byte {e.start})") from None
    except RecursionError:
        raise malformed(label, "the JSON is nested too deeply") from None
    except ValueError as e:
        raise malformed(label, f"not valid JSON ({' '.join(str(e).split())[:120]})") from None
    if not isinstance(value, dict):
        raise malformed(label, "the JSON is not an object")
    return value


def _read_shard(shard: MappedBytes, index: int, metadata: dict[str, str], tensors: dict[str, TensorInfo]) -> None:
    name = shard.name
    if shard.size < 10:
        raise malformed(name, f"{shard.size} bytes are too few for a safetensors file (truncated download?)")
    n = int.from_bytes(shard.view(0, 8).tobytes(), "little")
    if n > shard.size - 8:
        raise malformed(name, f"the header claims {n:,} bytes but the file has {shard.size:,} (not safetensors, or truncated?)")
    if n > MAX_HEADER:
        raise malformed(name, f"the header claims {n:,} bytes; at most {MAX_HEADER:,} are allowed")
    header = parse_json_object(shard.view(8, n).tobytes(), f"{name} (header)")
    meta = header.pop("__metadata__", {})
    if not isinstance(meta, dict) or not all(isinstance(v, str) for v in meta.values()):
        raise malformed(name, "'__metadata__' is not an object of strings", "__metadata__")
    infos = [_place(name, key, entry, start=8 + n, size=shard.size, shard=index) for key, entry in header.items()]
    check_no_overlap(name, infos)
    covered = sum(t.nbytes for t in infos)
    if covered != shard.size - 8 - n:
        raise malformed(name, f"its tensors take {covered:,} bytes, its data section has {shard.size - 8 - n:,}")
    for info in infos:
        if info.name in tensors:
            raise malformed(name, f"tensor '{info.name}' is also in another shard", info.name)
        tensors[info.name] = info
    for key, value in meta.items():
        metadata.setdefault(key, value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62


def _place(file: str, name: str, entry: Any, *, start: int, size: int, shard: int) -> TensorInfo:
    """Check one header entry. start: of the data section; size: of the file."""

    def bad(what: str) -> FormatError:
        return malformed(file, f"tensor '{name}' {what}", name)

    if not isinstance(entry, dict):
        raise bad("is not described by an object")
    dtype, shape, span = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in DTYPE_BYTES:
        raise bad(f"has the unknown dtype {str(dtype)[:40]!r}; known: {', '.join(DTYPE_BYTES)}")
    if not isinstance(shape, list) or len(shape) > MAX_DIMS or not all(_is_count(d) for d in shape):
        raise bad(f"has the shape {str(shape)[:60]}; up to {MAX_DIMS} whole numbers would be right")
    if not isinstance(span, list) or len(span) != 2 or not all(_is_count(v) for v in span) or span[0] > span[1]:
        raise bad(f"has the data_offsets {str(span)[:60]}; [begin, end] would be right")
    nbytes = DTYPE_BYTES[dtype]
    for d in shape:
        nbytes *= d
    if nbytes != span[1] - span[0]:
        wanted = f"{nbytes:,}" if nbytes < 1 << 62 else "over 2^62"
        raise bad(f"({dtype} {shape}) needs {wanted} bytes, its data_offsets give {span[1] - span[0]:,}")
    if start + span[1] > size:
        raise bad(f"ends at byte {start + span[1]:,} but the file has {size:,} bytes (truncated download?)")
    return TensorInfo(name, dtype, tuple(shape), start + span[0], nbytes, shard)
