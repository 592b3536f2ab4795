"""The parts of a brief from decided cases. Texts that are ours are stored as codes and printed in either language later."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import date

from headwater.ledger.digest.conflicts import Found
from headwater.ledger.digest.decide import Case, Decision, Pick
from headwater.ledger.digest.document import Document
from headwater.ledger.digest.gaps import critic_verdict, missing_evidence, stated_boundary
from headwater.ledger.digest.typing import sentences
from headwater.ledger.evidence import level_of
from headwater.ledger.parse.ids import find_links, find_versions
from headwater.ledger.parse.quantity import find_quantities
from headwater.ledger.records import (
    Adjacent,
    Batch,
    CarryOver,
    Citable,
    Claim,
    Contradiction,
    Grade,
    Handle,
    Increment,
    Item,
    Quote,
    Rejection,
    Source,
    fingerprint,
)
from headwater.ledger.store import Ledger

_RELATION: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("competes", re.compile(r"竞争|替代|competes?|instead of|replac", re.IGNORECASE)),
    ("complements", re.compile(r"互补|补充|complement|orthogonal|正交", re.IGNORECASE)),
    ("extends", re.compile(r"扩展|延伸|extends?|builds on", re.IGNORECASE)),
    ("quantifies", re.compile(r"生产数据|量化(?:数据|收益)|production data|measured at", re.IGNORECASE)),
    ("contradicts", re.compile(r"矛盾|相反|contradict|contrary", re.IGNORECASE)),
    ("background", re.compile(r"综述|survey|roadmap|路线图", re.IGNORECASE)),
    ("fills_gap", re.compile(r"空白|缺口|缺失的|fills? (?:a|the) gap|no entry", re.IGNORECASE)),
)
_DEFECT = re.compile(r"^\s*(?:[-*•]\s*)?(?:\*\*)?(?:核心缺陷|缺陷|defects?|weakness(?:es)?)[^:：]*[:：]\s*(?P<d>\S.*)$", re.IGNORECASE | re.MULTILINE)
_POINTS = 12


def part_id(batch: Batch, kind: str, order: int) -> str:
    """Parts of our own briefs are numbered, so composing twice writes once."""
    return fingerprint("part", batch.name, kind, order)


def identifier(key: str) -> str:
    """How a key is printed: `arXiv:2608.20359`, a DOI, a link; empty for a title-only work."""
    kind, _, value = key.partition(":")
    return {"arxiv": f"arXiv:{value}", "doi": f"doi:{value}", "repo": value, "url": value}.get(kind, "")


def make_increment(
    ledger: Ledger, batch: Batch, doc: Document, group: list[tuple[Case, Decision]], rank: int, mixed: frozenset[str] = frozenset()
) -> Increment:
    """One main item out of one case, or out of several works that one note reports together.

    mixed: software whose version lines are mixed; a number that names it without a version is withheld, not printed as a result.
    """
    cases = [c for c, _ in group]
    lead, decision = group[0]
    items = list({i.id: i for c in cases for i in c.items}.values())
    text = "\n".join(i.text for i in items)
    typed = {c.work for case in cases for c in case.claims if c.amount}
    claims = [c for case in cases for c in case.claims if c.amount or c.work not in typed]
    withheld = [c for c in claims if compares_unnamed(c.statement, mixed)]
    claims = [c for c in claims if c not in withheld]
    levels = {c.id: level_of(ledger, c.id) for c in claims}
    paths = {s.id: s for c in cases for s in c.sources}
    anchors = doc.place(text, list(dict.fromkeys(n for i in items for n in i.sections)))
    missing = missing_evidence(text)
    relation = [k for k, rx in _RELATION if rx.search(text)][:3] or (["same_family"] if anchors else ["fills_gap"])
    level = max(levels.values(), default=0)
    sources = [Quote(key="source", text=f"{paths[i.source].path} {i.address}".strip()) for i in items if i.source in paths]
    grades = _grades(lead, level, missing, claims)
    title = " + ".join(c.view.title or identifier(c.key) or c.key.split(":", 1)[1] for c in cases)
    numbers = next((g.grade for g in grades if g.aspect == "numbers"), None) or 0
    return Increment(
        id=part_id(batch, "increment", rank),
        brief=batch.name,
        order=rank,
        works=[c.key for c in cases],
        text=text[:2000],
        rank=rank,
        title=title,
        date=batch.generated[:10],
        flag="🟢" if numbers >= 3 else "🟡",
        sources=sources,
        links=[Quote(key="links", text=u) for u in _links(items)],
        fields=_fields(cases, items, [c for case in cases for c in case.claims], paths)
        + [Quote(key="withheld", text=c.statement) for c in withheld],
        claims=[c.id for c in claims],
        credibility=grades,
        relation=relation,
        sections=[a.number for a in anchors],
        form=_form(level, anchors, len(claims), relation),
        status=decision.status,
        priority="",
        stars=_stars(lead, anchors, relation, claims),
        boundary=next((b for i in items if (b := stated_boundary(i.text))), ""),
        missing=missing,
        independent=independent(cases),
        status_text="" if decision.status == "net_new" else _update(decision),
    )


def compares_unnamed(statement: str, mixed: frozenset[str]) -> bool:
    """A number about software with several version lines, without saying which version."""
    low = statement.casefold()
    return any(re.search(rf"(?<![a-z0-9]){re.escape(n)}(?![a-z0-9])", low) for n in mixed) and not find_versions(statement)


def _update(decision: Decision) -> str:
    where = f"{decision.brief} no. {decision.number}" if decision.brief else decision.reason
    return f"{', '.join(decision.news)} ← {where}"


def independent(cases: list[Case]) -> int:
    """Most independent origins that report one and the same quantity: files that copy one origin count once, every report of a paper's own
    numbers has its author as origin, and two different quantities confirm nothing about each other."""
    groups: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for case in cases:
        for c in case.claims:
            quantity = (c.work, c.amount.metric, c.amount.unit, str(c.amount.direction)) if c.amount else (c.work,)
            groups[quantity].add(f"author:{c.work}" if c.origin == "author" else f"{c.origin}:{c.source}")
    return max((len(origins) for origins in groups.values()), default=0)


def _links(items: list[Item]) -> list[str]:
    return list(dict.fromkeys(u.value for i in items for u in find_links(i.text)))


def _fields(cases: list[Case], items: list[Item], claims: list[Claim], paths: dict[str, Source]) -> list[Quote]:
    told = {c.statement for c in claims}
    known = {(c.amount.low, c.amount.unit) for c in claims if c.amount}
    out = []
    for name in ("venue", "category", "authors", "affiliation", "date", "code"):
        for c in cases:
            value = ", ".join(next((s.authors for s in c.view.statements if s.authors), [])) if name == "authors" else c.view.first(name)
            if name == "date" and c.view.version:
                value = f"v{c.view.version} {value}".strip()
            if not value and name == "affiliation" and c.key.startswith("arxiv:"):
                out.append(Quote(key=name, text=" [none]"))
            if value:
                if name == "affiliation":
                    basis = next(s.affiliation_basis for s in c.view.statements if s.affiliation)
                    value = f"{value} [{basis}]"
                out.append(Quote(key="dates" if name == "date" else name, text=value))
    points = [s for i in items for s in sentences(_unlabelled(i.text)) if s not in told and len(s) > 8]
    titles = {c.view.title for c in cases}
    points = [p for p in dict.fromkeys(points) if p.rstrip(". ") not in titles]
    points = [p for p in points if not any((q.low, q.unit) in known for q in find_quantities(p, plain=False))]
    if points:
        out.append(Quote(key="points", text=""))
        out += [Quote(key="points", text=p) for p in points[:_POINTS]]
        if len(points) > _POINTS:
            out.append(
                Quote(
                    key="points",
                    text=f"… +{len(points) - _POINTS}: {items[0].address} {paths[items[0].source].path if items[0].source in paths else ''}",
                )
            )
    for i in items:
        out += [Quote(key="defects", text=m["d"].strip()) for m in _DEFECT.finditer(i.text)]
        verdict = critic_verdict(i.text)
        if verdict:
            out.append(Quote(key="verdict", text=f"{verdict[0]}: “{verdict[1]}”"))
    return out


def _unlabelled(text: str) -> str:
    """An item's prose without heading, label lines and its own boundary."""
    drop = re.compile(
        r"^\s*(?:#|>|(?:[-*•]\s*)?(?:\*\*)?(?:来源|链接|作者|机构|会议|日期|标题|编号|主分类|类型|建议动作|被引|arXiv|证据边界|边界|核心缺陷|缺陷|source|links?|authors?|affiliations?|venue|date|title|"
        r"evidence boundary|boundary|limits?|defects?|weakness(?:es)?)[^:：\n]{0,12}[:：])",
        re.IGNORECASE,
    )
    kept = [line for line in text.split("\n")[0:] if not drop.match(line)]
    return "\n".join(kept)


