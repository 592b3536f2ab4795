"""Splitting a stream at markers: plain text is passed on at once, what may become a marker is held back."""

from __future__ import annotations

from collections.abc import Sequence


def find_first(text: str, markers: Sequence[str], start: int = 0) -> tuple[int, str] | None:
    """Position and marker of the one that begins first, the longest of those; None without one."""
    found = [(at, -len(m), m) for m in markers if (at := text.find(m, start)) >= 0]
    if not found:
        return None
    at, _, marker = min(found)
    return at, marker


def certain(text: str, markers: Sequence[str]) -> int:
    """How many characters of `text` cannot belong to a marker that is still incomplete at its end."""
    size = len(text)
    for n in range(min(max(map(len, markers), default=1) - 1, size), 0, -1):
        tail = text[size - n :]
        if any(len(m) > n and m.startswith(tail) for m in markers):
            return size - n
    return size
