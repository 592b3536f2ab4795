"""The closing lists of a round: every source once with its verdict, and the facts behind header, footer and comparison."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from headwater.ledger.digest import compose
from headwater.ledger.records import Batch, Card, Flag, Increment, Item, Queued, Source, SourceLine, Statement

if TYPE_CHECKING:
    from headwater.ledger.digest.run import Digest

# best readings first: the order in which sources are digested and listed
ORDER = (
    "critical_read",
    "rss_batch",
    "paper_card",
    "bibliography",
    "inbox_note",
    "radar_round",
    "engineering_digest",
    "blog_discovery",
    "social_post",
    "work_queue",
    "sibling_brief",
    "earlier_brief",
    "living_document",
    "unreadable",
)


def source_lines(round_: Digest, found: dict[str, Counter[str]]) -> Iterator[SourceLine]:
    """Every source of the round once, in the order it was digested: yield, salience, verdict. found: works by disposition per source."""
    kinds = sorted({s.source_kind for i in round_.todo if (s := round_.source(i))}, key=ORDER.index)
    yields = {i: sum(counts[s] for s in ("net_new", "update", "adjacent", "to_verify")) for i, counts in found.items()}
    rank = {i: n for n, i in enumerate(sorted((i for i in yields if yields[i]), key=lambda i: (-yields[i], i))[:4], 1)}
    for n, s in enumerate(s for i in round_.todo if (s := round_.source(i))):
        used = yields.get(s.id, 0) > 0 or s.source_kind in {"living_document", "earlier_brief", "work_queue"}
        yield SourceLine(
            id=compose.part_id(round_.batch, "source_line", n), brief=round_.batch.name, order=n, group=f"1.{kinds.index(s.source_kind) + 1}",
            path=s.path, producer=s.producer, source_kind=s.source_kind, timestamp=s.timestamp, gist=_gist(round_, s), yielded=yields.get(s.id, 0),
            salience=rank.get(s.id), verdict="included" if used else "not_included", reason="; ".join(s.flags),
            found=dict(sorted(found.get(s.id, Counter()).items())),
        )


def _gist(round_: Digest, source: Source) -> str:
    """Title of a source; for a card its number, work, title and class, as a spot check shows them."""
    card = round_.ledger.one(Card, "source", source.id) if source.source_kind == "paper_card" else None
    if card is None:
        return source.title
    return " · ".join(t for t in (f"card {card.number}", compose.identifier(card.work), card.title, card.main_class) if t)


def statements(round_: Digest, titles: list[str]) -> list[Statement]:
    """Facts behind the header, the footer and the comparison with the brief before. titles: of the first increments."""
    out: list[Statement] = []

    def put(key: str, text: str = "", **values: object) -> None:
        out.append(
            Statement(
                id=compose.part_id(round_.batch, f"statement:{key}", len(out)),
                brief=round_.batch.name,
                order=len(out),
                key=key,
                text=text,
                values={k: str(v) for k, v in values.items()},
            )
        )

    if titles:
        put("nature", " + ".join(re.sub(r"\s*[（(].*$", "", t) for t in titles))
    for s in (s for i in round_.todo if (s := round_.source(i)) and s.source_kind == "work_queue"):
        lines = list(round_.ledger.by(Queued, "source", s.id))
        counts = Counter(q.queue_kind for q in lines)
        fired = any(round_.instance.topic.casefold() in q.text.casefold() for q in lines if q.queue_kind != "document")
        ages: dict[str, Any] = {f"age {q.subject}": q.age_days for q in lines if q.queue_kind == "document" and q.age_days is not None}
        put(
            "queue",
            path=s.path,
            time=s.timestamp,
            cards=counts["card"],
            documents=counts["document"],
            topics=counts["topic"],
            fired=int(fired),
            **ages,
        )
    flags = list(round_.ledger.by(Flag, "flag", "instruction_like"))
    here = set(round_.todo) if flags else set()
    put("orders", n=sum(isinstance(i := round_.ledger.get(f.subject), Item) and i.source in here for f in flags))
    earlier = sorted({b.name for b in round_.ledger.by(Batch, "topic", round_.batch.topic) if b.name < round_.batch.name})
    if earlier:
        put("compare", name=earlier[-1], before=round_.ledger.count(Increment, "brief", earlier[-1]))
    return out