def _grades(case: Case, level: int, missing: list[str], claims: list[Claim]) -> list[Grade]:
    """Proposed credibility per aspect with reasons. Storage, citation counts and affiliation raise nothing but the source aspect;
    numbers never stand above what was read."""
    kinds = {s.source_kind for s in case.sources}
    peer = bool(case.view.first("venue"))
    stated = any(s.affiliation_basis == "stated" for s in case.view.statements)
    source = min(5, 1 + bool(kinds - {"social_post"}) + bool(kinds & {"critical_read", "rss_batch", "bibliography"}) + peer + stated)
    metadata = 1 + (len(case.view.titles) == 1) + bool(case.view.first("title")) + bool(kinds & {"rss_batch", "bibliography", "critical_read"})
    simulated = any(c.amount and c.amount.measured == "simulated" for c in claims)
    numbers = max(1, min(level, 4) - simulated) if any(c.amount for c in claims) else 1
    numbers = min(numbers, 2 if level < 3 else 3 if level < 4 else 5)
    down = [*(["no_code"] if "code" in missing else []), *(["simulated"] if simulated else []), f"level_{level}"]
    up = [*(["peer_reviewed"] if peer else []), *(["affiliation_stated"] if stated else [])]
    return [
        Grade(aspect="source", grade=source, up=up),
        Grade(aspect="metadata", grade=min(metadata, 5)),
        Grade(aspect="numbers", grade=numbers, down=down),
        Grade(aspect="conclusion", grade=min(numbers, source)),
    ]


