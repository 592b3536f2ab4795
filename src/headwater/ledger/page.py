"""A static, searchable HTML page of a ledger: works, claims with their boundary, dispositions, sources. One file, no network.

Everything from outside is escaped by the template; the search runs over the text in the page.
"""

# ruff: noqa: E501 (the template is a page of HTML)
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headwater.ledger.claims import listed
from headwater.ledger.digest.identity import view_work
from headwater.ledger.records import Disposition, Flag, Source, Work
from headwater.ledger.store import Ledger
from headwater.ledger.vocabulary import KINDS, LEVELS, ORIGINS, STATUSES, word

_PAGE = """<!doctype html>
<html lang="{{ lang }}"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>{{ title }}</title><style>
body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:1.5rem auto;padding:0 1rem;color:#1c2430;background:#fff}
@media (prefers-color-scheme:dark){body{color:#dde3ea;background:#14181d}section{border-color:#333c46!important}input{background:#1c2229;color:inherit}}
input{width:100%;padding:.6rem;font:inherit;border:1px solid #8896a5;border-radius:.4rem;box-sizing:border-box}
section{border:1px solid #d5dce3;border-radius:.5rem;padding:.6rem 1rem;margin:.6rem 0}
h2{font-size:1rem;margin:.2rem 0}.key,.small{opacity:.7;font-size:.85rem}li{margin:.3rem 0}.boundary{border-left:3px solid #c98a00;padding-left:.6rem}
.tag{border:1px solid currentColor;border-radius:.8rem;padding:0 .5rem;font-size:.8rem;margin-right:.3rem}
</style></head><body><h1>{{ title }}</h1><p class="small">{{ counts }}</p>
<input id="q" type="search" placeholder="{{ hint }}" aria-label="{{ hint }}"><p class="small" id="n" aria-live="polite"></p>
<main>{% for w in works %}<section><h2>{{ w.title }}</h2><p class="key">{{ w.key }}{% for s in w.status %} <span class="tag">{{ s }}</span>{% endfor %}</p>
{% if w.claims %}<ul>{% for c in w.claims %}<li>{{ c.statement }} <span class="small">({{ c.mark }}{% if c.verdict %}; {{ c.verdict }}{% endif %})</span>
<div class="boundary small">{{ c.boundary }}</div></li>{% endfor %}</ul>{% endif %}</section>
{% endfor %}<h1>{{ sources_title }}</h1>{% for s in sources %}<section><h2>{{ s.path }}</h2>
<p class="small">{{ s.kind }} · {{ s.producer }} · {{ s.time }} · {{ s.items }}{% for f in s.flags %} <span class="tag">{{ f }}</span>{% endfor %}</p></section>
{% endfor %}</main><script>
const q=document.getElementById('q'),n=document.getElementById('n'),all=[...document.querySelectorAll('section')].map(e=>[e,e.textContent.toLowerCase()]);
function find(){const words=q.value.toLowerCase().split(/\\s+/).filter(Boolean);let k=0;for(const [e,t] of all){const on=words.every(w=>t.includes(w));e.hidden=!on;k+=on}
n.textContent=words.length?k+' / '+all.length:''}q.addEventListener('input',find);</script></body></html>
"""


def _works(ledger: Ledger, language: str) -> Iterator[dict[str, Any]]:
    for key in ledger.index.keys("work", "key"):
        shown = view_work(ledger, key)
        claims = [
            {
                "statement": v.claim.statement,
                "boundary": v.boundary,
                "verdict": v.verdict if v.verdict != "untested" else "",
                "mark": f"{word(ORIGINS, v.claim.origin, language)}; {word(LEVELS, v.level, language)}",
            }
            for v in listed(ledger, key)
        ]
        status = [f"{word(STATUSES, d.status, language)} · {d.batch}" for d in ledger.by(Disposition, "subject", key)]
        yield {"title": shown.title or key, "key": key, "claims": claims, "status": status}


def _sources(ledger: Ledger, language: str) -> Iterator[dict[str, Any]]:
    for s in ledger.all(Source):
        yield {
            "path": s.path,
            "kind": word(KINDS, s.source_kind, language),
            "producer": s.producer,
            "time": s.timestamp,
            "items": s.items,
            "flags": s.flags,
        }


def pieces(ledger: Ledger, title: str, language: str = "zh") -> Iterator[str]:
    """The page in pieces, so that a large ledger does not have to fit into memory."""
    import jinja2

    env = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    zh = language == "zh"
    flagged = ledger.count(Flag, "flag", "instruction_like")
    counts = (
        f"来源 {ledger.count(Source)} · 作品陈述 {ledger.count(Work)} · 指令性文本 {flagged}"
        if zh
        else f"{ledger.count(Source)} sources · {ledger.count(Work)} statements about works · {flagged} instruction-like passages"
    )
    yield from env.from_string(_PAGE).generate(
        lang=language,
        title=title,
        counts=counts,
        hint="搜索" if zh else "search",
        works=_works(ledger, language),
        sources=_sources(ledger, language),
        sources_title="来源" if zh else "Sources",
    )
