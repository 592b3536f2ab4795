"""Layout D (daily) and layout B (batch) over one view. Parts a layout has no place for are printed at its end, never left out."""

from __future__ import annotations

from headwater.ledger.brief import own
from headwater.ledger.brief.blocks import Page
from headwater.ledger.brief.increments import print_increment, status_text, title_text
from headwater.ledger.brief.phrases import ordinal, say
from headwater.ledger.brief.view import View
from headwater.ledger.records import SourceLine, Statement
from headwater.ledger.vocabulary import KINDS, LEVELS, STATUSES, word


def lay_out(view: View, layout: str) -> Page:
    """The brief as blocks. layout: `D` or `B`."""
    page = Page(view.language)
    page.heading(view.batch.title or say("title", view.language, topic=view.batch.topic, date=view.date), 1)
    (_daily if layout == "D" else _batch)(page, view)
    return page


def _stated(page: Page, statements: list[Statement], depth: int = 0) -> None:
    for s in statements:
        page.field(s.label, s.text, depth)


# -- header and footer ---------------------------------------------------------------------------------------------------------------


def _header(page: Page, view: View, layout: str) -> None:
    b, lang = view.batch, view.language
    if b.imported:
        _stated(page, view.said("header"))
        return
    page.field(say("instance", lang), f"{b.owner or '-'} · {b.topic}")
    files = say("files", lang, n=sum(b.declared.values()))
    page.field(say("batch", lang), f"{b.name} · {files} · " + say("by_producer", lang, text=_declared(b.declared)))
    page.field(say("generated", lang), b.generated)
    page.field(say("window", lang), f"{b.window_start} → {b.window_end}")
    text = (
        say("baseline_text", lang, path=b.document, note=b.document_note or say("no_note", lang), ids=b.document_ids, sha=b.document_sha[:12])
        if b.document
        else say("no_baseline", lang)
    )
    page.field(say("baseline", lang), text)
    if layout == "B":
        page.field(say("purpose", lang), say("purpose_text", lang, topic=b.topic))
        page.field(say("convention", lang), say("convention_text", lang))
    for s in view.said("queue"):
        page.field(say("background", lang), own.queue(s, lang))


def _declared(declared: dict[str, int]) -> str:
    return " · ".join(f"{k} {v}" for k, v in sorted(declared.items()))


def _footer(page: Page, view: View) -> None:
    lang = view.language
    if view.batch.imported:
        for s in view.said("footer"):
            page.paragraph(f"{s.label}{page.colon}{s.text}" if s.label else s.text)
        return
    included, excluded = len(view.totals("included")), len(view.totals("not_included"))
    page.paragraph(
        f"{view.batch.owner or '-'} · {view.batch.generated} · "
        + say(
            "footer_sources",
            lang,
            n=included + excluded,
            text=view.by_producer(),
            included=included,
            excluded=excluded,
            main=len(view.increments),
            adjacent=len(view.adjacent),
            conflicts=len(view.contradictions),
            ids=len(view.ids()),
        )
        + "；" * (lang == "zh")
        + "; " * (lang == "en")
        + say("footer_integrity", lang, orders=_orders(view))
    )


def _orders(view: View) -> int:
    return next((int(s.values["n"]) for s in view.said("orders")), 0)


# -- layout D ------------------------------------------------------------------------------------------------------------------------


def _daily(page: Page, view: View) -> None:
    lang = view.language
    _header(page, view, "D")
    _status(page, view)
    page.heading(ordinal(1, lang) + say("sources", lang))
    _source_groups(page, [s for s in view.sources if not s.verdict or not view.batch.imported])
    page.heading(ordinal(2, lang) + say("increments_D", lang, n=len(view.increments)))
    _increments(page, view, "D")
    page.heading(ordinal(3, lang) + say("adjacent", lang, n=len(view.adjacent)))
    _adjacent(page, view)
    page.heading(ordinal(4, lang) + say("contradictions", lang))
    _contradictions(page, view)
    page.heading(ordinal(5, lang) + say("citable", lang, n=len(view.ids())))
    _citable(page, view)
    _carried(page, view)
    page.heading(ordinal(6, lang) + say("summary", lang))
    _summary(page, view)
    page.heading(ordinal(7, lang) + say("totals", lang))
    for verdict in ("included", "not_included"):
        page.heading(say(verdict, lang), 3)
        for s in view.totals(verdict):
            page.bullet(("✅ " if verdict == "included" else "") + (s.gist or s.path if view.batch.imported else own.total(s, lang)))
    _kept(page, view, 8, handles=True, rejections=True)
    _footer(page, view)