def _form(level: int, anchors: list, claims: int, relation: list[str]) -> str:
    if not anchors:
        return "open_question" if level == 0 else "subsection"
    if "background" in relation or level == 0:
        return "sentence"
    return "subsection" if claims >= 3 else "paragraph" if level >= 2 else "sentence"


def _stars(case: Case, anchors: list, relation: list[str], claims: list) -> int:
    """Value for the document, 1..5: relevance, a place or a gap, something measured. Credibility does not enter."""
    relevance = max((m.relevance for m in case.mentions), default=0)
    return min(5, 1 + (relevance >= 2) + (relevance >= 4) + bool(anchors or "fills_gap" in relation) + any(c.amount for c in claims))


def make_adjacent(batch: Batch, doc: Document, case: Case, decision: Decision, order: int) -> Adjacent:
    """A row of the adjacent table; works without an arXiv id are first-class here."""
    text = "\n".join(i.text for i in case.items)
    anchors = doc.place(text, [n for i in case.items for n in i.sections])
    title = case.view.title or next((i.title for i in case.items if i.title), "") or identifier(case.key)
    return Adjacent(
        id=part_id(batch, "adjacent", order),
        brief=batch.name,
        order=order,
        works=[case.key],
        text=text[:500],
        rank=letter(order),
        title=title,
        identifier=identifier(case.key) if case.key.startswith("arxiv:") else "",
        source=", ".join(dict.fromkeys(s.path for s in case.sources)),
        status=decision.status,
        section=anchors[0].number if anchors else "",
        stars=_stars(case, anchors, [], case.claims),
    )


def letter(n: int) -> str:
    """A, B, … Z, AA, AB, … for 1, 2, …"""
    out = ""
    while n:
        n, rest = divmod(n - 1, 26)
        out = chr(65 + rest) + out
    return out


def make_contradictions(batch: Batch, found: list[Found]) -> list[Contradiction]:
    """Ranked conflicts. Reasons and actions are printed from the type."""
    return [
        Contradiction(
            id=part_id(batch, "contradiction", n),
            brief=batch.name,
            order=n,
            works=f.works,
            rank=n,
            conflict=f.conflict,
            title=f.subject,
            parties=f.parties,
            sections=f.sections,
            priority="P0" if f.repair else "",
            consequence=f.detail,
        )
        for n, f in enumerate(found, 1)
    ]


