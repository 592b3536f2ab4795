"""How one increment is printed: the same fields in both layouts, the boundary always with it."""

from __future__ import annotations

import re

from headwater.ledger.brief.blocks import Page
from headwater.ledger.brief.phrases import say
from headwater.ledger.brief.view import View
from headwater.ledger.records import Claim, Increment, Quote
from headwater.ledger.vocabulary import ASPECTS, FORMS, GAPS, GRADES, LEVELS, ORIGINS, RELATIONS, STATUSES, word

_LAST = {"placement"}


def label(view: View, quote: Quote) -> str:
    """The label as written in the brief's own language; in the other language ours, with the bracket of the original."""
    if not quote.key:
        return quote.label
    if quote.label and view.language == view.batch.language:
        return quote.label
    bracket = re.search(r"[（(].*[）)]$", quote.label)
    return say(quote.key, view.language) + (bracket[0] if bracket else "") if quote.key in _OURS else quote.label or quote.key


_OURS = {"source", "links", "venue", "authors", "credibility", "points", "claims", "defects", "verdict", "relation", "placement", "level", "missing",
         "affiliation", "dates", "priority", "action"}


def print_increment(page: Page, view: View, i: Increment) -> None:
    """All fields of an increment below its heading."""
    lang = view.language
    for q in i.sources:
        page.field(label(view, q), q.text)
    for q in i.links:
        page.field(label(view, q), q.text)
    _fields(page, view, [q for q in i.fields if q.key not in _LAST])
    if i.claims:
        _claims(page, view, i)
    if i.credibility:
        page.field(say("credibility", lang), "；".join(_grade(g, lang) for g in i.credibility) if lang == "zh" else "; ".join(_grade(g, lang) for g in i.credibility))
    if i.missing:
        page.field(say("missing", lang), _join([word(GAPS, m, lang) for m in i.missing], lang))
    if i.relation and not any(q.key == "relation" for q in i.fields):
        page.field(say("relation", lang), _join([word(RELATIONS, r, lang) for r in i.relation], lang))
    for q in i.fields:
        if q.key in _LAST:
            page.field(label(view, q), q.text)
    if i.form and not any(q.key == "placement" for q in i.fields):
        sections = " + ".join(f"§{s}" for s in i.sections) or say("none", lang)
        page.field(say("placement", lang), f"{sections} · {word(FORMS, i.form, lang)}")
    status = i.status_text or (word(STATUSES, i.status, lang) if i.status else "")
    if status:
        page.field(say("status_label", lang), status)
    if i.priority and i.priority not in status:
        page.field(say("priority", lang), i.priority)
    if i.boundary:
        page.field(say("boundary", lang), i.boundary)


def _join(words: list[str], lang: str) -> str:
    return ("、" if lang == "zh" else ", ").join(words)


def _fields(page: Page, view: View, quotes: list[Quote]) -> None:
    """Labelled texts; several texts under one label become a nested list."""
    open_label = ""
    for q in quotes:
        name = label(view, q)
        if not q.text:
            page.field(name, "")
            open_label = name
        elif name and name == open_label:
            page.bullet(q.text, 1)
        else:
            page.field(name, q.text)
            if q.key != "claims":
                open_label = open_label if q.key == "points" else ""


def _claims(page: Page, view: View, i: Increment) -> None:
    """Key numbers as quoted, each marked with origin and level: a claim stays a claim."""
    lang = view.language
    page.field(say("claims", lang), "")
    seen: set[str] = set()
    for ident in i.claims:
        claim = view.claims.get(ident)
        if claim is None or claim.statement in seen:
            continue
        seen.add(claim.statement)
        page.bullet(f"{claim.statement}（{claim_mark(claim, view.levels[ident], lang)}）" if lang == "zh"
                    else f"{claim.statement} ({claim_mark(claim, view.levels[ident], lang)})", 1)


def claim_mark(claim: Claim, level: int, lang: str) -> str:
    """`author-reported; feed abstract, body not read; simulated`, with the setting as far as it is stated."""
    text = say("claim_mark", lang, origin=word(ORIGINS, claim.origin, lang), level=word(LEVELS, level, lang))
    if claim.amount and claim.amount.measured != "unknown":
        text += ("，" if lang == "zh" else "; ") + say(claim.amount.measured, lang)
    setting = [v for v in claim.setting.model_dump().values() if v and v not in claim.statement]
    return text + (("；" if lang == "zh" else "; ") + " · ".join(setting) if setting else "")


def _grade(g, lang: str) -> str:  # noqa: ANN001
    head = f"{word(ASPECTS, g.aspect, lang)} {g.words or word(GRADES, g.grade, lang)}"
    reasons = [*(f"+{r}" for r in g.up), *(f"−{r}" for r in g.down)]
    if not reasons:
        return head
    return f"{head}（{'、'.join(reasons)}）" if lang == "zh" else f"{head} ({', '.join(reasons)})"
