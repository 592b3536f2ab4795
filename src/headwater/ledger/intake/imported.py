"""An earlier or foreign brief to records: the same parts that our own digest writes, so that one renderer serves both."""

from __future__ import annotations

import re

from headwater.ledger.intake.items import section_numbers, work_keys
from headwater.ledger.intake.notes import Intake
from headwater.ledger.parse.brief import Entry, Field, ParsedBrief
from headwater.ledger.parse.ids import find_dates, find_ids, title_key
from headwater.ledger.records import (
    Adjacent,
    Batch,
    CarryOver,
    Citable,
    Contradiction,
    Handle,
    Increment,
    Part,
    Quote,
    Record,
    Rejection,
    SourceLine,
    Statement,
    SummaryRow,
    Work,
    fingerprint,
)
from headwater.ledger.vocabulary import CONFLICTS

_STATUS_WORDS = (
    ("to_verify", r"P0|待核实|to verify"),
    ("anchored", r"^(?!.*(?:未|待|not ).*锚).*已锚入|^anchored"),
    ("pending", r"待锚入|pending"),
    ("adjacent", r"邻接|adjacent"),
    ("net_new", r"NET-new"),
    ("duplicate", r"重复|重采|已在.*收录|duplicate|covered in"),
    ("same_origin", r"同源|same origin"),
    ("off_topic", r"无关|非 ?\S+ ?(?:主线|部署)|不在.*边界|off topic"),
    ("register_only", r"登记|register only"),
    ("too_thin", r"证据(?:缺口)?过|二手摘要|too thin"),
)
_ROW = re.compile(
    r"^(?P<item>.+?)\s+(?P<id>无（[^）]*）|无|none(?: \([^)]*\))?|arXiv:\S+)\s+(?P<source>\S.*?)\s+"
    r"(?P<status>(?:邻接|adjacent|NET-new|P0|待核实|to verify).*)$"
)
_STARS = re.compile(r"^(?P<item>.+?)\s+(?P<stars>⭐+)\s+(?P<status>.*)$")
_KEYWORDS = {
    "version_lines": r"版本线|version line",
    "baseline": r"基线|baseline",
    "different_kinds": r"不同性质|different kinds",
    "common_gap": r"共同空洞|common gap|都缺",
    "same_origin": r"同源|same[- ]origin",
    "density": r"证据密度|density",
    "open_source": r"开源|open source",
    "maturity": r"成熟度|maturity",
    "deployability": r"可行性|deploy",
    "disagreement": r"矛盾未消解|两处|disagree|真实状态",
    "scope": r"适用范围|scope",
    "card_conflict": r"卡.*矛盾",
    "acronym": r"缩写|short name",
    "title": r"错挂|mis-attached",
    "duplicate_cards": r"同号|two cards",
}


def status_of(text: str) -> str:
    """Canonical status named first in a text, empty when none is."""
    found = [(m.start(), k) for k, rx in _STATUS_WORDS if (m := re.search(rx, text, re.IGNORECASE))]
    return min(found)[1] if found else ""


def read_brief(source: str, path: str, brief: ParsedBrief, topic: str) -> Intake:
    """All parts of a parsed brief. The name of the batch is `topic date`; parts keep their text and order."""
    name = f"{topic or brief.topic or path} {brief.date}".strip()
    out = Intake(title=brief.title)
    batch = Batch(
        id=fingerprint("batch", source, name),
        name=name,
        topic=topic or brief.topic,
        owner=_owner(brief),
        language=brief.language,
        layout=brief.layout or "D",
        generated=brief.date,
        imported=True,
        title=brief.title,
        source=source,
    )
    maker = _Maker(name, source)
    for f in brief.header[1:] if brief.header and not brief.header[0].label else brief.header:
        maker.say("header", f)
    for section in brief.sections:
        for f in section.loose:
            maker.say("table" if f.key == "columns" else f"{section.kind}", f)
        for sub in section.subheads:
            if section.kind not in {"source", "source_total", "citable"}:
                maker.say(f"{section.kind}", sub)
        for entry in section.entries:
            maker.entry(section.kind, entry)
        if section.kind == "source":
            maker.groups([s.text for s in section.subheads])
    for f in brief.footer:
        maker.say("footer", f)
    maker.titles(source)
    out.records = [*maker.works, *maker.parts, batch]
    out.items = len(maker.parts)
    return out


