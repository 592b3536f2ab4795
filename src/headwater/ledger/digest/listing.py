"""The closing lists of a round: every source once with its verdict, and the facts behind header, footer and comparison."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from headwater.ledger.digest import compose
from headwater.ledger.records import Batch, Flag, Increment, Item, Queued, SourceLine, Statement

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


def source_lines(round_: Digest, found: dict[str, Counter[str]]) -> list[SourceLine]:
    kinds = sorted({s.source_kind for i in round_.todo if (s := round_.source(i))}, key=ORDER.index)
    yields = {i: sum(found.get(i, Counter())[s] for s in ("net_new", "update", "adjacent", "to_verify")) for i in round_.todo}
    rank = {i: n for n, i in enumerate(sorted((i for i in round_.todo if yields[i]), key=lambda i: (-yields[i], i))[:4], 1)}
    out: list[SourceLine] = []
    lines = [s for i in round_.todo if (s := round_.source(i))]
    for s in sorted(lines, key=lambda s: (kinds.index(s.source_kind), s.timestamp, s.path)):
        counts = dict(sorted(found.get(s.id, Counter()).items()))
        used = yields[s.id] > 0 or s.source_kind in {"living_document", "earlier_brief", "work_queue"}
        out.append(
            SourceLine(
                id=compose.part_id(round_.batch, "source_line", len(out)),
                brief=round_.batch.name,
                order=len(out),
                group=f"1.{kinds.index(s.source_kind) + 1}",
                path=s.path,
                producer=s.producer,
                source_kind=s.source_kind,
                timestamp=s.timestamp,
                gist=s.title,
                yielded=yields[s.id],
                salience=rank.get(s.id),
                verdict="included" if used else "not_included",
                reason="; ".join(s.flags),
                found=counts,
            )
        )
    return out


def statements(round_: Digest, titles: list[str]) -> list[Statement]:
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
