"""Files from outside, read with suspicion: size, binary content and encoding are settled before any rule sees a line."""

from __future__ import annotations

from pathlib import Path

from headwater.core.errors import FormatError, UserInputError

MAX_BYTES = 2 * 1024 * 1024
MAX_LINE = 20_000  # characters; a brief's longest paragraph has a few thousand
NOTE_SUFFIXES = {".md", ".markdown", ".txt", ".text", ".rst", ""}


def read_note(path: Path) -> str:
    """The text of a brief or note. UTF-8 (with or without BOM), UTF-16 with BOM, or GB18030.

    Raises UserInputError or FormatError with one line that names the file and the reason: missing, a folder, too large, binary,
    not decodable, or a line too long to be prose.
    """
    try:
        size = path.stat().st_size
        if path.is_dir():
            raise UserInputError(f"{path}: a folder without ledger files (expected *.jsonl, *.md or *.txt)", field=str(path))
        if not path.is_file():
            raise UserInputError(f"{path}: not a regular file", field=str(path))
        if size > MAX_BYTES:
            raise FormatError(f"{path}: {size:,} bytes; a brief or note has at most {MAX_BYTES:,}", field=str(path))
        data = path.read_bytes()
    except FileNotFoundError:
        raise UserInputError(f"{path}: no such file", field=str(path)) from None
    except OSError as e:
        raise UserInputError(f"{path}: cannot be read ({e.strerror or e})", field=str(path)) from None
    return decode(data, str(path))


def decode(data: bytes, name: str) -> str:
    """Bytes to text with `\\n` line ends. Raises FormatError naming the byte at which UTF-8 broke when GB18030 does not fit either."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            text = data.decode("utf-16")
        except UnicodeDecodeError as e:
            raise FormatError(f"{name}: starts with a UTF-16 mark but byte {e.start} is not UTF-16", field=name) from None
    else:
        if b"\x00" in data:
            raise FormatError(f"{name}: a binary file (NUL at byte {data.index(0)}), not a brief or note", field=name)
        text = _utf8_or_gb18030(data, name)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    odd = sum(1 for c in text[:65536] if ord(c) < 32 and c not in "\n\t\f")
    if odd > 8 and odd > len(text[:65536]) // 200:
        raise FormatError(f"{name}: {odd} control characters in the first 64 KiB, not a brief or note", field=name)
    longest = max((len(line) for line in text.split("\n")), default=0)
    if longest > MAX_LINE:
        raise FormatError(
            f"{name}: a line of {longest:,} characters; prose has at most {MAX_LINE:,} (minified or generated file?)", field=name
        )
    return text


def _utf8_or_gb18030(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        broken = e.start
    try:
        text = data.decode("gb18030")
    except UnicodeDecodeError:
        raise FormatError(f"{name}: neither UTF-8 (byte {broken} is invalid) nor GB18030; save it as UTF-8", field=name) from None
    # GB18030 accepts almost any byte pair: believe it only when what comes out looks like Chinese text
    wide = [c for c in text if ord(c) > 0x7F]
    common = sum(1 for c in wide if "\u4e00" <= c <= "\u9fff" or c in "，。、；：？！（）《》“”‘’—…·【】")
    if not wide or common < 0.9 * len(wide):
        raise FormatError(f"{name}: broken UTF-8 at byte {broken}; save it as UTF-8", field=name)
    return text
