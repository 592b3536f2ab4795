"""What does not fit together in a batch. Conflicts are found by rules, keep both sides, and are never settled here."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field

from headwater.ledger.digest.decide import Case, Pick
from headwater.ledger.digest.document import Document
from headwater.ledger.extra import need
from headwater.ledger.parse.ids import find_versions, title_key
from headwater.ledger.records import Card, Claim, Item
from headwater.ledger.store import Ledger

_ENGINEERING = re.compile(r"工程|实践|engineering", re.IGNORECASE)
_NOT_ACADEMIC = re.compile(r"非学术|not academic", re.IGNORECASE)
_ACADEMIC = re.compile(r"学术|综述|survey|academic|review", re.IGNORECASE)
_OPEN = re.compile(r"(?:已|代码)开源|开源代码|open[- ]sourced?|code (?:is )?(?:released|available)", re.IGNORECASE)
_NAME = re.compile(r"[A-Z][A-Za-z.+]{2,}")
_SHORT = re.compile(r"^([A-Z][A-Za-z0-9-]{1,14})\s*[:：]")


@dataclass(slots=True)
class Found:
    """A conflict before it gets its rank. subject: names; parties: both sides, quoted with their source; repair: a defect of the
    document or the cards, which goes first in tonight's handles."""

    conflict: str
    subject: str
    parties: list[str]
    works: list[str] = field(default_factory=list)
    sections: list[str] = field(default_factory=list)
    repair: bool = False
    detail: str = ""


