"""Counts in prose: `6 条`, `六条`, `8 份材料`, `five increments`, `20+ sources`."""

from __future__ import annotations

import re
from dataclasses import dataclass

_HAN = {c: i for i, c in enumerate("零一二三四五六七八九")} | {"两": 2, "双": 2, "仨": 3}
_EN = {
    w: i
    for i, w in enumerate(
        [
            "zero",
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
            "thirteen",
            "fourteen",
            "fifteen",
            "sixteen",
            "seventeen",
            "eighteen",
            "nineteen",
            "twenty",
        ]
    )
}
NUMBER = r"(?:\d{1,4}(?![\d.,:：%×/-]{0,6}\d)|[一二三四五六七八九十两]{1,3}|" + "|".join(f"\\b{w}\\b" for w in list(_EN)[1:]) + r")"
CLASSIFIER = r"(?:条|件|个|篇|份|张|项|处|类|则|款|家|组|部|批|轮|只|场)"


@dataclass(frozen=True, slots=True)
class Count:
    """A stated number of things at text[start:end]. open_end: `20+` or `at least 20`."""

    value: int
    start: int
    end: int
    open_end: bool = False


def value_of(text: str) -> int | None:
    """Integer of an Arabic, Chinese or English numeral up to 9999; None when it is none."""
    flat = text.strip().lower()
    if flat.isdigit():
        return int(flat)
    if flat in _EN:
        return _EN[flat]
    if not flat or any(c not in _HAN and c != "十" for c in flat):
        return None
    if "十" not in flat:
        return _HAN[flat] if len(flat) == 1 else None
    tens, _, ones = flat.partition("十")
    return (_HAN.get(tens, 1) if tens else 1) * 10 + (_HAN.get(ones, 0) if ones else 0)


def counts_of(pattern: str, text: str) -> list[Count]:
    """All counts whose whole form matches a pattern with a group `n` (or `n2`) for the numeral (see NUMBER)."""
    out = []
    for m in re.finditer(pattern, text, re.IGNORECASE):
        n = value_of(m["n"] or m.groupdict().get("n2") or "")
        if n is not None:
            out.append(
                Count(n, m.start(), m.end(), bool(re.search(r"\+|以上|余|至少|at least|over|more than", m[0], re.IGNORECASE)))
            )
    return out
