"""How one increment is printed: the same fields in both layouts, the boundary always with it."""

from __future__ import annotations

import re

from headwater.ledger.brief.blocks import Page
from headwater.ledger.brief.phrases import say
from headwater.ledger.brief.view import View
from headwater.ledger.digest.compose import identifier
from headwater.ledger.digest.gaps import boundary_sentence
from headwater.ledger.records import Claim, Grade, Increment, Quote
from headwater.ledger.vocabulary import ASPECTS, FORMS, GAPS, GRADES, LEVELS, ORIGINS, REASONS, RELATIONS, STATUSES, word

_LAST = {"placement"}


def label(view: View, quote: Quote) -> str:
    """The label as written in the brief's own language; in the other language ours, with the bracket of the original."""
    if not quote.key:
        return quote.label
    if quote.label and view.language == view.batch.language:
        return quote.label
    bracket = re.search(r"[（(].*[）)]$", quote.label)
    return say(quote.key, view.language) + (bracket[0] if bracket else "") if quote.key in _OURS else quote.label or quote.key


_OURS = frozenset((
    "action", "affiliation", "authors", "category", "claims", "code", "credibility", "dates", "defects", "level",
    "links", "missing", "placement", "points", "priority", "relation", "source", "venue", "verdict", "withheld",
))


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
        levels = sorted({view.levels[c] for c in i.claims if c in view.levels})
        if levels:
            page.field(say("level", lang), ("；" if lang == "zh" else "; ").join(f"{n} = {word(LEVELS, n, lang)}" for n in levels))
    if i.credibility:
        page.field(say("credibility", lang), ("；" if lang == "zh" else "; ").join(_grade(g, lang) for g in i.credibility))
    if i.missing:
        page.field(say("missing", lang), ("；" if lang == "zh" else "; ").join(word(GAPS, m, lang) for m in i.missing))
    if i.relation and not any(q.key == "relation" for q in i.fields):
        page.field(say("relation", lang), _join([word(RELATIONS, r, lang) for r in i.relation], lang))
    for q in i.fields:
        if q.key in _LAST:
            page.field(label(view, q), q.text)
    if i.form and not any(q.key == "placement" for q in i.fields):
        sections = " + ".join(f"§{s}" for s in i.sections) or say("none", lang)
        page.field(say("placement", lang), f"{sections} · {word(FORMS, i.form, lang)}")
    status = status_text(view, i)
    if status:
        page.field(say("status_label", lang), status)
    if i.priority and i.priority not in status:
        page.field(say("priority", lang), i.priority)
    boundary = i.boundary or ("" if view.batch.imported else _boundary(view, i))
    if boundary:
        page.field(say("boundary", lang), boundary)


def status_text(view: View, i: Increment) -> str:
    """A foreign brief's words as they stood; ours from the code, with what is new for an update."""
    if view.batch.imported or not i.status:
        return i.status_text or (word(STATUSES, i.status, view.language) if i.status else "")
    head = word(STATUSES, i.status, view.language)
    return f"{head}{'：' if view.language == 'zh' else ': '}{i.status_text}" if i.status_text else head


def title_text(view: View, i: Increment) -> str:
    """The title with its identifiers in brackets."""
    ids = " + ".join(t for w in i.works if (t := identifier(w)) and w.startswith(("arxiv:", "doi:")))
    if view.batch.imported or not ids:
        return i.title
    return f"{i.title}（{ids}）" if view.language == "zh" else f"{i.title} ({ids})"


def _boundary(view: View, i: Increment) -> str:
    """A boundary for an increment whose material gives none; the level is the lowest among its claims: the weakest bounds."""
    levels = [view.levels[c] for c in i.claims if c in view.levels]
    origins = list(dict.fromkeys(view.claims[c].origin for c in i.claims if c in view.claims))
    return boundary_sentence(min(levels, default=0), origins, i.missing, i.independent, view.language)


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
        elif q.key == "affiliation" and q.text.endswith("]"):
            stated, _, basis = q.text[:-1].rpartition(" [")
            page.field(name, stated + say(f"affiliation_{basis}", view.language))
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
    """`author-reported; evidence level 2; simulated`, with the setting as far as it is stated."""
    text = say("claim_mark", lang, origin=word(ORIGINS, claim.origin, lang), level=level)
    if claim.amount and claim.amount.measured != "unknown":
        text += ("；" if lang == "zh" else "; ") + say(claim.amount.measured, lang)
    setting = [v for v in claim.setting.model_dump().values() if v and v not in claim.statement]
    return text + (("；" if lang == "zh" else "; ") + " · ".join(setting) if setting else "")


def _grade(g: Grade, lang: str) -> str:
    head = f"{word(ASPECTS, g.aspect, lang)} {g.words or word(GRADES, g.grade, lang)}"
    reasons = [*("+" + _reason(r, lang) for r in g.up), *("−" + _reason(r, lang) for r in g.down)]
    if not reasons:
        return head
    return f"{head}（{'、'.join(reasons)}）" if lang == "zh" else f"{head} ({', '.join(reasons)})"


def _reason(code: str, lang: str) -> str:
    if code.startswith("level_"):
        return f"{say('level', lang)} {code[6:]}"
    return word(REASONS, code, lang)