class Watch:
    """Collects what is needed for conflicts across works while the cases stream by; keeps short quotes only."""

    def __init__(self, ledger: Ledger, doc: Document) -> None:
        self.ledger, self.doc = ledger, doc
        self.found: list[Found] = []
        self.names: dict[str, dict[str, str]] = defaultdict(dict)
        self.versions: dict[str, dict[str, tuple[str, str]]] = defaultdict(dict)
        for a in doc.anchors:
            self._versions(f"{a.heading}\n{a.text}", f"§{a.number}" if a.number else a.heading, a.number)

    def _versions(self, text: str, where: str, section: str) -> None:
        last = ""
        for v in find_versions(text):
            behind = _NAME.findall(text[max(0, v.start - 16) : v.start])
            name = v.name or (behind[-1] if behind else last)
            last = name
            if name:
                self.versions[name.casefold()].setdefault(_line(v.value), (f"{name} v{v.value} ({where})", section))

    def item(self, item: Item, path: str) -> None:
        """Look at an item of the batch for version lines."""
        self._versions(item.text, path, "")

    def case(self, case: Case) -> None:
        """Look at one work that made it into the brief."""
        self._titles(case)
        self._disagreements(case)
        self._retellings(case)
        self._open_source(case)
        self._cards(case)
        m = _SHORT.match(case.view.title)
        if m:
            self.names[m[1].casefold()][case.key] = case.view.title

    def _titles(self, case: Case) -> None:
        fuzz = need("rapidfuzz.fuzz", "comparing titles")
        titles = case.view.titles
        if len(titles) < 2:
            return
        true, sources = titles[0]
        for other, where in titles[1:]:
            a, b = title_key(true), title_key(other)
            short = title_key(re.split(r"[:：—–]", true)[0])
            if fuzz.partial_ratio(a, b) >= 80 or min(len(a), len(b)) < 4 or (len(short) >= 3 and short in b):
                continue
            cause = self._heading_of(other, case)
            if not cause and not any(getattr(self.ledger.get(w), "source_kind", "") == "paper_card" for w in where):
                continue  # a translation or a paraphrase, not another work's title
            self.found.append(
                Found(
                    "title",
                    case.key.split(":", 1)[1],
                    [f"“{true}” ({self._paths(sources)})", f"“{other}” ({self._paths(where)})"],
                    [case.key],
                    repair=any(s.source_kind == "paper_card" for s in case.sources),
                    detail=cause,
                )
            )

    def _heading_of(self, title: str, case: Case) -> str:
        """Where a wrong title comes from: another text that has it as its heading or quotes it."""
        for record in self.ledger.search(title[:60], 10):
            if isinstance(record, Item) and case.key not in record.works:
                return f"{self._paths([record.source])} {record.address}".strip()
        return ""

    def _paths(self, sources: list[str]) -> str:
        names = [getattr(self.ledger.get(s), "path", s) for s in dict.fromkeys(sources)]
        return ", ".join(names[:3])

    def _disagreements(self, case: Case) -> None:
        groups: dict[tuple, list[Claim]] = defaultdict(list)
        for c in case.claims:
            if c.amount and c.amount.metric and c.amount.unit:
                s = c.setting
                groups[(c.amount.metric, c.amount.unit, c.amount.percentile, s.model, s.task, s.baseline, s.hardware, s.context)].append(c)
        for (metric, *_), claims in groups.items():
            values = {(c.amount.low, c.amount.high) for c in claims if c.amount}
            if len(values) > 1 and len({c.source for c in claims}) > 1:
                sides = [f"“{c.statement}” ({self._paths([c.source])})" for c in claims[:4]]
                self.found.append(Found("disagreement", f"{case.view.title or case.key}: {metric}", sides, [case.key]))

    def _retellings(self, case: Case) -> None:
        shared = [o for m in case.mentions for o in m.origins if o.startswith("link:")]
        for origin in dict.fromkeys(shared):
            files = {m.source for m in case.mentions if origin in m.origins}
            if len(files) > 1 and not origin.startswith("link:arxiv.org"):
                self.found.append(
                    Found(
                        "same_origin",
                        case.view.title or case.key,
                        [self._paths([f]) for f in sorted(files)],
                        [case.key],
                        detail=origin.split(":", 1)[1],
                    )
                )
                return

    def _open_source(self, case: Case) -> None:
        said = [i for i in case.items if _OPEN.search(i.text)]
        if said and not any("github.com" in i.text.lower() or "gitlab.com" in i.text.lower() for i in case.items) and not case.view.first("code"):
            self.found.append(
                Found("open_source", case.view.title or case.key, [f"“{_quote(said[0].text, _OPEN)}” ({self._paths([said[0].source])})"], [case.key])
            )

    def _cards(self, case: Case) -> None:
        cards = list(self.ledger.by(Card, "work", case.key))
        numbers = sorted({c.number for c in cards})
        if len(numbers) > 1:
            self.found.append(Found("duplicate_cards", case.key.split(":", 1)[1], [f"card {n}" for n in numbers], [case.key], repair=True))
        for c in cards:
            kind = f"{c.card_type} {c.main_class} {c.title}"
            if c.action and _ACADEMIC.search(kind) and (_NOT_ACADEMIC.search(c.action) or _ENGINEERING.search(c.action)):
                self.found.append(Found("card_conflict", f"card {c.number}", [f"“{c.action}”", f"“{kind.strip()}”"], [case.key], repair=True))
        counts = {(n.service, n.count) for s in case.view.statements for n in s.citations}
        if len({n for _, n in counts}) > 1:
            self.found.append(
                Found("card_conflict", case.view.title or case.key, [f"{s} {n}" for s, n in sorted(counts)], [case.key], detail="citations")
            )

    def mixed(self) -> frozenset[str]:
        """Software of which two major lines are in use, in lower case."""
        return frozenset(n for n, lines in self.versions.items() if len({k.split(".")[0] for k in lines}) > 1)

    def close(self, increments: list[Pick], missing: dict[str, list[str]]) -> list[Found]:
        """All conflicts, repairs first, in a fixed order. missing: gaps by work of the increments."""
        mixed = self.mixed()
        for name, lines in sorted(self.versions.items()):
            if name in mixed:
                sides = [text for text, _ in lines.values()]
                sections = list(dict.fromkeys(s for _, s in lines.values() if s))
                subject = sides[0].rsplit(" v", 1)[0] if " v" in sides[0] else name
                self.found.append(Found("version_lines", subject, sorted(sides)[:8], sections=sections, repair=bool(sections)))
        for name, works in sorted(self.names.items()):
            if len(works) > 1:
                self.found.append(
                    Found(
                        "acronym",
                        name.upper() if len(name) <= 5 else name,
                        [f"{t} ({k.split(':', 1)[1]})" for k, t in sorted(works.items())],
                        sorted(works),
                    )
                )
        self._kinds(increments)
        for gap in sorted({g for gaps in missing.values() for g in gaps}):
            leaving = [k for k, gaps in missing.items() if gap in gaps]
            if len(leaving) > 1 and gap in {"accuracy_cost", "alpha", "ablation"}:
                titles = {p.key: p.title or p.key for p in increments}
                self.found.append(Found("common_gap", gap, [titles.get(w, w) for w in leaving[:6]], leaving))
        order = (
            "version_lines",
            "duplicate_cards",
            "title",
            "card_conflict",
            "disagreement",
            "open_source",
            "acronym",
            "different_kinds",
            "same_origin",
            "common_gap",
        )
        return sorted(self.found, key=lambda f: (not f.repair, order.index(f.conflict), f.subject, f.parties))

    def _kinds(self, increments: list[Pick]) -> None:
        """Techniques that keep the distribution and techniques that change it must not be told as one."""
        sides: dict[str, list[Pick]] = {"preserving": [], "changing": []}
        for p in increments:
            if p.side:
                sides[p.side].append(p)
        if all(sides.values()):
            parties = [f"{k}: " + ", ".join(p.title or p.key for p in v[:3]) for k, v in sides.items()]
            self.found.append(Found("different_kinds", "latency / distribution", parties, [p.key for v in sides.values() for p in v[:3]]))


def _line(version: str) -> str:
    """The version line of a release: `1` for 1.2.1, `0.5` for 0.5.21."""
    parts = version.split(".")
    return f"0.{parts[1]}" if parts[0] == "0" and len(parts) > 1 else parts[0]


def _quote(text: str, rx: re.Pattern[str]) -> str:
    m = rx.search(text)
    assert m
    return text[max(0, m.start() - 20) : m.end() + 20].replace("\n", " ").strip()
