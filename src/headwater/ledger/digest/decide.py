"""What becomes of a work in a batch: exactly one disposition, from ids, counts and dates; similarity never decides."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from headwater.ledger.digest.document import Document
from headwater.ledger.digest.identity import WorkView
from headwater.ledger.parse.quantity import number_tokens
from headwater.ledger.records import Anchor, Batch, Card, Claim, Increment, Item, Judgment, Mention, Source
from headwater.ledger.store import Ledger

_RUMOUR = re.compile(r"待核实|未签约|传闻|据称|unconfirmed|rumou?r|reportedly|not signed", re.IGNORECASE)
_STATUS_NEWS = re.compile(
    r"撤稿|retract|withdrawn|已(?:开源|发布代码|被接收)|accepted (?:at|to)|code (?:is )?(?:now )?(?:available|released)", re.IGNORECASE
)
_PAPER = re.compile(r"^url:.*(?:proceedings|\.pdf$|openreview\.net|usenix\.org|dl\.acm\.org|aclanthology)", re.IGNORECASE)
# a judgment may only move a status down this list
_ORDER = ("net_new", "update", "to_verify", "adjacent", "register_only", "too_thin", "same_origin", "duplicate", "anchored", "off_topic")


@dataclass(slots=True)
class Case:
    """Everything the decision looks at for one work in one batch."""

    key: str
    view: WorkView
    mentions: list[Mention]
    items: list[Item]
    sources: list[Source]
    claims: list[Claim] = field(default_factory=list)
    anchor: Anchor | None = None
    card: Card | None = None


@dataclass(slots=True)
class Decision:
    """status: name in `vocabulary.STATUSES`; reason: section, brief or words; brief, number: the earlier increment; news: what is new."""

    status: str
    reason: str = ""
    brief: str = ""
    number: str = ""
    news: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Pick:
    """What the round remembers of a decided work: small, so that memory does not grow with the texts. value orders increments;
    partners: works that one note reports together; note: version, date, venue, affiliation; side: axis of the optimisation."""

    key: str
    decision: Decision
    title: str
    note: str
    value: int
    partners: list[str]
    side: str


def decide(ledger: Ledger, batch: Batch, doc: Document, case: Case, siblings: list[str]) -> Decision:
    """The disposition by rules, lowered (never raised) by stored judgments on the work."""
    found = _by_rules(ledger, batch, doc, case, siblings)
    for j in ledger.by(Judgment, "subject", case.key):
        if j.question == "disposition" and j.answer in _ORDER and _ORDER.index(j.answer) > _ORDER.index(found.status):
            found = Decision(j.answer, j.reason or f"judged by {j.judge}", found.brief, found.number, found.news)
    return found


def _by_rules(ledger: Ledger, batch: Batch, doc: Document, case: Case, siblings: list[str]) -> Decision:
    earlier = [i for i in ledger.by(Increment, "work", case.key) if i.brief != batch.name and i.brief.startswith(f"{batch.topic} ")]
    case.anchor = doc.anchored(case.key, case.view.title)
    text = "\n".join(i.text for i in case.items)
    if case.anchor:
        news = _news(case, text, f"{case.anchor.heading}\n{case.anchor.text}", numbers=False)
        where = f"§{case.anchor.number}" if case.anchor.number else case.anchor.heading
        return Decision("update" if news else "anchored", where, news=news)
    if earlier:
        last = max(earlier, key=lambda i: (i.brief, i.rank))
        news = _news(case, text, f"{last.text}\n{_told(ledger, last)}", numbers=True)
        return Decision("update" if news else "duplicate", "", last.brief, str(last.rank), news)
    relevance = max((m.relevance for m in case.mentions), default=0)
    if relevance == 0:
        return Decision("off_topic")
    if _RUMOUR.search(text) and not case.key.startswith(("arxiv:", "doi:")):
        return Decision("to_verify", _RUMOUR.search(text)[0])  # type: ignore[index]
    if not any(m.claims for m in case.mentions) and _seen_before(ledger, batch, case):
        return Decision("same_origin", _origin(case))
    typed = any(c.amount for c in case.claims)
    if all(s.source_kind == "work_queue" for s in case.sources):
        return Decision("register_only", "work queue")
    if case.key.startswith(("title:", "url:", "repo:")) and not (typed and _PAPER.search(case.key)):
        if not typed and len(text) < 160:
            return Decision("too_thin")
        return Decision("adjacent", _origin(case))
    if relevance == 1 and not any(i.sections for i in case.items):
        return Decision("register_only")
    if case.card and case.card.main_class and _names(case.card.main_class, siblings) and not _names(case.card.main_class, [batch.topic]):
        return Decision("adjacent", case.card.main_class)
    return Decision("net_new")


def _names(text: str, topics: list[str]) -> bool:
    low = text.casefold()
    return any(t.casefold() in low for t in topics)


def _told(ledger: Ledger, increment: Increment) -> str:
    """Statements of the claims an earlier increment carried."""
    return "\n".join(c.statement for ident in increment.claims if isinstance(c := ledger.get(ident), Claim))


def _news(case: Case, text: str, before: str, numbers: bool) -> list[str]:
    """Material news against an earlier text: a new version, a new status, a new measured number."""
    out = []
    told = {int(v) for v in re.findall(r"(?<![\w.])v(\d{1,2})(?![\d.])", before)}
    version = case.view.version
    if version and version > max(told, default=1):
        out.append(f"v{version}")
    for m in _STATUS_NEWS.finditer(text):
        if m[0].casefold() not in before.casefold():
            out.append(m[0])
    if numbers:
        known = set(number_tokens(before))
        for c in case.claims:
            if c.amount and c.amount.metric and not set(number_tokens(c.amount.raw)) <= known:
                out.append(c.amount.raw)
    return list(dict.fromkeys(out))


def _seen_before(ledger: Ledger, batch: Batch, case: Case) -> bool:
    """Every origin of every mention was already told in an earlier batch."""
    origins = {o for m in case.mentions for o in m.origins if o.startswith("link:")}
    return bool(origins) and all(any(m.batch != batch.name for m in ledger.by(Mention, "origin", o)) for o in origins)


def _origin(case: Case) -> str:
    return next((o.split(":", 1)[1] for m in case.mentions for o in m.origins if o.startswith("link:")), "")
