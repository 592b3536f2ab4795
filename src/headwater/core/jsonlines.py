"""JSON lines: one value a line, lines end with a line feed and nothing else (JSON texts may hold U+2028, U+0085 and their like unescaped)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


def numbered(text: str) -> Iterator[tuple[int, str]]:
    """(number from 1, line) of every line that is not blank; a byte order mark at the beginning is no part of the first."""
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        if line.strip():
            yield number, line


def encoded(value: Any) -> bytes:
    """One line. Readable UTF-8, or plain ASCII where a text holds what UTF-8 cannot carry (a lone surrogate)."""
    try:
        return (json.dumps(value, ensure_ascii=False) + "\n").encode()
    except UnicodeEncodeError:
        return (json.dumps(value) + "\n").encode()
