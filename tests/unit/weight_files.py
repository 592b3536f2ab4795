"""Writers of small GGUF and safetensors files for tests; written from the format descriptions, independent of the readers."""

from __future__ import annotations

import json
import struct
from typing import Any

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
_CODES = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "?", U64: "Q", I64: "q", F64: "d"}


def gguf_string(text: str | bytes) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw


def gguf_value(kind: int, value: Any) -> bytes:
    """value for ARRAY: (item kind, list)."""
    if kind == STRING:
        return gguf_string(value)
    if kind == ARRAY:
        item, values = value
        return struct.pack("<IQ", item, len(values)) + b"".join(gguf_value(item, v) for v in values)
    return struct.pack("<" + _CODES[kind], value)


def gguf_header(
    keys: list[tuple[str, int, Any]],
    tensors: list[tuple[str, tuple[int, ...], int, int]],
    *,
    version: int = 3,
    magic: bytes = b"GGUF",
) -> bytes:
    """tensors: (name, dims fastest first, ggml type id, offset)."""
    out = [magic, struct.pack("<IQQ", version, len(tensors), len(keys))]
    out += [gguf_string(k) + struct.pack("<I", kind) + gguf_value(kind, v) for k, kind, v in keys]
    for name, dims, type_id, offset in tensors:
        out.append(gguf_string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, type_id, offset))
    return b"".join(out)


def gguf_file(
    keys: list[tuple[str, int, Any]],
    tensors: list[tuple[str, tuple[int, ...], int, bytes]],
    *,
    version: int = 3,
    alignment: int = 32,
) -> bytes:
    """tensors: (name, dims fastest first, ggml type id, data), laid out one after the other at `alignment`."""
    table, data = [], b""
    for name, dims, type_id, raw in tensors:
        data += b"\0" * (-len(data) % alignment)
        table.append((name, dims, type_id, len(data)))
        data += raw
    head = gguf_header(keys, table, version=version)
    return head + b"\0" * (-len(head) % alignment) + data


def small_gguf() -> bytes:
    """A file with every kind of metadata and four tensor types."""
    keys = [
        ("general.architecture", STRING, "llama"), ("general.alignment", U32, 32), ("x.f32", F32, 1.5), ("x.f64", F64, -2.25),
        ("x.i8", I8, -3), ("x.i16", I16, -300), ("x.i32", I32, -70000), ("x.i64", I64, -(1 << 40)), ("x.u8", U8, 200),
        ("x.u16", U16, 60000), ("x.u64", U64, 1 << 60), ("x.yes", BOOL, True),
        ("tokenizer.ggml.tokens", ARRAY, (STRING, ["a", "é", "", "x" * 300, "😀"])),
        ("tokenizer.ggml.scores", ARRAY, (F32, [0.5, -1.0])), ("x.flags", ARRAY, (BOOL, [True, False])),
        ("x.nested", ARRAY, (ARRAY, [(I32, [1, 2]), (STRING, ["p", "q"])])),
    ]
    tensors = [
        ("a.weight", (4, 3), 0, struct.pack("<12f", *range(12))), ("b.weight", (32, 2), 8, bytes(range(68))),
        ("c.weight", (64,), 3, bytes(40)), ("d.weight", (256, 1), 12, bytes(144)),
    ]
    return gguf_file(keys, tensors)


def safetensors_file(tensors: dict[str, tuple[str, list[int], bytes]], metadata: dict[str, str] | None = None) -> bytes:
    """tensors: name -> (dtype, shape, data)."""
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    data = b""
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    return safetensors_bytes(json.dumps(header).encode(), data)


def safetensors_bytes(header: bytes, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header)) + header + data


def small_safetensors() -> bytes:
    return safetensors_file(
        {
            "a.weight": ("F32", [3, 4], struct.pack("<12f", *range(12))), "b.weight": ("BF16", [2, 2], bytes(8)),
            "c.ids": ("I64", [2], struct.pack("<2q", 5, -6)), "d.scalar": ("F16", [], bytes(2)), "e.f8": ("F8_E4M3", [4], bytes(4)),
        },
        {"format": "pt"},
    )
