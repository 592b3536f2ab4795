"""Notes, cards, queues, bibliographies, feeds and living documents to records."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from headwater.ledger.extra import need
from headwater.ledger.intake.items import LIMIT, Chunk, cut, section_numbers, segments, title_work, work_keys
from headwater.ledger.intake.orders import find_orders, without_orders
from headwater.ledger.parse.brief import front_matter
from headwater.ledger.parse.ids import find_dates, find_ids, find_links
from headwater.ledger.records import Anchor, Card, Count, Flag, Item, Queued, Record, Work, fingerprint

_YAML = re.compile(r"\A---\s*\n.*?\n(?:---|\.\.\.)\s*(?:\n|\Z)", re.DOTALL)
_TITLED = (
    re.compile(r"\[(?P<t>[^\]\n]{6,200})\]\(https?://[^)\s]*(?:arxiv|doi)[^)\s]*\)"),
    re.compile(r"arXiv\s*[:：]\s*[\d.]+(?:v\d+)?\s*[—–:-]+\s*(?P<t>[^\n（(;；]{4,200})", re.IGNORECASE),
    re.compile(r"\*\*(?P<t>[^*\n]{6,200})\*\*\s*[（(,，]?\s*(?:arXiv|\d{4}\.\d{5}|https?://)", re.IGNORECASE),
    re.compile(r"^[ \t]{0,12}(?:[-*•]|\d{1,3}[.、)])?[ \t]{0,4}(?P<t>[A-Z][^\n（(;；。]{3,180}?)\s*[（(]\s*"
               r"(?:arXiv\s*[:：]\s*)?\d{4}\.\d{5}", re.MULTILINE),
    re.compile(r"[《\"“](?P<t>[^》\"”\n]{6,200})[》\"”]"),
)
_LABEL = re.compile(r"^\s*(?:[-*•]\s*)?(?:\*\*)?(?P<k>[^:：\n|*]{1,24}?)(?:\*\*)?\s*[:：]\s*(?:\*\*)?\s*(?P<v>\S.*)$")
_CITED = re.compile(
    r"被引\s*(\d+)\s*[（(]([^）)]+)[）)]|([A-Z][A-Za-z0-9]+)\s*被引\s*(\d+)|"
    r"cited(?: by)?\s*(\d+)\s*\(([^)]+)\)|([A-Z][A-Za-z0-9]+)\s+citations?\s*[:=]?\s*(\d+)"
)
_AGE = re.compile(r"(\d+)\s*(?:天|days?)")
_CODE_SAID = re.compile(r"开源|code (?:is )?(?:available|released|public)|open[- ]source", re.IGNORECASE)


@dataclass(slots=True)
class Intake:
    """What reading one file gave: records, a title, and how many items."""

    records: list[Record] = field(default_factory=list)
    title: str = ""
    items: int = 0
    flags: list[str] = field(default_factory=list)


def split_front(text: str) -> tuple[dict[str, str], str, int]:
    """(front matter, body, number of the body's first line)."""
    m = _YAML.match(text)
    if not m:
        return {}, text, 1
    return front_matter(m[0].split("\n")), text[m.end() :], m[0].count("\n") + 1


def guess_title(text: str, heading: str, works: list[str]) -> str:
    """Title of the work an item speaks of; empty when the item names several or says no title."""
    if len(works) > 1:
        return ""
    label = re.search(r"^\s*(?:[-*•]\s*)?(?:\*\*)?(?:标题|题目|title)(?:\*\*)?\s*[:：]\s*(\S.*)$", text, re.IGNORECASE | re.MULTILINE)
    if label:
        return label[1].strip('*《》"“” ')
    for rx in _TITLED:
        m = rx.search(text)
        if m:
            return m["t"].strip(" .*")
    if not re.match(r"\s*(?:#|§|对象|第)|entry |object ", text, re.IGNORECASE):
        return ""  # a point below a heading does not bear the heading's title
    head = re.sub(r"[（(][^（()）]*\d{4}\.\d{4,5}[^（()）]*[)）]|arXiv\s*:\s*[\d.v]+", "", heading.rsplit(" / ", 1)[-1])
    head = re.sub(
        r"^(?:§\S+|对象[一二三四五六七八九十\d]+|第\S{1,3}[条份]|object \w+|entry \d+|\d+[.、)])\s*[:：.]?\s*", "", head, flags=re.IGNORECASE
    ).strip(" —–-:：")
    return head if works and len(head) >= 4 else ""


def statements(source: str, item: str, works: list[str], text: str, title: str) -> list[Work]:
    """What one item states about the identity of the works it names."""
    out = []
    found = find_ids(text)
    repos = list(dict.fromkeys(i.value for i in found if i.kind == "repo"))
    dois = [i.key for i in found if i.kind == "doi"]
    versions = {i.key: i.version for i in found if i.version}
    single = len(works) == 1
    for key in works:
        cited = [_count(m) for m in _CITED.finditer(text)] if single else []
        work = Work(id="", key=key, source=source, item=item, version=versions.get(key))
        if single:
            affiliation, basis = _affiliation(text)
            work = work.model_copy(
                update={
                    "title": title,
                    "code": repos[0] if repos else "",
                    "identifiers": [d for d in dois if d != key],
                    "citations": cited,
                    "authors": _authors(text),
                    "venue": _venue(text),
                    "date": _date(text),
                    "affiliation": affiliation,
                    "affiliation_basis": basis,
                }
            )
        out.append(work.model_copy(update={"id": fingerprint("work", work.model_dump(exclude={"id", "at", "by"}))}))
    return out


def _count(m: re.Match[str]) -> Count:
    pairs = [(m[2], m[1]), (m[3], m[4]), (m[6], m[5]), (m[7], m[8])]
    service, count = next((s, c) for s, c in pairs if c)
    return Count(service=service.strip(), count=int(count))


def _labelled(text: str, *names: str) -> str:
    m = re.search(rf"^\s*(?:[-*•]\s*)?(?:\*\*)?(?:{'|'.join(names)})(?:\*\*)?\s*[:：]\s*(?:\*\*)?\s*(\S.*)$", text, re.IGNORECASE | re.MULTILINE)
    return m[1].strip() if m else ""


def _authors(text: str) -> list[str]:
    raw = _labelled(text, "作者", "authors?")
    names = re.split(r"\s*(?:[,，、;；]|\band\b)\s*", re.sub(r"[（(].*$", "", raw))
    return [n.strip() for n in names if n.strip()][:200]


def _affiliation(text: str) -> tuple[str, str]:
    raw = _labelled(text, "机构", "单位", "affiliations?")
    if not raw or re.fullmatch(r"无|none|未标注|-", raw, re.IGNORECASE):
        return "", "none"
    return raw, "inferred" if re.search(r"推测|推断|inferred|probably|likely", raw, re.IGNORECASE) else "stated"


def _venue(text: str) -> str:
    raw = _labelled(text, "会议", "期刊", "venue")
    if raw:
        return raw
    m = re.search(
        r"\b(NeurIPS|ICML|ICLR|MLSys|VLDB|OSDI|SOSP|NSDI|ASPLOS|ISCA|EMNLP|ACL|NAACL|SIGMOD|EuroSys|ATC)\s*(?:'|’)?\s*(20\d\d|\d\d)\b", text
    )
    return f"{m[1]} {m[2] if len(m[2]) == 4 else '20' + m[2]}" if m else ""


def _date(text: str) -> str:
    m = re.search(r"\bv\d+\s+(20\d\d-\d\d-\d\d)", text)
    return m[1] if m else ""


def read_note(source: str, text: str, title: str = "") -> Intake:
    """A note in Markdown or text, or a paper card's prose: items, the works they name, and flags."""
    _, body, first = split_front(text)
    out = Intake(title=title)
    lines = body.split("\n")
    for line in lines[:40]:
        m = re.match(r"^\s{0,3}#\s+(\S.*)$", line)
        if m:
            out.title = out.title or m[1].strip()
            break
    for chunk in cut(lines, first):
        if len(chunk.text) > LIMIT:
            _long(out, source, chunk)
        else:
            _item(out, source, chunk)
    return out


def _item(out: Intake, source: str, chunk: Chunk, excerpt: bool = False) -> None:
    works = work_keys(chunk.text)
    orders = find_orders(chunk.text)
    plain = without_orders(chunk.text) if orders else chunk.text
    title = guess_title(plain, chunk.heading, works)
    if not works and title:
        works = [title_work(title)]
    ident = fingerprint("item", source, chunk.address, chunk.line, chunk.text)
    out.records.append(
        Item(
            id=ident,
            source=source,
            address=chunk.address,
            line=chunk.line,
            end_line=chunk.end_line,
            title=chunk.heading,
            text=chunk.text[:2000] if excerpt else chunk.text,
            works=works,
            links=[u.value for u in find_links(chunk.text)],
            sections=section_numbers(plain),
            instructions=orders,
            excerpt=excerpt,
        )
    )
    out.items += 1
    out.records += statements(source, ident, works, plain, title)
    for quote in orders:
        out.records.append(Flag(id=fingerprint("orders", ident, quote), subject=ident, flag="instruction_like", text=quote))


def _long(out: Intake, source: str, chunk: Chunk) -> None:
    """A part too long to copy: identifiers, links and marks of every stretch are kept, the text as an excerpt with its lines."""
    line = chunk.line
    for k, (_, piece) in enumerate(segments(chunk.text), 1):
        breaks = piece.count("\n")
        end = line + breaks - (1 if piece.endswith("\n") and breaks else 0)
        _item(out, source, Chunk(f"{chunk.address}.{k}", chunk.heading, line, end, piece), excerpt=True)
        line += breaks
    out.flags.append(f"part {chunk.address} has {len(chunk.text):,} characters; kept as {k:,} excerpts with line numbers")


def read_large(source: str, lines: Iterator[str], limit: int = 4 * LIMIT) -> Intake:
    """A large file, line by line: every identifier, link and mark is kept, the text as excerpts with line numbers.

    lines: with their line ends; a piece without one is the middle of an overlong line.
    """
    out = Intake()
    held: list[str] = []
    size, first, no = 0, 1, 1
    for line in lines:
        held.append(line)
        size += len(line)
        no += line.endswith("\n")
        if size >= limit:
            _item(out, source, Chunk(f"part {out.items + 1}", "", first, max(no - 1, first), "".join(held)), excerpt=True)
            held, size, first = [], 0, no
    if "".join(held).strip():
        _item(out, source, Chunk(f"part {out.items + 1}", "", first, max(no - 1, first), "".join(held)), excerpt=True)
    return out


def read_card(source: str, path: str, text: str) -> Intake:
    """A paper card: `1197-2609-01925.md` with labelled lines."""
    head, body, _ = split_front(text)
    out = read_note(source, text)
    fields = dict(head)
    for line in body.split("\n"):
        m = _LABEL.match(line)
        if m and not m["k"].lower().startswith("http"):
            fields.setdefault(m["k"].strip(" *-•#"), m["v"].strip())
    named = next((i for i in find_ids(path.rsplit("/", 1)[-1]) if i.form == "card"), None)
    number = named.card if named and named.card else int(re.sub(r"\D", "", fields.get("编号", fields.get("number", "0"))) or 0)
    work = named.key if named else next(iter(work_keys(body)), "")
    low = {k.lower(): v for k, v in fields.items()}

    def pick(*names: str) -> str:
        return next((low[n] for n in names if n in low), "")

    card_title = pick("标题", "title") or out.title
    out.records.append(
        Card(
            id=fingerprint("card", source, number, work),
            number=number,
            work=work,
            title=card_title,
            main_class=pick("主分类", "class", "main class"),
            card_type=pick("类型", "type"),
            action=pick("建议动作", "action", "suggested action"),
            tldr=pick("tldr", "一句话"),
            fields=fields,
            source=source,
        )
    )
    if work and not any(isinstance(r, Work) and r.key == work for r in out.records):
        item = next((r.id for r in out.records if isinstance(r, Item)), "")
        out.records.append(Work(id=fingerprint("work", work, source, "card", card_title), key=work, title=card_title, source=source, item=item))
    out.title = card_title
    return _attach(out, work)


def _attach(out: Intake, work: str) -> Intake:
    """Items of a card that name no work speak of the card's own."""
    if work:
        out.records = [
            r.model_copy(update={"works": [work]}) if isinstance(r, Item) and not any(w.startswith(("arxiv:", "doi:")) for w in r.works) else r
            for r in out.records
        ]
        out.records = [r for r in out.records if not (isinstance(r, Work) and r.key.startswith(("title:", "url:")))]
    return out


def read_queue(source: str, text: str) -> Intake:
    """A work queue: cards to build, documents to update (with age), topics to write."""
    out = read_note(source, text)
    kind = "topic"
    for line in text.split("\n"):
        if re.match(r"^\s{0,3}#", line):
            kind = (
                "card"
                if re.search(r"卡|card", line, re.IGNORECASE)
                else "document"
                if re.search(r"文档|document|update", line, re.IGNORECASE)
                else "topic"
            )
        m = re.match(r"^\s*(?:[-*+•]|\d{1,3}[.、)])\s+(\S.*)$", line)
        if m:
            age = _AGE.search(m[1])
            subject = re.split(r"\s*[—–:：（(,，]\s*|\s{2,}", m[1].strip("* "))[0]
            out.records.append(
                Queued(
                    id=fingerprint("queued", source, line),
                    source=source,
                    queue_kind=kind,
                    subject=subject,
                    age_days=int(age[1]) if age else None,
                    flag="P0" if re.search(r"\bP0\b|高价值|high value", m[1]) else "",
                    text=m[1],
                )
            )
    return out


def read_bibliography(source: str, text: str) -> Intake:
    """A BibTeX file; entries become items and works, blocks that do not parse are flagged and kept as items."""
    bibtexparser = need("bibtexparser", "reading BibTeX")
    out = Intake()
    library = bibtexparser.parse_string(text)
    for entry in library.entries:
        fields = {k.lower(): str(f.value).strip("{} ") for k, f in entry.fields_dict.items()}
        raw = entry.raw or ""
        works = work_keys(
            " ".join(
                [
                    fields.get("eprint", ""),
                    *(f"arXiv:{v}" for k, v in fields.items() if k == "eprint"),
                    fields.get("doi", ""),
                    fields.get("url", ""),
                    raw,
                ]
            )
        )
        title = re.sub(r"[{}]", "", fields.get("title", ""))
        works = works[:1] or ([title_work(title)] if title else [])
        line = (entry.start_line or 0) + 1
        ident = fingerprint("item", source, entry.key, line, raw)
        out.records.append(
            Item(
                id=ident,
                source=source,
                address=entry.key,
                line=line,
                end_line=line + raw.count("\n"),
                title=title,
                text=raw,
                works=works,
                links=[u.value for u in find_links(raw)],
                instructions=find_orders(raw),
            )
        )
        out.items += 1
        authors = [a.strip() for a in re.split(r"\s+and\s+", fields.get("author", "")) if a.strip()]
        for key in works:
            date = "-".join(p for p in (fields.get("year", ""), fields.get("month", "") if fields.get("month", "").isdigit() else "") if p)
            venue = fields.get("booktitle") or fields.get("journal") or ""
            out.records.append(
                Work(
                    id=fingerprint("work", key, source, ident, fields),
                    key=key,
                    title=title,
                    authors=authors,
                    venue=venue,
                    date=date,
                    source=source,
                    item=ident,
                )
            )
    for block in library.failed_blocks:
        out.flags.append(f"line {(block.start_line or 0) + 1}: not readable as BibTeX; kept as text")
        _item(
            out, source, Chunk(f"block {(block.start_line or 0) + 1}", "", (block.start_line or 0) + 1, (block.start_line or 0) + 1, block.raw or "")
        )
    return out


def read_feed(source: str, data: bytes) -> Intake:
    """An RSS or Atom file. Bytes only: nothing is fetched."""
    feedparser = need("feedparser", "reading RSS and Atom")
    feed = feedparser.parse(data, sanitize_html=True, resolve_relative_uris=False)
    out = Intake(title=str(feed.feed.get("title", "")))
    if feed.bozo and not _covers(feed.entries, data):
        out.flags.append(f"not readable as a feed ({type(feed.bozo_exception).__name__}); kept as text")
        inner = read_note(source, data.decode("utf-8", "replace"))
        out.records, out.items = inner.records, inner.items
        return out
    for k, entry in enumerate(feed.entries, 1):
        summary = re.sub(r"<[^>]+>", " ", str(entry.get("summary", "")))
        title = re.sub(r"\s+", " ", str(entry.get("title", ""))).strip()
        text = f"{title}\n{entry.get('link', '')}\n{entry.get('id', '')}\n{summary}".strip()
        works = work_keys(f"{entry.get('link', '')} {entry.get('id', '')}") or work_keys(text) or ([title_work(title)] if title else [])
        works = works[:1]
        ident = fingerprint("item", source, k, text)
        orders = find_orders(text)
        links = [u.value for u in find_links(text)]
        out.records.append(
            Item(
                id=ident,
                source=source,
                address=f"entry {k}",
                line=k,
                end_line=k,
                title=title,
                text=text,
                works=works,
                links=list(dict.fromkeys(links)),
                sections=[],
                instructions=orders,
            )
        )
        out.items += 1
        authors = [a.get("name", "") for a in entry.get("authors", []) if a.get("name")]
        for key in works:
            plain = re.sub(r"\s*\(?arXiv:[\d.v]+\s*\[[^\]]*\].*$", "", title).strip()
            out.records.append(
                Work(
                    id=fingerprint("work", key, source, ident, plain, authors),
                    key=key,
                    title=plain,
                    authors=authors,
                    date=str(entry.get("published", ""))[:10] if re.match(r"\d{4}-", str(entry.get("published", ""))) else "",
                    category=", ".join(t.get("term", "") for t in entry.get("tags", []) if t.get("term")),
                    source=source,
                    item=ident,
                )
            )
        out.records += [Flag(id=fingerprint("orders", ident, q), subject=ident, flag="instruction_like", text=q) for q in orders]
    return out


def _covers(entries: list, data: bytes) -> bool:
    """Whether the entries of a malformed feed still carry every identifier of its text."""
    wanted = {i.key for i in find_ids(data.decode("utf-8", "replace"))}
    return bool(entries) and wanted <= {i.key for e in entries for i in find_ids(" ".join(map(str, e.values())))}


def read_document(source: str, path: str, text: str) -> Intake:
    """A living document: one anchor per numbered or headed section. It is read, never written."""
    _, body, first = split_front(text)
    out = Intake()
    lines = body.split("\n")
    heads = [i for i, line in enumerate(lines) if re.match(r"^\s{0,3}#{1,6}\s+\S", line)]
    out.title = re.sub(r"^\s*#+\s*", "", lines[heads[0]]).strip() if heads else path
    bounds = [*heads, len(lines)]
    if heads and heads[0] > 0:
        bounds = [0, *bounds]
    for a, b in pairwise(bounds):
        part = "\n".join(lines[a:b])
        if not part.strip():
            continue
        heading = re.sub(r"^\s*#+\s*", "", lines[a]).strip()
        m = re.match(r"^§?\s*(\d+(?:\.(?:\(\d+\)|\d+))*)[.、\s]?", heading)
        number = m[1] if m else ""
        out.records.append(
            Anchor(
                id=fingerprint("anchor", source, number, heading, part),
                document=source,
                number=number,
                heading=heading,
                sha256=hashlib.sha256(part.encode()).hexdigest(),
                line=first + a,
                works=[k for k in work_keys(part) if not k.startswith("url:")],
                text=part[len(lines[a]) :].strip(),
            )
        )
        out.items += 1
    return out


def update_note(text: str) -> str:
    """The document's last update note: front matter `updated`, or its first line that names one."""
    head, body, _ = split_front(text)
    for name in ("updated", "更新", "last_update", "update"):
        if name in head:
            return head[name]
    for line in body.split("\n")[:30]:
        if re.search(r"更新|updated?", line, re.IGNORECASE) and find_dates(line):
            return line.strip("#>*- ").strip()
    return ""
