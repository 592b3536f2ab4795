"""Rule 54, hardware: memory size, memory type, bandwidth, link and year of an accelerator against the fact table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from headwater.ledger import facts
from headwater.ledger.lint import words
from headwater.ledger.lint.brief import Brief
from headwater.ledger.lint.finding import Finding, Place
from headwater.ledger.lint.registry import check

_BANDWIDTH = re.compile(r"(?P<n>\d[\d,]*(?:\.\d+)?)\s*(?P<u>GB/s|TB/s|GB／s|TB／s)", re.IGNORECASE)
_MEMORY = re.compile(r"(?<![\d.])(?P<n>\d{1,4})\s*(?:GB|GiB|G)\b(?!\s*/\s*s|/s|bps)", re.IGNORECASE)
_TYPE = re.compile(r"\b(?P<t>HBM\d?[eE]?|GDDR\d[xX]?|LPDDR\d[xX]?)\b", re.IGNORECASE)
_YEAR = re.compile(r"^\s*(?P<y>20[12]\d)\s*(?:年)?\s*$")
_LINK = words.rx(r"NVLink|互联|互连|卡间|interconnect|link|xGMI|ICI")
_OTHER_BUS = words.rx(r"PCI-?e|网络|以太|network|InfiniBand|NIC|RDMA|SSD|NVMe|磁盘|disk|host|主机|L2|cache")
_ACHIEVED = words.rx(
    r"实测|达到|跑到|利用|仅用|占用|使用|achiev|measur|sustain|reach|observ|used|usage|utili[sz]|effective|有效|需要|requires?|needs?|only uses"
)
_SPEC = words.rx(
    r"(?:显存|内存|memory|HBM)?\s*(?:带宽|bandwidth)\s*(?:为|是|仅|只有|达|of|is|at|=|:|：)?\s*(?:only|just|about|约|仅)?\s*$|"
    r"[（(,，]\s*$|(?:has|offers?|with|配备|配|具有|拥有|提供)\s*(?:only|just|仅|only about)?\s*$"
)


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], dict[str, Any]], ...]:
    """(name pattern, fact), longest names first."""
    pairs = [(n, f) for f in facts.load("hardware") for n in (f["name"], *f.get("aliases", []))]
    pairs.sort(key=lambda p: -len(p[0]))
    return tuple(
        (
            re.compile(
                rf"(?<![\w.-])(?P<name>{re.escape(n).replace(chr(92) + ' ', '[ -]?')})(?:[- ]?(?:SXM\d?|PCIe|NVL\d*))?(?:[- "
                rf"](?P<mem>\d{{2,3}})\s?GB?)?(?![\w-])",
                re.IGNORECASE if len(n) > 4 else 0,
            ),
            f,
        )
        for n, f in pairs
    )


def _mentions(text: str) -> Iterator[tuple[re.Match[str], dict[str, Any]]]:
    taken: list[tuple[int, int]] = []
    if not any(c.isdigit() for c in text):
        return
    for pattern, fact in _patterns():
        for m in pattern.finditer(text):
            if not any(m.start() < e and m.end() > s for s, e in taken):
                taken.append(m.span())
                yield m, fact


def _reach(text: str, m: re.Match[str], ends: list[int]) -> tuple[str, bool]:
    """(what is said about this mention, whether it stands in its own bracket)."""
    rest = text[m.end() :]
    bracket = re.match(r"\s*[（(](?P<in>[^（）()]{2,80})[）)]", rest)
    if bracket:
        return bracket["in"], True
    stop = min((e for e in ends if e > m.end()), default=len(text)) - m.end()
    return re.split(r"[，。；;,]|\bvs\b|而|但|while|but", rest[: max(0, min(stop, 60))])[0], False


def _gbs(m: re.Match[str]) -> float:
    value = float(m["n"].replace(",", ""))
    return value * 1000 if m["u"].upper().startswith("T") else value


def _bandwidth_wrong(told: str, own: bool, fact: dict[str, Any]) -> str:
    for b in _BANDWIDTH.finditer(told):
        before, after = told[: b.start()], told[b.end() : b.end() + 14]
        value = _gbs(b)
        if _OTHER_BUS.search(before[-16:]) or _OTHER_BUS.search(after):
            continue
        if _LINK.search(before[-16:]) or _LINK.search(after):
            link = fact["link_gbs"]
            if link and not 0.9 * link <= value <= 1.1 * link and not 0.45 * link <= value <= 0.55 * link:
                return f"{b[0]} link bandwidth; {fact['name']} has {link} GB/s"
            continue
        if _ACHIEVED.search(told) or not (own or _SPEC.search(before)):
            continue
        if not any(0.93 * s <= value <= 1.07 * s for s in fact["bandwidth_gbs"]):
            note = f" ({fact['link_gbs']} GB/s is its link)" if fact["link_gbs"] and abs(value - fact["link_gbs"]) < 1 else ""
            return f"{b[0]} memory bandwidth; {fact['name']} has {' / '.join(map(str, fact['bandwidth_gbs']))} GB/s{note}"
    return ""


def _memory_wrong(told: str, own: bool, fact: dict[str, Any]) -> str:
    for g in _MEMORY.finditer(told):
        before = told[: g.start()]
        spec = (own and re.fullmatch(r"[^\d]{0,10}", before)) or re.search(
            r"(?:has|with|offers?|配备?|自带|拥有)\s*(?:only\s*)?$|(?:显存|memory)\s*(?:为|是|容量|of|is)?\s*$",
            before,
            re.IGNORECASE,
        )
        if (
            spec
            and not _ACHIEVED.search(told)
            and int(g["n"]) not in fact["memory_gb"]
            and int(g["n"]) >= 8
            and not re.search(r"[×x*]\s*$|总|共|total", before)
        ):
            return f"{g[0]} memory; {fact['name']} has {' / '.join(map(str, fact['memory_gb']))} GB"
    return ""


def _type_wrong(told: str, own: bool, fact: dict[str, Any]) -> str:
    t = _TYPE.search(told)
    if t and own and not any(_same_type(t["t"], k) for k in fact["memory_type"]):
        return f"{t['t']}; {fact['name']} has {' / '.join(fact['memory_type'])}"
    return ""


def _same_type(stated: str, known: str) -> bool:
    a, b = stated.upper(), known.upper()
    return a == b or ((a == "HBM" or b == "HBM") and a[:3] == b[:3])


@check(54)
def hardware_facts(brief: Brief) -> Iterator[Finding]:
    """What is said in a bracket or directly behind an accelerator's name."""
    told_already: set[tuple[str, str]] = set()
    for line, text in brief.text_lines():
        mentions = sorted(_mentions(text), key=lambda p: p[0].start())
        starts = [m.start() for m, _ in mentions]
        for m, fact in mentions:
            told, own = _reach(text, m, starts)
            wrong = [
                w for w in (_bandwidth_wrong(told, own, fact), _memory_wrong(told, own, fact), _type_wrong(told, own, fact)) if w
            ]
            year = _YEAR.match(told) if own else None
            if year and abs(int(year["y"]) - fact["year"]) > 1:
                wrong.append(f"{year['y']}; {fact['name']} came out in {fact['year']}")
            if m["mem"] and int(m["mem"]) not in fact["memory_gb"] and int(m["mem"]) >= 8:
                wrong.append(f"{m['mem']} GB; {fact['name']} has {' / '.join(map(str, fact['memory_gb']))} GB")
            if wrong and (fact["name"], wrong[0]) not in told_already:
                told_already.add((fact["name"], wrong[0]))
                span = text[m.start() : m.end() + text[m.end() :].find(told) + len(told)] + (
                    text[m.end() + text[m.end() :].find(told) + len(told)] if own else ""
                )
                yield Finding(
                    54,
                    Place(line, span.strip()),
                    f"{'; '.join(wrong)} — {facts.cite(fact)}",
                    "the manufacturer's figure, or another card",
                    (),
                    "facts",
                )
