"""Rules 50 and 6: a cited source was checked, what the list says about it fits the citing item, and every source has one verdict."""

from __future__ import annotations

import re
from collections.abc import Iterator

from headwater.ledger.lint.brief import Brief
from headwater.ledger.lint.finding import Finding, Place
from headwater.ledger.lint.names import is_distinctive, name_key
from headwater.ledger.lint.registry import check
from headwater.ledger.lint.sourcelist import Citation, citations


@check(50)
def cited_and_checked(brief: Brief) -> Iterator[Finding]:
    """A citation that no checked source answers to."""
    if not brief.sources.usable:
        return
    for item in brief.of("increment", "adjacent"):
        for c in citations(brief, item):
            if not c.keys:
                yield Finding(
                    50,
                    Place(c.line, c.span),
                    f"{c.span} is cited by {brief.subject(item)} but stands in no list of checked sources",
                    "a source from the checked list",
                )


def _mentions(text: str, names: list[str]) -> bool:
    flat = re.sub(r"[\s\-_.]+", "", text).casefold()
    return any(name_key(n) in flat for n in names)


@check(50)
def described_elsewhere(brief: Brief) -> Iterator[Finding]:
    """The cited source's description does not know the item's subject, while that of an uncited one does."""
    sources = brief.sources
    if not sources.usable:
        return
    for item in brief.of("increment", "adjacent"):
        names = [n for n in item.names if is_distinctive(n.split()[0]) and len(name_key(n)) >= 4][:4]
        cited = citations(brief, item)
        keys = {k for c in cited for k in c.keys}
        if not names or not keys:
            continue
        for c in cited:
            told = "\n".join(_told(brief, k) for k in c.keys)
            if not c.keys or not told or _mentions(told, names) or not _described(told, c.keys):
                continue
            where = [
                (line, text)
                for line, text in sources.lines
                if _mentions(text, names) and not _cites(text, keys) and not brief.lines[line - 1].lstrip().startswith("#")
            ]
            where = [
                (line, text) for line, text in where if brief.kind_at(line) == "source" and not _about_cards(text, brief, line)
            ]
            if where:
                line = where[0][0]
                yield Finding(
                    50,
                    Place(c.line, c.span),
                    f"{c.span} is cited for {names[0]}, but what the source list says about it does not mention {names[0]}; "
                    f"line {line} does",
                    "cite the source that reports it, or describe the source fully",
                    (Place(line, _around(brief.lines[line - 1], names)), *_lines_of(brief, c)),
                )


def _told(brief: Brief, key: str) -> str:
    if key.startswith("line "):
        return brief.lines[int(key[5:]) - 1]
    return brief.sources.described(key)


def _described(told: str, keys: tuple[str, ...]) -> bool:
    """There is a description at all, beyond the file's name."""
    rest = told
    for key in keys:
        rest = re.sub(re.escape(key), "", rest, flags=re.IGNORECASE)
    return len(re.sub(r"[\W_]+", "", re.sub(r"[\w./-]+/", "", rest))) >= 12


def _cites(text: str, keys: set[str]) -> bool:
    flat = text.lower()
    return any(k in flat for k in keys)


def _about_cards(text: str, brief: Brief, line: int) -> bool:
    item = brief.item_at(line)
    group = item.group if item else ""
    return bool(re.search(r"paper[_ ]?card|论文卡|card|living document|knowledge/|活文档", f"{text} {group}", re.IGNORECASE))


def _around(text: str, names: list[str]) -> str:
    for n in names:
        at = text.lower().find(n.lower())
        if at >= 0:
            return text[max(0, at - 12) : at + len(n) + 12].strip()
    return text.strip()[:60]


def _lines_of(brief: Brief, c: Citation) -> list[Place]:
    return [Place(e.line, e.path) for e in brief.sources.entries if e.key in c.keys][:1]


@check(6)
def described_and_judged(brief: Brief) -> Iterator[Finding]:
    """A file described among the checked sources stands in neither list of the source totals."""
    sources = brief.sources
    judged = {e.key for e in sources.entries if e.section == "source_total"}
    if len(judged) < 2 or not sources.marked("included"):
        return
    seen: set[str] = set()
    for e in sources.entries:
        if e.section != "source" or e.key in judged or e.key in seen or not _is_entry(brief, e.line, e.path):
            continue
        seen.add(e.key)
        yield Finding(
            6,
            Place(e.line, e.path),
            f"{e.path} is described here but is neither included nor not included in the source totals",
            "one verdict for every source",
        )


def _is_entry(brief: Brief, line: int, path: str) -> bool:
    """The line is about this file (it begins with it), not merely mentions it."""
    return (
        bool(re.match(rf"\W*(?:[\w.-]+/)*{re.escape(path.rsplit('/', 1)[-1])}", brief.lines[line - 1].strip(), re.ASCII))
        and re.search(r"\.\w{2,4}$", path) is not None
    )


@check(6)
def listed_twice(brief: Brief) -> Iterator[Finding]:
    """A source stands twice in one list."""
    seen: dict[tuple[str, str], int] = {}
    for e in brief.sources.entries:
        if e.section != "source_total" or not e.mark or not _is_entry(brief, e.line, e.path):
            continue
        key = (e.key, e.mark)
        if key in seen and seen[key] != e.line:
            yield Finding(
                6,
                Place(e.line, e.path),
                f"{e.path} is listed a second time (first in line {seen[key]})",
                "list every source once",
                (Place(seen[key], e.path),),
            )
        seen.setdefault(key, e.line)
