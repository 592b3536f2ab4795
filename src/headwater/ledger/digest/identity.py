"""Which work is which: one key per work, titles as each source states them, near titles proposed and never merged by themselves."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from headwater.ledger.parse.ids import title_key
from headwater.ledger.records import Same, Source, Work, fingerprint
from headwater.ledger.store import Ledger
from headwater.ledger.vocabulary import KIND_CAP

_RANK = {"arxiv": 0, "doi": 1, "repo": 2, "url": 3, "title": 4}


def rank(key: str) -> tuple[int, str]:
    """Order of keys: arXiv before DOI before repository before link before title."""
    return _RANK.get(key.split(":", 1)[0], 9), key


@dataclass(slots=True)
class WorkView:
    """Union of what sources state about a work. titles: (title, source ids), most trusted first."""

    key: str
    titles: list[tuple[str, list[str]]] = field(default_factory=list)
    statements: list[Work] = field(default_factory=list)

    @property
    def title(self) -> str:
        """The title to use, empty when no source gives one."""
        return self.titles[0][0] if self.titles else ""

    def first(self, name: str) -> str:
        """First non-empty value of a field, in order of writing."""
        return next((str(v) for s in self.statements if (v := getattr(s, name))), "")

    @property
    def version(self) -> int | None:
        """Highest arXiv version any source names."""
        return max((s.version for s in self.statements if s.version), default=None)


def resolve(ledger: Ledger, key: str) -> str:
    """The canonical key of a work over `Same` records; cycles are harmless."""
    seen, todo = {key}, [key]
    while todo:
        for same in ledger.by(Same, "same", todo.pop()):
            for other in (same.key, same.other):
                if other not in seen:
                    seen.add(other)
                    todo.append(other)
    return min(seen, key=rank)


def view_work(ledger: Ledger, key: str) -> WorkView:
    """Everything stated about a work.

    Titles are ordered by how a source knows them: feeds and bibliographies state titles as published, cards and digests copy them.
    """
    out = WorkView(key, statements=list(ledger.by(Work, "key", key)))
    votes: dict[str, list[str]] = {}
    shown: dict[str, str] = {}
    trust: Counter[str] = Counter()
    for s in out.statements:
        folded = title_key(s.title)
        if not folded:
            continue
        shown.setdefault(folded, s.title)
        votes.setdefault(folded, []).append(s.source)
        source = ledger.get(s.source)
        kind = source.source_kind if isinstance(source, Source) else ""
        trust[folded] += {"bibliography": 6, "rss_batch": 5, "critical_read": 4, "paper_card": 1}.get(kind, 2) + KIND_CAP.get(kind, 0)
    for short in list(trust):                                        # a short name votes for the full title that begins with it
        full = max((t for t in trust if t != short and t.startswith(short)), key=lambda t: (trust[t], t), default="")
        if full:
            trust[full] += trust[short]
            trust[short] = 0
    out.titles = [(shown[t], votes[t]) for t in sorted(votes, key=lambda t: (-trust[t], t))]
    return out


def same_by_title(ledger: Ledger, key: str, title: str) -> Same | None:
    """A record that ties a title-only or link-only key to the work with an identifier whose accepted title is exactly this one.

    A title that a card merely carries does not tie: it may be mis-attached.
    """
    folded = title_key(title)
    if len(folded) < 12:
        return None
    others = {w.key for w in ledger.by(Work, "title", folded)} - {key}
    if rank(key)[0] <= 1:
        return None
    strong = sorted((k for k in others if rank(k)[0] <= 1 and title_key(view_work(ledger, k).title) == folded), key=rank)
    if not strong:
        return None
    return Same(id=fingerprint("same", key, strong[0]), key=key, other=strong[0], reason="title")
