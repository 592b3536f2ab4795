"""What kind of source a file is, who produced it and when: from front matter first, then its name and folders, then its content."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from headwater.ledger.vocabulary import KINDS

_NAME_KINDS: tuple[tuple[str, str], ...] = (
    ("paper_card", r"(?:^|/)(?:paper[_-]?cards?|cards)/|(?:^|/)\d{1,6}-\d{4}-\d{4,5}\.md$"),
    ("work_queue", r"work[_-]?queue|(?:^|/)queue/"),
    ("living_document", r"(?:^|/)knowledge/[^/]+\.md$|living[_-]document"),
    ("sibling_brief", r"e1prep|(?:^|/)briefs?/|[_-]brief(?:s)?(?:[-_.]|$)(?!ing)"),
    ("critical_read", r"critical[_-]?read"),
    ("radar_round", r"radar"),
    ("rss_batch", r"(?:^|[-_/.])(?:rss|atom|feed)"),
    ("blog_discovery", r"discovery|blogs?"),
    ("social_post", r"social|twitter|instagram|weibo|mastodon|reddit"),
    ("engineering_digest", r"digest|briefing|engineering|roundup"),
)
_KINDS = [(k, re.compile(rx, re.IGNORECASE)) for k, rx in _NAME_KINDS]
_STAMP = re.compile(r"(20\d{2})-?([01]\d)-?([0-3]\d)(?:[T_ -]?([0-2]\d):?([0-5]\d)(?!\d))?")
_ROOMS = {"inbox", "organized", "notes", "incoming"}
_ORDINARY = {"paper_cards", "cards", "queue", "knowledge", "briefs", "feeds", "rss", "archive", "day1", "day2"}


@dataclass(frozen=True, slots=True)
class Kind:
    """kind: name in `vocabulary.KINDS`; timestamp: `2026-09-03 18:35` or `2026-09-03` or empty; topic: of a brief, else empty."""

    kind: str
    producer: str
    timestamp: str
    topic: str = ""


def producer_of(path: PurePosixPath, stated: str) -> str:
    """Who left the file: stated in front matter, the folder below `inbox`, or the folder it lies in."""
    if stated:
        return stated.strip().lower()
    parts = path.parts[:-1]
    for i, part in enumerate(parts):
        if part.lower() in _ROOMS and i + 1 < len(parts) and parts[i + 1].lower() not in _ORDINARY:
            return parts[i + 1].lower()
    plain = [p for p in parts if p.lower() not in _ROOMS | _ORDINARY and not re.fullmatch(r"[\d-]+", p)]
    return plain[-1].lower() if plain else (parts[-1].lower() if parts else "unknown")


def stamp_of(name: str, stated: str) -> str:
    """Date and time in front matter or file name."""
    for text in (stated, name):
        m = _STAMP.search(text or "")
        if m and 1 <= int(m[2]) <= 12 and 1 <= int(m[3]) <= 31:
            clock = f" {m[4]}:{m[5]}" if m[4] and int(m[4]) < 24 else ""
            return f"{m[1]}-{m[2]}-{m[3]}{clock}"
    return ""


def classify(path: str, head: dict[str, str], document: str, topic: str) -> Kind:
    """Classify a file by its path relative to the ingested folder (or as given).

    head: front matter. document: path of the living document. topic: the instance's topic, to tell own briefs from siblings'.
    """
    pure = PurePosixPath(path)
    low = {k.lower(): v for k, v in head.items()}
    producer = producer_of(pure, low.get("producer") or low.get("collector") or "")
    stamp = stamp_of(pure.name, low.get("date") or low.get("time") or low.get("timestamp") or "")
    stated = re.sub(r"[\s-]+", "_", low.get("kind", "").strip().lower())
    suffix = pure.suffix.lower()
    if stated in KINDS:
        kind = stated
    elif document and (path == document or path.endswith("/" + document.lstrip("./"))):
        kind = "living_document"
    elif suffix == ".bib":
        kind = "bibliography"
    elif suffix in {".xml", ".rss", ".atom"}:
        kind = "rss_batch"
    else:
        kind = next((k for k, rx in _KINDS if rx.search(path)), "inbox_note")
    about = ""
    if kind in {"sibling_brief", "earlier_brief"}:
        stem = re.sub(r"^[\dT:_-]+|[-_](?:e1prep|brief)$", "", pure.stem)
        about = low.get("topic", "") or stem
        if about == topic or (topic and topic == stem.split("·")[0].strip()):
            kind = "earlier_brief"
    return Kind(kind, producer, stamp, about)