def _status(page: Page, view: View) -> None:
    lang = view.language
    page.heading(say("status", lang))
    if view.batch.imported:
        _stated(page, view.said("status"))
        return
    new = sum(i.status == "net_new" for i in view.increments)
    update = sum(i.status == "update" for i in view.increments)
    page.field(say("counts", lang), say("counts_text", lang, main=len(view.increments), new=new, update=update, adjacent=len(view.adjacent)))
    for s in view.said("nature"):
        page.field(say("nature", lang), s.text)
    ids = view.net_new()
    text = (
        ("（" if lang == "zh" else " (") + (" + " if lang == "zh" else ", ").join(f"arXiv:{i}" for i in ids) + ("）" if lang == "zh" else ")")
        if ids
        else ""
    )
    page.field(say("net_new_ids", lang), say("net_new_text", lang, n=len(ids), list=text))


def _source_groups(page: Page, lines: list[SourceLine]) -> None:
    group = None
    for s in lines:
        if s.group != group:
            group = s.group
            page.heading(group if not s.verdict else f"{group} {word(KINDS, s.source_kind, page.language)}", 3)
        if s.verdict:
            page.bullet(own.source(s, page.language))
        elif s.gist or s.path:
            page.bullet(s.gist or s.path)


def _increments(page: Page, view: View, layout: str) -> None:
    lang = view.language
    if not view.increments:
        page.paragraph(say("nothing", lang))
    for i in view.increments:
        if layout == "D":
            tag = i.tag or _tag(i.sections, i.date)
            page.heading(f"{say('increment', lang)} {i.rank}{tag}{i.flag + ' ' if i.flag else ''}{title_text(view, i)}", 3)
        else:
            page.heading(f"{i.rank}. {i.flag + ' ' if i.flag else ''}{title_text(view, i)}", 3)
            if i.tag:
                page.bullet(i.tag)
        print_increment(page, view, i)


def _tag(sections: list[str], date: str) -> str:
    head = " + ".join(f"§{s}" for s in sections) or "§–"
    return f"【{head}{' · ' + date if date else ''}】"


def _adjacent(page: Page, view: View) -> None:
    lang = view.language
    if not view.adjacent:
        page.paragraph(say("none", lang))
        return
    rows = [["#", *(say(c, lang) for c in ("col_item", "col_arxiv", "col_source", "col_status"))]]
    for a in view.adjacent:
        status = a.status_text or (word(STATUSES, a.status, lang) if a.identifier or a.source else "")
        rows.append([a.rank, a.title, a.identifier if view.batch.imported else own.adjacent_id(a, lang), a.source, status])
    page.table(rows)


def _contradictions(page: Page, view: View) -> None:
    lang = view.language
    if not view.contradictions:
        page.paragraph(say("none", lang))
    for c in view.contradictions:
        page.number(str(c.rank), own.contradiction(c, lang))


def _citable(page: Page, view: View) -> None:
    group = ""
    for c in view.citable:
        if c.group != group:
            group = c.group
            if group:
                page.heading(group if view.batch.imported else own.group(group, view.language), 3)
        text = c.text if view.batch.imported else own.citable(c, view)
        if c.rank:
            page.number(c.rank, text)
        else:
            page.bullet(text)
    for s in view.said("citable"):
        page.paragraph(s.text)
    if not view.batch.imported:
        page.paragraph(say("memory", view.language))


def _carried(page: Page, view: View) -> None:
    if view.carried:
        page.heading(say("carried", view.language), 3)
        for c in view.carried:
            page.bullet(c.text or own.carried(c, view.language))


