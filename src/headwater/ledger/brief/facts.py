"""The facts of a brief, and the difference between two: what the round-trip test compares.

A fact is an increment's identity, an identifier, a number, a link, a section mark, a boundary, a status, an entry of any list.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from headwater.ledger.parse.brief import Entry, ParsedBrief, parse_brief
from headwater.ledger.parse.ids import find_ids, find_links, find_sections, narrow
from headwater.ledger.parse.quantity import number_tokens

_SINGLE = ("increment",)


def squeeze(text: str) -> str:
    """Text without spaces, marks of emphasis and list marks: what must be equal when layout is not."""
    return re.sub(r"[\s*•|｜✅]+|^\W*-\s", "", narrow(text))


@dataclass(slots=True)
class Facts:
    """entries: facts by (kind, rank or running number); totals: multisets over the whole text."""

    entries: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    totals: Counter[str] = field(default_factory=Counter)


def _of(text: str) -> Counter[str]:
    """Countable facts of a text. Numbers inside identifiers and links are counted there too; that is harmless, both sides do."""
    out: Counter[str] = Counter()
    out.update(f"id {i.kind}:{i.value}{f'v{i.version}' if i.version else ''}" for i in find_ids(text))
    out.update(f"link {u.value}" for u in find_links(text))
    out.update(f"section {s.value}" for s in find_sections(text))
    out.update(f"number {n}" for n in number_tokens(text))
    return out


def _entry(e: Entry) -> Counter[str]:
    text = e.text
    if e.rank and e.kind == "increment":
        text = "\n".join([f"{e.tag} {e.title}", *text.split("\n")[1:]])
    elif e.rank:
        text = re.sub(rf"^(\W*){re.escape(e.rank)}(?!\d)", r"\1", text)
    facts = _of(text)
    if e.kind in _SINGLE:
        facts[f"title {squeeze(e.title)}"] += 1
        for key in ("boundary", "status", "placement", "relation", "credibility"):
            for f in e.get(key):
                facts[f"{key} {squeeze(f.text)}"] += 1
    return facts


def facts_of(text: str, parsed: ParsedBrief | None = None) -> Facts:
    """Facts of a brief in any layout."""
    brief = parsed or parse_brief(text)
    out = Facts(totals=_of("\n".join(brief.lines)))
    running: Counter[str] = Counter()
    for _, entry in brief.walk():
        if entry.kind in {"status", "other", "kept", "note"}:
            continue
        running[entry.kind] += 1
        key = entry.rank if entry.kind in {"increment", "adjacent", "summary_row", "contradiction"} and entry.rank else str(running[entry.kind])
        if entry.kind == "source_total":
            key = f"{entry.mark} {squeeze(entry.title)[:60]}"
        out.entries[(entry.kind, key)] = _entry(entry)
    return out


def lost(before: str, after: str) -> list[str]:
    """One line per fact of `before` that `after` does not have; empty when nothing was lost."""
    a, b = facts_of(before), facts_of(after)
    out = []
    for key, facts in a.entries.items():
        if key not in b.entries:
            out.append(f"{key[0]} {key[1]}: the entry is missing")
            continue
        out += [f"{key[0]} {key[1]}: {fact} (×{n})" for fact, n in sorted((facts - b.entries[key]).items())]
    counters = _headings(before)
    out += [f"text: {fact} (×{n})" for fact, n in sorted((a.totals - b.totals - counters).items())]
    return out


def gained(before: str, after: str) -> list[str]:
    """Identifiers, links and entries that `after` has and `before` has not: nothing may be invented on the way."""
    a, b = facts_of(before), facts_of(after)
    out = [f"{k} {v}: not in the original" for k, v in b.entries if (k, v) not in a.entries]
    extra = b.totals - a.totals
    return out + [f"text: {fact} (×{n})" for fact, n in sorted(extra.items()) if not fact.startswith(("number", "section"))]


def _headings(text: str) -> Counter[str]:
    """Numbers in section headings: counters that are generated anew, not facts."""
    brief = parse_brief(text)
    return _of("\n".join(s.title for s in brief.sections)) + Counter({f"number {s.no}": 1 for s in brief.sections if s.no})
