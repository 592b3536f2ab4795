"""Rule 29, arithmetic: a stated percentage, factor or number of points follows from the two values it is said to lie between."""

from __future__ import annotations

import re
from collections.abc import Iterator

from headwater.ledger.lint import words
from headwater.ledger.lint.brief import Brief
from headwater.ledger.lint.finding import Finding, Place
from headwater.ledger.lint.names import sentences
from headwater.ledger.lint.registry import check

_VALUE = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_UNIT = (
    r"个百分点|%|ms\b|μs\b|us\b|GiB|GB|MiB|MB|KB|TB|tok(?:ens?)?/s|req/s|QPS|秒|毫秒|分钟|小时|W\b|"
    r"kW|J\b|s\b|min\b|h\b|hours?\b|minutes?\b|seconds?\b"
)
_FROM_TO = re.compile(
    rf"(?:从|由|自)\s*(?P<a>{_VALUE})\s*(?P<ua>{_UNIT})?\s*(?:降|减|缩|升|提|增|涨|变|改|压)?"
    rf"[^\d，。；;,]{{0,6}}?(?:到|至|为|成)\s*(?P<b>{_VALUE})\s*(?P<ub>{_UNIT})?|"
    rf"\bfrom\s+(?P<a2>{_VALUE})\s*(?P<ua2>{_UNIT})?\s+(?:down |up )?to\s+(?P<b2>{_VALUE})\s*(?P<ub2>{_UNIT})?|"
    rf"(?P<a3>{_VALUE})\s*(?P<ua3>{_UNIT})?\s*(?:→|->)\s*(?P<b3>{_VALUE})\s*(?P<ub3>{_UNIT})?",
    re.IGNORECASE,
)
_POINTS = re.compile(rf"(?P<n>{_VALUE})\s*(?:个百分点|percentage points?|points?\b|pp\b)", re.IGNORECASE)
_PERCENT = re.compile(rf"(?P<n>{_VALUE})\s*(?:%|percent\b|per cent\b)", re.IGNORECASE)
_CHANGE = words.rx(
    r"降低|下降|减少|缩短|节省|提升|提高|上升|增加|增长|加快|相对|\bless\b|lower|fewer|smaller|reduc|cut\b|sav|drop|decreas|shrink|"
    r"more\b|higher|larger|faster|slower|increas|improv|rise|gain|growth"
)


# without units only what moves is a change; versions and dates are not
_MOVES = words.rx(r"[降减缩提增涨]|升(?!级)|falls?|fell|drops?|dropped|rises?|rose|reduced|cut|lowered|raised|improves?|grows?|grew|shrinks?")


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _allowed(a: float, b: float) -> list[float]:
    """Percentages that a change from a to b may be called: of the old value, and `x % faster` of the new one."""
    return [abs(b - a) / a * 100, abs(b - a) / b * 100 if b > a or not b else abs(a - b) / b * 100]


def _off(stated: float, right: list[float]) -> bool:
    return all(abs(stated - r) > max(1.0, 0.05 * r) for r in right)


def _wrong(m: re.Match[str], tail: str) -> tuple[str, str] | None:
    """(stated, right) of the first change behind a pair of values that does not follow from them."""
    a, b = _number(m["a"] or m["a2"] or m["a3"]), _number(m["b"] or m["b2"] or m["b3"])
    unit = m["ub"] or m["ub2"] or m["ub3"] or m["ua"] or m["ua2"] or m["ua3"] or ""
    if not a or not b or a == b:
        return None
    near = re.match(r"[^\d]{0,16}", tail)
    at = near.end() if near else 0
    points, percent = _POINTS.match(tail, at), _PERCENT.match(tail, at)
    if points and unit == "%":
        stated = _number(points["n"])
        return (points[0], f"{abs(b - a):.3g} points") if abs(stated - abs(b - a)) > max(0.051, 0.02 * abs(b - a)) else None
    if percent and not points and _CHANGE.search(tail[:at] + tail[percent.end() : percent.end() + 14]):
        stated = _number(percent["n"])
        right = [*_allowed(a, b), *([abs(b - a)] if unit == "%" else [])]
        faster = re.search(r"faster|加快|更快|提速", tail[: percent.end() + 14], re.IGNORECASE)
        return (percent[0], f"{right[0]:.3g} %") if _off(stated, right if faster or b > a else [right[0], *right[2:]]) else None
    return None


@check(29)
def change_follows_from_its_values(brief: Brief) -> Iterator[Finding]:
    """`from 60 GB to 42 GB (45 % less)`: it is 30 %."""
    for line, text in brief.text_lines():
        for _, sentence in sentences(text):
            for m in _FROM_TO.finditer(sentence):
                units = {u for u in (m["ua"] or m["ua2"] or m["ua3"], m["ub"] or m["ub2"] or m["ub3"]) if u}
                bare = not units and _MOVES.search(m[0] + sentence[max(0, m.start() - 14) : m.start()])
                found = _wrong(m, sentence[m.end() :]) if len(units) == 1 or bare else None
                if found:
                    stated, right = found
                    yield Finding(29, Place(line, stated), f'"{m[0].strip()}" is a change of {right}, {stated} is stated', right)