def note_of(case: Case) -> str:
    """Version, date, venue and affiliation, as far as a source states them."""
    version = f"v{case.view.version}" if case.view.version else ""
    facts = (version, case.view.first("date"), case.view.first("venue"), case.view.first("affiliation"))
    return " · ".join(v for v in facts if v)


def make_citable(batch: Batch, groups: dict[str, list[Pick]]) -> Iterator[Citable]:
    """Every arXiv id the brief names, once, in its group."""
    seen: set[str] = set()
    for group, picks in groups.items():
        for p in picks:
            if not p.key.startswith("arxiv:") or p.key in seen:
                continue
            n = len(seen)
            seen.add(p.key)
            yield Citable(
                id=part_id(batch, "citable", n),
                brief=batch.name,
                order=n,
                works=[p.key],
                group=group,
                title=p.title,
                note=p.note,
                text=identifier(p.key),
            )


def make_rejection(batch: Batch, case: Case, decision: Decision, order: int) -> Rejection:
    """Why a work is no increment."""
    title = case.view.title or next((i.title for i in case.items if i.title), "") or identifier(case.key) or case.key.split(":", 1)[1]
    ident = identifier(case.key) if case.key.startswith(("arxiv:", "doi:")) else ""
    return Rejection(
        id=part_id(batch, "rejection", order),
        brief=batch.name,
        order=order,
        works=[case.key],
        title=f"{title} ({ident})" if ident and ident not in title else title,
        status=decision.status,
        reason=decision.reason,
        source=", ".join(dict.fromkeys(f"{s.path}" for s in case.sources)),
        ref_brief=decision.brief,
        ref_number=decision.number,
    )


def make_carried(ledger: Ledger, batch: Batch, doc: Document, now_in: set[str]) -> Iterator[CarryOver]:
    """Works of earlier briefs on the topic that are not in this one: anchored meanwhile, or pending with their age."""
    first: dict[str, Increment] = {}
    for i in ledger.all(Increment):
        if i.brief != batch.name and i.brief.startswith(f"{batch.topic} "):
            for w in i.works:
                if w not in first or i.brief < first[w].brief:
                    first[w] = i
    n = 0
    for key, i in sorted(first.items(), key=lambda p: (p[1].brief, p[1].rank, p[0])):
        if key in now_in:
            continue
        day = i.brief.removeprefix(f"{batch.topic} ")[:10]
        anchored = doc.anchored(key, re.sub(r"[（(].*$", "", i.title))
        if anchored and _age(day, batch.generated) > 7:
            continue  # settled for a week: no longer worth a line
        title = re.sub(r"[（(].*$", "", i.title).strip()
        yield CarryOver(
            id=part_id(batch, "carry_over", n),
            brief=batch.name,
            order=n,
            works=[key],
            title=f"{title} {identifier(key)}".strip(),
            state="anchored" if anchored else "pending",
            first_seen=day,
            first_brief=f"{i.brief} no. {i.rank}",
            age_days=_age(day, batch.generated),
        )
        n += 1


def _age(day: str, now: str) -> int:
    try:
        return (date.fromisoformat(now[:10]) - date.fromisoformat(day)).days
    except ValueError:
        return 0


def make_handles(batch: Batch, conflicts: list[Contradiction], best: list[Increment]) -> list[Handle]:
    """At most three: what makes the document checkable comes before anything new, one reading task at the end if there is room.

    best: the two most valuable increments.
    """
    plans: list[tuple[str, str, list[str]]] = []
    repairs = [c for c in conflicts if c.priority == "P0"]
    if repairs:
        plans.append((f"repair:{repairs[0].conflict}", repairs[0].title, repairs[0].sections))
    plans += [("anchor", i.title, i.sections) for i in best[:1]]
    gaps = [c for c in conflicts if c.conflict == "common_gap"]
    if gaps:
        plans.append(("read", gaps[0].title, []))
    elif len(best) > 1:
        plans.append(("anchor", best[1].title, best[1].sections))
    return [
        Handle(id=part_id(batch, "handle", n), brief=batch.name, order=n, rank=n, repair=a.startswith("repair"), advice=a, subject=s, sections=sec)
        for n, (a, s, sec) in enumerate(plans[:3], 1)
    ]