def _owner(brief: ParsedBrief) -> str:
    stated = next((h.text for h in brief.header if h.key == "authors"), "")
    if stated:
        return stated
    instance = next((h.text for h in brief.header if h.key == "instance"), "")
    return re.split(r"\s*·\s*", instance)[0] if instance else ""


class _Maker:
    """Makes parts in order."""

    def __init__(self, brief: str, source: str) -> None:
        self.brief, self.source = brief, source
        self.parts: list[Part] = []
        self.works: list[Record] = []

    def base(self, text: str, *extra: object) -> dict:
        order = len(self.parts)
        return {
            "id": fingerprint("part", self.brief, self.source, order, text, *extra),
            "brief": self.brief,
            "order": order,
            "text": text,
            "works": [k for k in work_keys(text) if not k.startswith(("url:", "repo:"))],
        }

    def say(self, key: str, f: Field) -> None:
        self.parts.append(Statement(**self.base(f.text, key, f.label), key=f"{key}:{f.key}" if f.key else key, label=f.label))

    def groups(self, titles: list[str]) -> None:
        """Sub-headings of the source list that have no entry of their own still say what was looked at."""
        named = {p.group for p in self.parts if isinstance(p, SourceLine)}
        for title in titles:
            if title not in named:
                self.parts.append(SourceLine(**self.base(title, "group"), group=title))

    def entry(self, section: str, e: Entry) -> None:
        make = getattr(self, f"_{e.kind}", None)
        if make is None:
            for f in e.fields:
                self.say(section, f)
            return
        make(e)

    def _increment(self, e: Entry) -> None:
        tag_dates = [d.value for d in find_dates(e.tag)]
        fields = [Quote(key=f.key, label=f.label, text=f.text) for f in e.fields if f.text or f.label]
        status = e.first("status")
        base = self.base(e.text)
        base["works"] = [f"arxiv:{i}" for i in e.ids]
        placement = e.first("placement")
        self.parts.append(
            Increment(
                **base,
                rank=int(e.rank or 0),
                title=e.title,
                tag=e.tag,
                flag=e.flag,
                date=tag_dates[-1] if tag_dates else "",
                sources=[q for q in fields if q.key == "source"],
                links=[q for q in fields if q.key == "links"],
                fields=[q for q in fields if q.key not in {"source", "links", "status", "boundary"}],
                sections=section_numbers(e.tag) or section_numbers(placement),
                status=status_of(status),
                status_text=status,
                boundary=e.first("boundary"),
                priority=_priority(status),
            )
        )

    def _adjacent(self, e: Entry) -> None:
        cells = {f.key: f.text for f in e.fields}
        m = _ROW.match(e.title)
        if "item" in cells:
            self.parts.append(
                Adjacent(
                    **self.base(e.text),
                    rank=e.rank,
                    title=cells["item"],
                    identifier=cells.get("arxiv", ""),
                    source=cells.get("source", ""),
                    status_text=cells.get("status", ""),
                    status=status_of(cells.get("status", "")) or "adjacent",
                )
            )
        elif m:
            self.parts.append(
                Adjacent(
                    **self.base(e.text),
                    rank=e.rank,
                    title=m["item"],
                    identifier=m["id"],
                    source=m["source"],
                    status_text=m["status"],
                    status=status_of(m["status"]) or "adjacent",
                )
            )
        else:
            self.parts.append(Adjacent(**self.base(e.text), rank=e.rank, title=" ".join(f.text for f in e.fields)))

    def _summary_row(self, e: Entry) -> None:
        cells = {f.key: f.text for f in e.fields}
        if "item" in cells:
            stars = cells.get("value", "").count("⭐") or cells.get("value", "").count("★")
            self.parts.append(
                SummaryRow(
                    **self.base(e.text),
                    rank=e.rank,
                    title=cells["item"],
                    section=cells.get("class", ""),
                    stars=stars or None,
                    status_text=cells.get("status", ""),
                )
            )
            return
        m = _STARS.match(e.title)
        if not m:
            self.parts.append(SummaryRow(**self.base(e.text), rank=e.rank, title=e.title))
            return
        cut = m["item"].find(" §") if " §" in m["item"] else m["item"].rfind(" ")
        self.parts.append(
            SummaryRow(
                **self.base(e.text),
                rank=e.rank,
                title=m["item"][:cut].strip(),
                section=m["item"][cut:].strip(),
                stars=len(m["stars"]),
                status_text=m["status"],
            )
        )

    def _contradiction(self, e: Entry) -> None:
        text = _joined(e)
        kind = next((k for k, rx in _KEYWORDS.items() if re.search(rx, text[:80])), "")
        kind = kind or next((k for k, rx in _KEYWORDS.items() if re.search(rx, text)), "other")
        head, arrow, action = text.partition("→")
        self.parts.append(
            Contradiction(
                **self.base(text),
                rank=int(e.rank or 0),
                conflict=kind if kind in CONFLICTS else "other",
                title="",
                reason=head.strip() if arrow else text,
                action=action.strip(),
                sections=section_numbers(text),
            )
        )

    def _citable(self, e: Entry) -> None:
        self.parts.append(Citable(**self.base(_joined(e), e.group), group=e.group, rank=e.rank))

    def _carry_over(self, e: Entry) -> None:
        text = _joined(e)
        title = re.split(r"[（(]", text)[0].strip()
        state = status_of(re.sub(r"^[^（(]*", "", text)) or "pending"
        dates = re.search(r"\d{1,2}-\d{1,2}|\d{4}-\d{2}-\d{2}", text[len(title) :])
        self.parts.append(
            CarryOver(
                **self.base(text), title=title, state=state if state in {"anchored", "pending"} else "pending", first_seen=dates[0] if dates else ""
            )
        )

    def _rejection(self, e: Entry) -> None:
        text = _joined(e)
        title, _, reason = re.sub(r"[（(][^（）()]*[）)]", lambda m: m[0].replace("：", "\0"), text).partition("：")
        m = re.search(r"(\d{4}-\d{2}-\d{2})\s*(?:E1)?\s*(?:简报|brief)\s*(?:第|no\.?|item)?\s*([\d、,， ]+)?", text)
        self.parts.append(
            Rejection(
                **self.base(text),
                title=title.replace("\0", "：").strip(),
                reason=reason.replace("\0", "：").strip(),
                status=status_of(text),
                ref_brief=m[1] if m else "",
                ref_number=(m[2] or "").strip() if m else "",
            )
        )

    def _handle(self, e: Entry) -> None:
        text = _joined(e)
        repair = bool(re.search(r"先修|修(?:正|复)|repair|fix", text[:40], re.IGNORECASE))
        self.parts.append(Handle(**self.base(text), rank=int(e.rank or 0), repair=repair, sections=section_numbers(text)))

    def _source(self, e: Entry) -> None:
        text = _joined(e)
        m = re.match(r"(?P<path>[\w./~-]+\.\w{2,4}|\S+-\S+\.md)", text)
        self.parts.append(SourceLine(**self.base(text, e.group, e.line), group=e.group, path=m["path"] if m else "", gist=text))

    def _source_total(self, e: Entry) -> None:
        text = _joined(e)
        m = re.match(r"(?P<path>[\w./~-]+\.\w{2,4})", text)
        self.parts.append(SourceLine(**self.base(text, e.mark, e.line), group=e.group, path=m["path"] if m else "", gist=text, verdict=e.mark))

    def titles(self, source: str) -> None:
        """Titles stated in the id list become statements about works; key and quote only, no evidence."""
        for p in self.parts:
            if isinstance(p, Citable):
                m = re.match(r"arXiv:\S+\s*[—–-]+\s*(?P<t>[^（(]+)", p.text)
                key = next((i.key for i in find_ids(p.text) if i.kind == "arxiv"), "")
                if m and key and title_key(m["t"]):
                    self.works.append(Work(id=fingerprint("work", key, source, p.id), key=key, title=m["t"].strip(), source=source))


def _priority(status: str) -> str:
    m = re.search(r"建议优先锚入|优先锚入|仅(?:适合)?作(?:为)?对照锚|anchor first|contrast only", status)
    return m[0] if m else ""


def _joined(e: Entry) -> str:
    """The entry's text without its mark and number, labels included."""
    text = e.text.strip()
    text = re.sub(r"^\s*(?:[•●▪*+\-–]|✅)\s+", "", text)
    text = re.sub(r"^✅\s*", "", text)
    if e.rank:
        text = re.sub(rf"^{re.escape(e.rank)}[.、)）]?\s*", "", text)
    return text.strip()


__all__ = ["read_brief", "status_of"]
