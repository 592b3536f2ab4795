"""`digest`: one round over everything that was ingested and not digested yet.

First pass, source by source: works, claims with their opening reading, mentions. Second pass, work by work: one disposition each.
Then the parts of the brief. All ids depend on what is said, so an interrupted run that starts again writes nothing twice; memory
holds one chunk, the candidates' keys, and the increments.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache

from headwater.core.errors import UserInputError
from headwater.ledger.digest import compose, listing
from headwater.ledger.digest.conflicts import Watch
from headwater.ledger.digest.decide import Case, Decision, Pick, decide
from headwater.ledger.digest.document import load_document
from headwater.ledger.digest.gaps import axis, missing_evidence, stated_boundary
from headwater.ledger.digest.identity import resolve, same_by_title, view_work
from headwater.ledger.digest.listing import ORDER
from headwater.ledger.digest.typing import claims_of, same_quantity
from headwater.ledger.evidence import level_of, opening
from headwater.ledger.instance import Instance
from headwater.ledger.intake.items import cited_files
from headwater.ledger.intake.orders import without_orders
from headwater.ledger.parse.ids import canonical_url, find_links, title_key
from headwater.ledger.records import (
    Batch,
    Card,
    Claim,
    Digested,
    Disposition,
    Done,
    Flag,
    Increment,
    Item,
    Mention,
    Part,
    Reading,
    Record,
    Rejection,
    Source,
    fingerprint,
)
from headwater.ledger.store import Ledger
from headwater.ledger.vocabulary import opening_level, stated_level

_BASELINE = {"sibling_brief", "earlier_brief", "living_document", "work_queue", "unreadable"}
_CHUNK = 1500
Progress = Callable[[str, int, int], None]


@dataclass(slots=True)
class Outcome:
    """What a digest did. statuses: works by disposition; resumed: it continued an interrupted round."""

    batch: str = ""
    sources: int = 0
    items: int = 0
    claims: int = 0
    retold: int = 0
    works: int = 0
    resumed: bool = False
    statuses: dict[str, int] = field(default_factory=dict)
    parts: dict[str, int] = field(default_factory=dict)


class Digest:
    """One run. at: the clock of the round; durable: wait for the disk at every chunk."""

    def __init__(self, ledger: Ledger, instance: Instance, now: datetime, progress: Progress | None = None, durable: bool = True) -> None:
        self.ledger, self.instance, self.now = ledger, instance, now
        self.progress, self.durable = progress or (lambda *_: None), durable
        self.words = instance.words()
        self.out = Outcome()
        self.pending: list[Record] = []
        self.fresh: dict[str, list[Claim]] = {}
        self.source = lru_cache(maxsize=8192)(self._source)

    def _source(self, ident: str) -> Source | None:
        found = self.ledger.get(ident)
        return found if isinstance(found, Source) else None

    def run(self) -> Outcome:
        """Digest what is new; without anything new, nothing is written.

        Raises:
            UserInputError: another digest is running, or the ledger has a batch of this name already.
        """
        with self.ledger.alone():
            return self._run()

    def _run(self) -> Outcome:
        self.ledger.catch_up()
        batch = self._open_batch()
        if batch is None:
            return self.out
        self.batch = batch
        self.out.batch = batch.name
        self.doc = load_document(self.ledger, self.instance.document, self.instance.topic)
        self._first_pass()
        self._second_pass()
        return self.out

    # -- the batch -----------------------------------------------------------------------------------------------------------------

    def _open_batch(self) -> Batch | None:
        for b in self.ledger.all(Batch):
            if not b.imported and not self.ledger.count(Done, "batch", b.name):
                self.out.resumed = True
                self.todo = self._todo(b)
                return b
        self.todo = self._todo(None)
        if not self.todo:
            return None
        start, end = self.instance.window(self.now)
        name = f"{self.instance.topic} {end}"
        if self.ledger.count(Batch, "name", name):
            raise UserInputError(f"now: this ledger already has a batch {name!r}; give a later --now", "now")
        doc = load_document(self.ledger, self.instance.document, self.instance.topic)
        declared = Counter(s.producer for s in map(self.source, self.todo) if s)
        batch = Batch(
            id=fingerprint("batch", name),
            at=self.now.isoformat(),
            by="digest",
            name=name,
            topic=self.instance.topic,
            owner=self.instance.owner,
            language=self.instance.language,
            layout=self.instance.layout,
            generated=f"{end} {self.instance.zone}",
            window_start=start,
            window_end=end,
            document=doc.source.path if doc.source else "",
            document_sha=doc.source.sha256 if doc.source else "",
            document_note=doc.source.gist if doc.source else "",
            document_ids=len(doc.cited),
            declared=dict(sorted(declared.items())),
            sources=self.ledger.count(Source),
        )
        self.ledger.append([batch], self.durable)
        return batch

    def _todo(self, batch: Batch | None) -> list[str]:
        """Ids of the sources of this round, best readings first; a resumed round takes the sources it began with."""
        rows = []
        for n, s in enumerate(self.ledger.all(Source)):
            if batch and n >= batch.sources:
                break
            if not any(d.batch != (batch.name if batch else "") for d in self.ledger.by(Digested, "source", s.id)):
                rows.append((ORDER.index(s.source_kind), s.timestamp, s.path, s.id))
        return [ident for *_, ident in sorted(rows)]

    # -- first pass ----------------------------------------------------------------------------------------------------------------

    def _first_pass(self) -> None:
        for n, ident in enumerate(self.todo, 1):
            source = self.source(ident)
            self.out.sources += 1
            if source is None or self.ledger.count(Digested, "source", ident):
                continue
            if source.source_kind not in _BASELINE:
                for item in self.ledger.by(Item, "source", ident):
                    self._item(source, _neutral(item))
            self.pending.append(Digested(id=fingerprint("digested", self.batch.name, ident), at=self.batch.at, batch=self.batch.name, source=ident))
            if len(self.pending) >= _CHUNK:
                self._flush()
            self.progress("sources", n, len(self.todo))
        self._flush()

    def _flush(self) -> None:
        self.ledger.append(self.pending, self.durable)
        self.pending, self.fresh = [], {}

    def _item(self, source: Source, item: Item) -> None:
        self.out.items += 1
        works = [self._canonical(w, item) for w in item.works]
        if not works:
            self.pending.append(
                Disposition(
                    id=fingerprint("disposition", self.batch.name, item.id),
                    at=self.batch.at,
                    by="digest",
                    batch=self.batch.name,
                    subject=item.id,
                    status="too_thin" if self._relevance(item) else "off_topic",
                    reason="no identifier, link or title",
                )
            )
            return
        names = {_short(t): w for w, t in self._titles(works) if len(_short(t)) >= 3}
        claims = [self._told_before(c) for c in claims_of(item, works, names, stated_boundary(item.text), missing_evidence(item.text))]
        origins = self._origins(item)
        for work in works:
            own = list({c.id: c for c in claims if c.work == work}.values())
            new = [c for c in own if self._first_here(c, item)]
            for c in (c for c in new if not self._known(c.id)):
                self.pending.append(c.model_copy(update={"at": self.batch.at, "by": source.producer}))
                self.fresh.setdefault(work, []).append(c)
            retold = [c.id for c in own if c not in new]
            self.out.claims += len(new)
            self.out.retold += len(retold)
            self._propose_reading(source, item, retold)
            self.pending.append(
                Mention(
                    id=fingerprint("mention", self.batch.name, work, item.id),
                    at=self.batch.at,
                    by=source.producer,
                    batch=self.batch.name,
                    work=work,
                    source=source.id,
                    item=item.id,
                    claims=[c.id for c in new],
                    retells=retold,
                    origins=origins,
                    relevance=self._relevance(item),
                )
            )
        for path in cited_files(item.text):
            if not self.ledger.count(Source, "path", path):
                self.pending.append(
                    Flag(id=fingerprint("outside", item.id, path), at=self.batch.at, subject=item.id, flag="outside_batch", text=path)
                )

    def _canonical(self, key: str, item: Item) -> str:
        if key.startswith(("arxiv:", "doi:")):
            return key
        same = same_by_title(self.ledger, key, item.title)
        if same:
            self.ledger.append([same.model_copy(update={"at": self.batch.at, "by": "digest"})], self.durable)
        return resolve(self.ledger, key)

    def _titles(self, works: list[str]) -> Iterator[tuple[str, str]]:
        if len(works) > 1:
            for w in works:
                title = view_work(self.ledger, w).title
                if title:
                    yield w, title

    def _known(self, claim: str) -> bool:
        return any(c.id == claim for group in self.fresh.values() for c in group) or self.ledger.index.has(claim)

    def _first_here(self, claim: Claim, item: Item) -> bool:
        """Whether this item tells the claim first; a run cut short after writing the claim comes to the same answer."""
        pending = next((c for group in self.fresh.values() for c in group if c.id == claim.id), None)
        known = pending or self.ledger.get(claim.id)
        return known is None or known.item == item.id

    def _told_before(self, claim: Claim) -> Claim:
        """The claim of the ledger that this one repeats: same work, metric and value, and no setting that contradicts."""
        if claim.amount is None or self._known(claim.id):
            return claim
        for other in (*self.fresh.get(claim.work, []), *self.ledger.by(Claim, "work", claim.work)):
            if other.amount and same_quantity(claim, other):
                return other
        return claim

    def _propose_reading(self, source: Source, item: Item, retold: list[str]) -> None:
        """A critical read of a known claim is a proposal for a person: the round itself never adds a reading to a claim that exists."""
        said = stated_level(item.text) if source.source_kind == "critical_read" else None
        for claim in retold if said else []:
            if self.ledger.count(Reading, "claim", claim) and said and said[0] > level_of(self.ledger, claim):
                self.pending.append(
                    Flag(
                        id=fingerprint("proposed", claim, item.id),
                        at=self.batch.at,
                        by=source.producer,
                        subject=claim,
                        flag="reading_proposed",
                        text=f"level {said[0]} by {source.producer}: {said[1]} ({source.path} {item.address})",
                    )
                )

    def _origins(self, item: Item) -> list[str]:
        links = [f"link:{canonical_url(u.value)}" for u in find_links(item.text)]
        links = [o for o in links if not o.startswith("link:arxiv.org/")]
        body = title_key(re.sub(r"https?://\S+", "", item.text))
        return list(dict.fromkeys([*links, *([f"text:{fingerprint(body)}"] if len(body) > 40 else [])]))

    def _relevance(self, item: Item) -> int:
        """Keyword hits: two for one in the title, one per distinct word in the text, one for a section of the document."""
        head, low = item.title.casefold(), item.text.casefold()
        return sum((2 if w in head else 0) + (1 if w in low else 0) for w in self.words) + bool(item.sections)

    # -- second pass ---------------------------------------------------------------------------------------------------------------

    def _case(self, work: str) -> Case:
        """Everything the round knows about a work, loaded anew each time."""
        mentions = list(self.ledger.by(Mention, "batch_work", f"{self.batch.name}|{work}"))
        sources = [s for i in dict.fromkeys(m.source for m in mentions) if (s := self.source(i))]
        items = [_neutral(i) for ident in dict.fromkeys(m.item for m in mentions) if isinstance(i := self.ledger.get(ident), Item)]
        wanted = dict.fromkeys(c for m in mentions for c in (*m.claims, *m.retells))
        claims = [c for ident in wanted if isinstance(c := self.ledger.get(ident), Claim)]
        return Case(work, view_work(self.ledger, work), mentions, items, sources, claims, card=self.ledger.one(Card, "work", work))

    def _second_pass(self) -> None:
        watch = Watch(self.ledger, self.doc)
        picked: dict[str, list[Pick]] = {}
        found: dict[str, Counter[str]] = {}
        prefix = f"{self.batch.name}|"
        for ident in self.todo:
            found_source = self.source(ident)
            if found_source and found_source.source_kind not in _BASELINE:
                for item in self.ledger.by(Item, "source", ident):
                    item = _neutral(item)
                    if self._relevance(item):
                        watch.item(item, found_source.path)
        total = sum(1 for _ in self.ledger.index.keys("mention", "batch_work", prefix))
        for n, key in enumerate(self.ledger.index.keys("mention", "batch_work", prefix), 1):
            case = self._case(key[len(prefix) :])
            self._open_claims(case)
            decision = decide(self.ledger, self.batch, self.doc, case, self.instance.siblings)
            self.out.works += 1
            self.out.statuses[decision.status] = self.out.statuses.get(decision.status, 0) + 1
            self._put(
                Disposition(
                    id=fingerprint("disposition", self.batch.name, case.key),
                    at=self.batch.at,
                    by="digest",
                    batch=self.batch.name,
                    subject=case.key,
                    status=decision.status,
                    reason=decision.reason,
                    brief=decision.brief,
                    number=decision.number,
                )
            )
            for s in case.sources:
                found.setdefault(s.id, Counter())[decision.status] += 1
            if decision.status != "off_topic":
                watch.case(case)
                picked.setdefault(decision.status, []).append(_pick(case, decision))
            self.progress("works", n, total)
        self._flush()
        self._compose(watch, picked, found)
        self._flush()
        self.ledger.append(
            [Done(id=fingerprint("done", self.batch.name), at=self.batch.at, batch=self.batch.name, counts=self.out.parts)], self.durable
        )

    def _open_claims(self, case: Case) -> None:
        """Give each claim first told in this round its one opening reading: the best reading among the notes of the round that state it.

        Written once and for all; later rounds only retell.
        """
        for claim in case.claims:
            if not any(claim.id in m.claims for m in case.mentions) or self.ledger.count(Reading, "claim", claim.id):
                continue
            best: tuple[int, str, Source] | None = None
            for m in case.mentions:
                source, item = self.source(m.source), next((i for i in case.items if i.id == m.item), None)
                if source and item and claim.id in (*m.claims, *m.retells):
                    level, quote = opening_level(source.source_kind, item.text)
                    if best is None or level > best[0]:
                        best = (level, quote, source)
            if best:
                self.pending.append(opening(claim, best[0], best[2].producer, best[1], best[2].source_kind))

    def _put(self, record: Record) -> None:
        self.pending.append(record)
        if isinstance(record, Part):
            kind = record.kind  # type: ignore[attr-defined]
            self.out.parts[kind] = self.out.parts.get(kind, 0) + 1
        if len(self.pending) >= _CHUNK:
            self._flush()

    def _compose(self, watch: Watch, picked: dict[str, list[Pick]], found: dict[str, Counter[str]]) -> None:
        batch, ledger, doc = self.batch, self.ledger, self.doc
        mixed = watch.mixed()
        groups = _group([*picked.get("net_new", []), *picked.get("update", [])])
        missing: dict[str, list[str]] = {}
        best: list[Increment] = []
        titles: list[str] = []
        for n, group in enumerate(groups, 1):
            increment = compose.make_increment(ledger, batch, doc, [(self._case(p.key), p.decision) for p in group], n, mixed)
            missing.update((p.key, increment.missing) for p in group)
            best = sorted([*best, increment], key=lambda i: (-(i.stars or 0), i.rank))[:2]
            titles += [increment.title] * (n <= 6)
            self._put(increment)
        beside = [*picked.get("adjacent", []), *picked.get("to_verify", [])]
        for n, p in enumerate(beside, 1):
            self._put(compose.make_adjacent(batch, doc, self._case(p.key), p.decision, n))
        main = [p for g in groups for p in g]
        conflicts = compose.make_contradictions(batch, watch.close(main, missing))
        rest = [p for status in ("anchored", "duplicate", "same_origin", "too_thin", "register_only") for p in picked.get(status, [])]
        for n, p in enumerate(rest, 1):
            self._put(compose.make_rejection(batch, self._case(p.key), p.decision, n))
        self._put_nameless(len(rest))
        here = {p.key for p in (*main, *beside, *rest)}
        parts: list[Iterable[Part]] = [
            conflicts,
            compose.make_carried(ledger, batch, doc, here),
            compose.make_citable(batch, {"direct": main, "adjacent": beside, "register": rest}),
            compose.make_handles(batch, conflicts, best),
            listing.source_lines(self, found),
            listing.statements(self, titles),
        ]
        for group_of_parts in parts:
            for part in group_of_parts:
                self._put(part)

    def _put_nameless(self, n: int) -> None:
        """Items on the topic that name no work are listed with their place: they are quoted in the ledger, not lost."""
        for d in self.ledger.by(Disposition, "batch", self.batch.name):
            item = self.ledger.get(d.subject) if d.status == "too_thin" and ":" not in d.subject else None
            source = self.source(item.source) if isinstance(item, Item) else None
            if isinstance(item, Item) and source:
                n += 1
                title = item.title.rsplit(" / ", 1)[-1] or item.text.strip().split("\n")[0][:60]
                self._put(
                    Rejection(
                        id=compose.part_id(self.batch, "rejection", n),
                        brief=self.batch.name,
                        order=n,
                        title=title,
                        status=d.status,
                        reason=d.reason,
                        source=f"{source.path} {item.address}",
                    )
                )


def _neutral(item: Item) -> Item:
    """The item without sentences that give orders: nothing is concluded from them."""
    return item.model_copy(update={"text": without_orders(item.text)}) if item.instructions else item


def _short(title: str) -> str:
    return re.split(r"\s*[:：—–(（]", title)[0].strip().casefold()


def _pick(case: Case, decision: Decision) -> Pick:
    first = case.items[0].works if case.items else []
    text = "\n".join(i.text for i in case.items)
    return Pick(case.key, decision, case.view.title, compose.note_of(case), _value(case), first if 2 <= len(first) <= 3 else [], axis(text))


def _group(picks: list[Pick]) -> list[list[Pick]]:
    """Increments in order of value; works that one item reports together (at most three) share an increment, claims kept per work."""
    by_key = {p.key: p for p in picks}
    groups: list[list[Pick]] = []
    done: set[str] = set()
    for p in sorted(picks, key=lambda p: (-p.value, p.key)):
        if p.key in done:
            continue
        together = [p.key]
        if p.partners and all(w in by_key for w in p.partners):
            together += [w for w in p.partners if w != p.key and w not in done]
        done.update(together)
        groups.append([by_key[k] for k in together])
    return groups


def _value(case: Case) -> int:
    """Order of increments: relevance, measured claims, number of sources, a place named in the note."""
    relevance = max((m.relevance for m in case.mentions), default=0)
    return 4 * relevance + 2 * min(sum(c.amount is not None for c in case.claims), 6) + len(case.sources) + 2 * any(i.sections for i in case.items)