def _summary(page: Page, view: View) -> None:
    lang = view.language
    if view.batch.imported:
        said = view.said("summary")
        _stated(page, said[:1])
        if view.rows:
            page.table(
                [
                    ["#", *(say(c, lang) for c in ("col_item", "col_class", "col_value", "col_status"))],
                    *([r.rank, r.title, r.section, "⭐" * (r.stars or 0), r.status_text] for r in view.rows),
                ]
            )
        for s in said[1:]:
            page.paragraph(f"{s.label}{page.colon}{s.text}" if s.label else s.text)
        return
    page.paragraph(say("summary_text", lang, main=len(view.increments), adjacent=len(view.adjacent)))
    rows = [["#", *(say(c, lang) for c in ("col_item", "col_class", "col_value", "col_status"))]]
    for i in view.increments:
        where = " + ".join(f"§{s}" for s in i.sections)
        rows.append([str(i.rank), title_text(view, i), where, "⭐" * (i.stars or 0), status_text(view, i)])
    for a in view.adjacent:
        where = f"§{a.section}" if a.section else ""
        rows.append([a.rank, a.title, where, "⭐" * (a.stars or 0), a.status_text or word(STATUSES, a.status, lang)])
    if len(rows) > 1:
        page.table(rows)
    page.paragraph(own.compare(view))
    page.paragraph(density(view))
    page.field(say("character", lang), own.character(view))


def density(view: View) -> str:
    """Counts per evidence level and what the batch is good for."""
    lang = view.language
    counts = view.level_counts()
    levels = ("、" if lang == "zh" else ", ").join(f"{word(LEVELS, k, lang)} {n}" for k, n in counts.items()) or say("none", lang)
    high = sum(n for k, n in counts.items() if k >= 4)
    return say("density", lang, levels=levels, fit=say("density_high" if counts and high * 2 > sum(counts.values()) else "density_low", lang))


# -- layout B ------------------------------------------------------------------------------------------------------------------------


def _batch(page: Page, view: View) -> None:
    lang = view.language
    _header(page, view, "B")
    page.heading(ordinal(1, lang) + say("increments_B", lang, n=len(view.increments)))
    _increments(page, view, "B")
    page.heading(ordinal(2, lang) + say("contradictions", lang))
    _contradictions(page, view)
    if not view.batch.imported:
        page.paragraph(density(view))
    page.heading(ordinal(3, lang) + say("citable", lang, n=len(view.ids())))
    _citable(page, view)
    _carried(page, view)
    page.heading(ordinal(4, lang) + say("rejections", lang))
    _rejections(page, view)
    page.heading(ordinal(5, lang) + say("handles", lang, owner=view.batch.owner or say("none", lang)))
    for h in view.handles[:3]:
        page.number(str(h.rank), h.text or own.handle(h, lang))
    _kept(page, view, 6, adjacent=True, status=True, sources=True, summary=True)
    _footer(page, view)


def _rejections(page: Page, view: View) -> None:
    if not view.rejections:
        page.paragraph(say("none", view.language))
    for r in view.rejections:
        page.bullet(r.text or own.rejection(r, view.language))


def _kept(page: Page, view: View, first: int, **wanted: bool) -> None:
    """Everything the layout has no section for; first: number of the first such section."""
    lang = view.language
    inner = Page(lang)
    number = iter(range(first, 13))

    def head(text: str) -> None:
        inner.heading(ordinal(next(number), lang) + text)

    if wanted.get("handles") and view.handles:
        head(say("handles", lang, owner=view.batch.owner or say("none", lang)))
        for h in view.handles[:3]:
            inner.number(str(h.rank), h.text or own.handle(h, lang))
    if wanted.get("rejections") and view.rejections:
        head(say("rejections", lang))
        _rejections(inner, view)
    if wanted.get("adjacent") and view.adjacent:
        head(say("adjacent", lang, n=len(view.adjacent)))
        _adjacent(inner, view)
    if wanted.get("status") and view.batch.imported and view.said("status"):
        head(say("status", lang))
        _stated(inner, view.said("status"))
    if wanted.get("summary") and view.batch.imported and (view.rows or view.said("summary")):
        head(say("summary", lang))
        _summary(inner, view)
    if wanted.get("sources") and view.sources:
        if view.batch.imported and any(not s.verdict for s in view.sources):
            head(say("sources", lang))
            _source_groups(inner, [s for s in view.sources if not s.verdict])
        if any(s.verdict for s in view.sources):
            head(say("totals", lang))
            for verdict in ("included", "not_included"):
                inner.heading(say(verdict, lang), 3)
                for s in view.totals(verdict):
                    inner.bullet(("✅ " if verdict == "included" else "") + (s.gist or s.path if view.batch.imported else own.total(s, lang)))
    rest = [
        s
        for s in view.statements
        if s.key.split(":")[0]
        in {"increment", "contradiction", "rejection", "handle", "adjacent", "source", "source_total", "other", "note", "kept", "carry_over"}
    ]
    if rest:
        head(say("kept", lang))
        _stated(inner, rest)
    page.blocks += inner.blocks
