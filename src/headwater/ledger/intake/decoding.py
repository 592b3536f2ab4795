"""Bytes to text: UTF-8 (with or without mark), UTF-16, GB18030, broken UTF-8. What was odd comes back as flags, never as silence."""

from __future__ import annotations

import codecs
from dataclasses import dataclass, field

_COMMON = set("的一是在不了有和人这中大为上个国我以要他时来用们生到作地于出就分对成会可主发年动同工也能下过子说产种面而方后多定行学法所民得经")


@dataclass(slots=True)
class Decoded:
    """text, the encoding used, and flags such as `gb18030` or `3 bytes are not UTF-8, first at byte 120`."""

    text: str
    encoding: str
    flags: list[str] = field(default_factory=list)


def decode_bytes(data: bytes) -> Decoded | None:
    """Decode a note; None when the bytes are no text (NUL bytes without a UTF-16 mark)."""
    if data.startswith(codecs.BOM_UTF8):
        data = data[3:]
    for mark, name in ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        if data.startswith(mark):
            return Decoded(data[2:].decode(name, "replace"), name, [name])
    if b"\x00" in data:
        return None
    try:
        return Decoded(data.decode("utf-8"), "utf-8")
    except UnicodeDecodeError as e:
        first, patched = e.start, data.decode("utf-8", "replace")
    bad = patched.count("\ufffd")
    good = sum(ord(c) > 127 and c != "\ufffd" for c in patched)
    if bad > good // 4 and _reads_as_chinese(data):
        return Decoded(data.decode("gb18030"), "gb18030", ["read as GB18030"])
    return Decoded(patched, "utf-8", [f"{bad:,} bytes are not UTF-8 (first at byte {first:,}); shown as U+FFFD, the file keeps them"])


def _reads_as_chinese(data: bytes) -> bool:
    """Strictly valid GB18030 in which the commonest characters are as frequent as in real Chinese."""
    try:
        text = data.decode("gb18030")
    except UnicodeDecodeError:
        return False
    han = [c for c in text if "\u4e00" <= c <= "\u9fff"]
    return len(han) >= 4 and sum(c in _COMMON for c in han) >= len(han) * 0.04 and len(han) >= 0.6 * sum(ord(c) > 127 for c in text) - 8
