"""The living document as the digest sees it: which works it cites, where a new item would belong, what it says about versions."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field

from headwater.ledger.parse.ids import title_key
from headwater.ledger.records import Anchor, Source
from headwater.ledger.store import Ledger

_LATIN = re.compile(r"[A-Za-z][A-Za-z0-9+-]{2,}")
_HAN = re.compile(r"[\u4e00-\u9fff]+")
_COMMON = {"the", "and", "for", "with", "from", "that", "this", "are", "was", "not", "arxiv", "https", "http", "org", "abs", "www", "com", "github"}


def terms(text: str) -> set[str]:
    """Words of a text for comparison: Latin words of three letters and more, Chinese pairs."""
    out = {w.casefold() for w in _LATIN.findall(text)} - _COMMON
    for run in _HAN.findall(text):
        out.update(run[i : i + 2] for i in range(len(run) - 1))
    return out


@dataclass(slots=True)
class Document:
    """The pinned document. source is None when none was ingested; anchors in document order."""

    source: Source | None = None
    anchors: list[Anchor] = field(default_factory=list)
    cited: dict[str, Anchor] = field(default_factory=dict)
    _weights: dict[str, float] = field(default_factory=dict)
    _terms: list[tuple[Anchor, set[str], set[str]]] = field(default_factory=list)
    _squeezed: list[tuple[Anchor, str]] = field(default_factory=list)

    def anchored(self, key: str, title: str) -> Anchor | None:
        """The section that already cites a work, by identifier or by its short name of at least six letters."""
        if key in self.cited:
            return self.cited[key]
        short = title_key(re.split(r"[:：—–]", title)[0]) if title else ""
        if len(short) < 6:
            return None
        return next((a for a, text in self._squeezed if short in text), None)

    def place(self, text: str, wanted: list[str]) -> list[Anchor]:
        """Sections an item belongs to: those it names, else the best match by rare shared words (at most two), else none."""
        named = [a for a in self.anchors if a.number and a.number in wanted]
        if named:
            return named
        words = terms(text)
        scored = []
        for anchor, head, body in self._terms:
            score = 3 * sum(self._weights[t] for t in words & head) + sum(self._weights[t] for t in words & (body - head))
            if score > 0:
                scored.append((score / math.sqrt(6 + len(head) + len(body)), anchor))
        scored.sort(key=lambda p: (-p[0], p[1].line))
        best = [a for s, a in scored[:2] if s >= 0.6 and s >= 0.7 * scored[0][0]]
        return best


def load_document(ledger: Ledger, path: str, topic: str) -> Document:
    """The latest ingested living document: the one at `path`, else the one named after the topic, else none."""
    found: Source | None = None
    for s in ledger.by(Source, "source_kind", "living_document"):
        named = path and (s.path == path or s.path.endswith("/" + path.lstrip("./")) or path.endswith(s.path))
        if named or (not path and s.path.rsplit("/", 1)[-1].removesuffix(".md") == topic) or (not path and found is None):
            found = s
    if found is None:
        return Document()
    doc = Document(found, sorted(ledger.by(Anchor, "document", found.id), key=lambda a: a.line))
    counts: Counter[str] = Counter()
    for a in doc.anchors:
        for w in a.works:
            doc.cited.setdefault(w, a)
        head, body = terms(a.heading), terms(a.text)
        if a.number:
            doc._terms.append((a, head, body))
            counts.update(head | body)
        doc._squeezed.append((a, title_key(a.heading + a.text)))
    doc._weights = {t: math.log(1 + len(doc.anchors) / n) for t, n in counts.items()}
    return doc
