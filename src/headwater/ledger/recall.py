"""How much of a brief's free prose the rules can type: counts over the brief's own entries, printed, never promised.

Gold is what the structure of the text marks by itself (numbers with a unit in increments, identifiers, links, section marks, levels,
statuses, boundaries); recall is the share that ended up in a typed field instead of quoted text.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from headwater.ledger.brief.facts import lost
from headwater.ledger.digest.gaps import missing_evidence
from headwater.ledger.digest.typing import claims_of
from headwater.ledger.intake.imported import read_brief
from headwater.ledger.parse.brief import parse_brief
from headwater.ledger.parse.ids import find_ids, find_links, find_sections
from headwater.ledger.parse.quantity import find_quantities
from headwater.ledger.records import Adjacent, CarryOver, Citable, Contradiction, Increment, Item, Rejection, SourceLine, Work
from headwater.ledger.vocabulary import stated_level

_RAW_ID = re.compile(r"(?<![\d.])\d{4}\.\d{5}(?!\d)")
_RAW_NUMBER = re.compile(r"(?<![\w.-])[-+−]?\d[\d,]*(?:\.\d+)?\s?(?:%|×(?![A-Z])|倍|[xX]\b|GB/s|[BT]\b|ms\b|tok/s)")


@dataclass(frozen=True, slots=True)
class Recall:
    """found of wanted for one thing."""

    name: str
    found: int
    wanted: int

    def __str__(self) -> str:
        share = f"{100 * self.found / self.wanted:.1f} %" if self.wanted else "–"
        return f"{self.name}: {self.found} of {self.wanted} ({share})"


def recall(text: str, path: str = "brief") -> list[Recall]:
    """Recall on one brief, one line per kind of thing."""
    parsed = parse_brief(text)
    records = read_brief("recall", path, parsed, parsed.topic).records
    body = "\n".join(parsed.lines)
    increments = [r for r in records if isinstance(r, Increment)]
    prose = [(i, re.sub(r"https?://\S+", " ", i.text)) for i in increments]
    hits = [
        any(q.start < m.end() and q.end > m.start() for q in found)
        for t, found in ((t, find_quantities(t, plain=False)) for _, t in prose)
        for m in _RAW_NUMBER.finditer(re.sub(r"\d{4}\.\d{5}", lambda x: "·" * len(x[0]), t))
    ]
    typed = [q for _, t in prose for q in find_quantities(t, plain=False)]
    claims = [
        c
        for i, t in prose
        for c in claims_of(Item(id=i.id, source="recall", text=t, works=i.works), i.works or ["title:none"], {}, "", missing_evidence(t))
    ]
    amounts = [c for c in claims if c.amount]
    kinds = {
        "increments": (Increment, "increment"),
        "adjacent items": (Adjacent, "adjacent"),
        "contradictions": (Contradiction, "contradiction"),
        "citable ids": (Citable, "citable"),
        "carried over": (CarryOver, "carry_over"),
        "rejections": (Rejection, "rejection"),
    }
    out = [Recall(name, sum(isinstance(r, cls) for r in records), len(parsed.entries(kind))) for name, (cls, kind) in kinds.items()]
    sources = [r for r in records if isinstance(r, SourceLine) and r.verdict]
    out += [
        Recall("source verdicts", len(sources), len(parsed.entries("source_total"))),
        Recall(
            "arXiv mentions",
            sum(i.kind == "arxiv" for i in find_ids(body)),
            len(_RAW_ID.findall(body)) + sum(i.form == "card" and i.kind == "arxiv" for i in find_ids(body)),
        ),
        Recall("links", len(find_links(body)), body.count("http://") + body.count("https://")),
        Recall("section marks", len(find_sections(body)), body.count("§") - len(re.findall(r"§(?![\dA-Z]\S|\s?\d)", body))),
        Recall("numbers with a unit, in increments", sum(hits), len(hits)),
        Recall("… of these with a metric", sum(bool(q.metric) for q in typed), len(typed)),
        Recall("claims typed in increments", len(amounts), len(typed)),
        Recall(
            "… of these with model, task or hardware",
            sum(bool(c.setting.model or c.setting.task or c.setting.hardware) for c in amounts),
            len(amounts),
        ),
        Recall("increments with a work identifier", sum(bool(i.works) for i in increments), len(increments)),
        Recall("increments with status", sum(bool(i.status) for i in increments), len(increments)),
        Recall("increments with boundary", sum(bool(i.boundary) for i in increments), len(increments)),
        Recall("increments that state a level", sum(stated_level(i.text) is not None for i in increments), len(increments)),
        Recall("titles of works", sum(isinstance(r, Work) for r in records), len(parsed.entries("citable"))),
    ]
    return out


def round_trip(text: str, rendered: str) -> Recall:
    """Facts kept by parse → ledger → render."""
    from headwater.ledger.brief.facts import facts_of

    total = sum(facts_of(text).totals.values())
    return Recall("facts kept by the round trip", total - len(lost(text, rendered)), total)


def measure(path: Path) -> list[Recall]:
    """Recall on a brief file, with its round trip through a ledger of its own.

    Raises:
        FormatError: the file is no text or no brief.
    """
    from headwater.core.errors import FormatError
    from headwater.ledger.brief.view import batches, load_view
    from headwater.ledger.brief.write import render
    from headwater.ledger.instance import Instance
    from headwater.ledger.intake.decoding import decode_bytes
    from headwater.ledger.intake.ingest import ingest
    from headwater.ledger.store import Ledger

    decoded = decode_bytes(path.read_bytes()) if path.is_file() else None
    if decoded is None or not (parsed := parse_brief(decoded.text)).is_brief:
        raise FormatError(f"{path}: not a brief (no section with increments beside another known section)")
    with tempfile.TemporaryDirectory() as folder, Ledger.create(Path(folder)) as ledger:
        ingest(ledger, Instance(topic=parsed.topic or "brief"), [path], "", durable=False)
        batch = batches(ledger)[0]
        rendered = render(load_view(ledger, batch), parsed.layout or "D", "md")
    return [*recall(decoded.text, path.name), round_trip(decoded.text, rendered)]
