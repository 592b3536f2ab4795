"""Rules 54 and 59, software: flags that exclude an endpoint, versions that belong to no release line, two releases called stable."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from functools import cache
from typing import Any

from headwater.ledger import facts
from headwater.ledger.lint import words
from headwater.ledger.lint.brief import Brief
from headwater.ledger.lint.finding import Finding, Place
from headwater.ledger.lint.names import sentences
from headwater.ledger.lint.registry import check
from headwater.ledger.parse.ids import find_dates

_REFUSES = words.rx(
    r"拒绝|不(?:兼容|支持|能|可|需|要)|无需|互斥|冲突|关闭|去掉|refus|reject|incompatib|not (?:supported|needed|allowed|with)|"
    r"without|must not|cannot|disable|exclud|mutually|no flag|conflict|instead of|unless|except"
)
_VERSION = (
    r"v?(?P<ver>\d{1,2}\.\d{1,2}(?:\.\d{1,3})?)(?:\.?(?:post|rc|dev|a|b)\d*)?(?![\d.]*\d|\s*[-–~～]\s*\d|\s*(?:[×%倍x]|GB|"
    r"ms|s\b|B\b|M\b|K\b))"
)
_STABLE = words.rx(r"稳定版|最新(?:版)?|正式版|当前版|latest|stable|current(?: release)?|newest")


@cache
def _names(fact_name: str) -> str:
    fact = facts.by_name("software")[fact_name.lower()]
    return "|".join(re.escape(n) for n in sorted((fact["name"], *fact.get("aliases", [])), key=len, reverse=True))


def _versions(text: str) -> Iterator[tuple[dict[str, Any], str, re.Match[str]]]:
    """(software fact, version, match) for `Name … v1.2.3` with at most a few words between."""
    for fact in facts.load("software"):
        pattern = (
            rf"(?<![\w/-])(?:{_names(fact['name'])})(?![\w/-])(?P<gap>[^\d，。；,;（()）/|"
            rf"、+A-Z]{{0,14}}?)(?<![\d.A-Za-uw-z]){_VERSION}"
        )
        for m in re.finditer(pattern, text):
            marked = text[m.start("ver") - 1] in "vV" or m["ver"].count(".") == 2
            if marked or not m["gap"].strip():  # a bare `4.7` some words later is a number, not a release
                yield fact, m["ver"], m


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(p) for p in re.findall(r"\d+", version)[:3])


def _stated_date(text: str, end: int) -> str:
    """A full date (with its year) in the bracket right behind a version."""
    bracket = re.match(r"\s*[（(](?P<in>[^）)]{3,40})[）)]", text[end:])
    if not bracket:
        return ""
    return next((d.value for d in find_dates(bracket["in"]) if re.fullmatch(r"20\d\d-\d\d-\d\d", d.value)), "")


def _release_wrong(fact: dict[str, Any], version: str, stated: str, today: date | None) -> str:
    """Why a version cannot be right; empty when it can."""
    asof = date.fromisoformat(fact["date"])
    latest = fact["latest"]
    if not re.fullmatch(fact["line"], version):
        newer = _parts(version)[:2] > _parts(latest)[:2] and _parts(version)[0] == _parts(latest)[0]
        if newer and (not today or today > asof):
            return ""
        return f"{fact['name']} has no release {version}; its line is that of {latest}"
    released = fact["releases"].get(version if version.count(".") == 2 else f"{version}.0")
    if released and stated and abs((date.fromisoformat(stated) - date.fromisoformat(released)).days) > 4:
        return f"{fact['name']} {version} came out on {released}, not {stated}"
    if released and today and (date.fromisoformat(released) - today).days > 30:
        return f"{fact['name']} {version} came out on {released}, after the brief ({today})"
    if _parts(version) > _parts(latest) and today and today <= asof:
        return f"{fact['name']} {version} is newer than the latest release of that day ({latest})"
    return ""


@check(59)
def release_lines(brief: Brief) -> Iterator[Finding]:
    """A version that belongs to no release line, or has another date."""
    found: dict[tuple[str, str], tuple[Place, str, dict[str, Any], list[Place]]] = {}
    for line, text in brief.text_lines():
        for fact, version, m in _versions(text):
            stated = _stated_date(text, m.end())
            key = (fact["name"], version)
            if key in found:
                if found[key][0].line != line:
                    found[key][3].append(Place(line, m[0]))
                continue
            wrong = _release_wrong(fact, version, stated, brief.date)
            if wrong:
                bracket = re.match(r"\s*[（(][^）)]{3,40}[）)]", text[m.end() :]) if stated else None
                found[key] = (Place(line, m[0] + (bracket[0] if bracket else "")), wrong, fact, [])
    for (_, version), (place, wrong, fact, more) in found.items():
        others = [
            Place(n, f"v{version}")
            for n, t in brief.text_lines()
            if n != place.line and re.search(rf"(?<![\w.])v{re.escape(version)}(?![\d.]*\d)", t)
        ]
        related = tuple({p.line: p for p in (*more, *others)}.values())
        yield Finding(
            59, place, f"{wrong} ({facts.cite(fact)})", "a version of the real release line, named as such", related, "facts"
        )


@check(59)
def two_current_releases(brief: Brief) -> Iterator[Finding]:
    """One software, two versions of different lines, both called stable or latest."""
    told: dict[str, dict[tuple[int, ...], Place]] = {}
    pattern = re.compile(
        rf"(?<![\w/-])(?P<name>[A-Za-z][\w.+-]{{2,24}}?)\s*(?:的)?\s*(?:稳定版|最新版?|正式版|当前版本?|(?:latest|stable|"
        rf"current)(?: (?:release|version))?)\s*(?:is|为|是|：|:)?\s*{_VERSION}",
        re.IGNORECASE,
    )
    reverse = re.compile(
        rf"(?:稳定版|最新版?|正式版|(?:latest|stable|current)(?: (?:release|version))?)\s*(?:of |"
        rf"的)?\s*(?P<name>[A-Za-z][\w.+-]{{2,24}})\s*(?:is|为|是|：|:)?\s*{_VERSION}",
        re.IGNORECASE,
    )
    for line, text in brief.text_lines():
        for _, sentence in sentences(text):
            for m in (*pattern.finditer(sentence), *reverse.finditer(sentence)):
                if m["name"].lower() in {"the", "and", "for", "version", "release", "latest", "stable", "current"} or re.search(
                    r"此前|上一|旧|曾|previous|former|old|was\b|until", sentence[max(0, m.start() - 12) : m.end()], re.IGNORECASE
                ):
                    continue
                v = _parts(m["ver"])
                series = v[:1] if v[0] else v[:2]
                told.setdefault(m["name"].lower(), {}).setdefault(series, Place(line, m[0].strip()))
    for name, by_series in told.items():
        if len(by_series) > 1:
            first, *rest = sorted(by_series.values(), key=lambda p: p.line)
            for place in rest:
                yield Finding(
                    59,
                    place,
                    f'two release lines of {name} are both called current: "{first.span}" (line {first.line}) and "{place.span}"',
                    "one current line, the other named as what it is",
                    (first,),
                )


@check(54)
def flags_and_endpoints(brief: Brief) -> Iterator[Finding]:
    """An endpoint named together with a flag that excludes it."""
    for fact in facts.load("software"):
        for rule in fact.get("refuses", []):
            flags = "|".join(re.escape(f) for f in rule["flags"])
            for line, text in brief.text_lines():
                if not re.search(re.escape(rule["endpoint"]), text) or not re.search(
                    _names(fact["name"]), "\n".join(brief.lines), re.IGNORECASE
                ):
                    continue
                for _, sentence in sentences(text):
                    at, flag = sentence.find(rule["endpoint"]), re.search(rf"(?:{flags})(?![\w-])", sentence)
                    if at < 0 or not flag or abs(flag.start() - at) > 120:
                        continue
                    begin, end = min(at, flag.start()), max(at + len(rule["endpoint"]), flag.end())
                    last = [m.end() for m in re.finditer(rf"(?:{flags})(?![\w-])", sentence) if m.end() - end < 60]
                    end = max([end, *last])
                    if _REFUSES.search(sentence[max(0, begin - 30) : end + 40]):
                        continue
                    yield Finding(
                        54,
                        Place(line, sentence[begin:end]),
                        f"{fact['name']}: {rule['why']} ({rule.get('source', facts.cite(fact))})",
                        "the endpoint without these flags",
                        (),
                        "facts",
                    )
                    break
