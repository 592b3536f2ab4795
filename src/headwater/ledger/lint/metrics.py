"""Rule 55: a metric is known or defined, and a known one is not redefined."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from headwater.ledger import facts
from headwater.ledger.lint.brief import Brief
from headwater.ledger.lint.finding import Finding, Place
from headwater.ledger.lint.registry import check

_ACRONYM = r"(?<![\w.@/-])(?P<a>[A-Z][A-Z0-9]{2,5})(?![\w/.-]|\s*[-–]\s*[A-Z])"
_CHANGE_ZH = (
    r"(?:降低|下降|提升|提高|上升|缩短|减少|增加|改善|恶化)(?:了|至|到)?\s*(?:最高|约|近|"
    r"超过)?\s*~?\s*\d[\d.,]*(?:\s*[-–~]\s*[\d.]+)?\s*(?:%|×|倍|x|ms|s|秒|毫秒|个百分点)?"
)
# a metric is what changes; a system is who changes something: after the number no object may follow
_POSITION = re.compile(
    _ACRONYM + r"(?:"
    rf"\s*(?:指标|得分|值)?\s*(?:比|较|相[比对])?[^，。；;,()（）\d]{{0,22}}?(?:\d(?:\.\d)?)?\s*(?:翻(?:了)?[一两三]?[倍番]|"
    rf"减半|腰斩|{_CHANGE_ZH})(?=\s*(?:$|[，。；;,)）、·|]|vs|相比))|"
    r"\s*(?:[=<>≈]|为|仅|达到?)\s*\d[\d.,]*\s*(?:ms|s|秒|毫秒|%)?(?=\s*(?:$|[，。；;,)）、]))|"
    r"\s+(?:more than )?(?:doubles|doubled|halves|halved|triples|tripled)(?=\s*(?:$|[,.;)]|against|over|versus|vs|compared|"
    r"relative))|"
    r"\s+(?:drops?|dropped|falls?|fell|rises?|rose|improves?|improved|shrinks?|grows?|grew|climbs?|is (?:reduced|cut|lowered|"
    r"improved|down|up)|goes (?:up|down))\s+(?:by|to|from)\s+(?:up to |about )?\d|"
    r"\s+of\s+(?:\d[\d.]*\s*(?:ms|s|%|x)\b|\d{1,3}(?:\.\d+)?(?=\s+(?:on|at|for|with|in|against)\b|\s*[,;.)]\s)))"
)
_OBJECT = re.compile(
    r"\b(?:reduces?|cuts?|lowers?|improves?|raises?|doubles?|halves?|shortens?|better|lower|higher)\s+(?:the )?(?:median |mean |"
    r"average |tail |P\d\d )?" + _ACRONYM + r"\s+(?:by|to|from)\s+(?:up to |about )?\d"
)


@cache
def _known() -> frozenset[str]:
    out = set()
    for f in facts.load("metrics"):
        out |= {n.upper() for n in (f["name"], *f.get("aliases", []))}
    for kind in ("hardware", "models", "software", "venues", "shortnames", "works"):
        out |= {n.upper() for f in facts.load(kind) for n in (f["name"], *f.get("aliases", []))}
    return frozenset(out)


def _defined(whole: str, acronym: str) -> bool:
    """Spelled out somewhere: `X (time to …)`, `time to … (X)`, `X = …`, `X means …`."""
    a = re.escape(acronym)
    return bool(
        re.search(
            rf"(?<![\w-]){a}\s*(?:指标)?\s*[（(](?=[^）)]*[A-Za-z\u4e00-\u9fff]{{3}})(?!(?:NVIDIA|vs\b))[^）)]{{6,}}[）)]", whole
        )
        or re.search(rf"[A-Za-z\u4e00-\u9fff][^，。；;,.（(]{{3,}}[（(]\s*(?:以下简称|简称|abbreviated )?{a}\s*[）)]", whole)
        or re.search(
            rf"(?<![\w-]){a}\s*(?:[=:：]\s*[A-Za-z\u4e00-\u9fff]{{4,}}|即|是指|指的是|定义为|means\b|stands for|is (?:the|a|"
            rf"defined)\b|denotes)",
            whole,
        )
    )


@check(55)
def undefined_metric(brief: Brief) -> Iterator[Finding]:
    """An abbreviation stands where a metric stands, and nothing says what it measures."""
    whole = "\n".join(brief.lines)
    names = {
        n.upper()
        for i in brief.items
        if i.kind in {"increment", "adjacent", "citable", "carry_over"}
        for n in _subjects(i.names, i.title)
    } | {n.upper() for n in brief.works.values()}
    told: set[str] = set()
    for line, text in brief.text_lines():
        for pattern in (_POSITION, _OBJECT):
            for m in pattern.finditer(text):
                acronym = m["a"]
                if (
                    acronym in told
                    or acronym.upper() in _known()
                    or acronym.upper() in names
                    or not re.search(r"[A-Z]{3}", acronym)
                    or _defined(whole, acronym)
                ):
                    continue
                told.add(acronym)
                near = _near(acronym)
                hint = f" (did it mean {near}?)" if near else ""
                yield Finding(
                    55,
                    Place(line, m[0].strip()),
                    f"{acronym} is used as a metric but neither defined here nor a known one{hint}",
                    "a definition, or the usual metric",
                    (),
                )


def _subjects(names: list[str], title: str) -> list[str]:
    """Names that head an item (in front of its colon), where an abbreviation is a work and no metric."""
    head = re.split(r"[：:]|——", title)[0]
    return [n for n in names if n in head]


def _near(acronym: str) -> str:
    """A known metric that differs by one letter."""
    for f in facts.load("metrics"):
        if f.get("kind") == "term":
            continue
        for known in (f["name"], *f.get("aliases", [])):
            if known.isupper() and len(known) == len(acronym) and sum(x != y for x, y in zip(known, acronym, strict=True)) == 1:
                return str(known)
    return ""


def _symbols(fact: dict[str, Any]) -> str:
    names = sorted({fact["name"], *fact.get("aliases", [])}, key=len, reverse=True)
    return "|".join(rf"(?<![\w-]){re.escape(n)}(?![\w])" if n.isascii() else re.escape(n) for n in names)


def _is_expansion(definition: str, symbol: str) -> bool:
    """A definition whose words' first letters spell the abbreviation."""
    initials = "".join(w[0] for w in re.findall(r"[A-Za-z]+", definition)).upper()
    return (
        symbol.isupper()
        and len(symbol) >= 3
        and (initials.startswith(symbol) or initials.replace("O", "").startswith(symbol.replace("O", "")))
    )


@check(55)
def redefined_metric(brief: Brief) -> Iterator[Finding]:
    """A known metric followed by a definition of something else."""
    for fact in facts.load("metrics"):
        if fact.get("kind") == "term":
            continue
        pattern = re.compile(
            rf"(?P<s>{_symbols(fact)})\s*(?:指标|metric)?\s*(?:[（(](?P<d>[^）)]{{4,90}})[）)]|(?:[:：=]|即|定义为|指的是|is "
            rf"defined as|defined as|means|i\.e\.,?)\s*(?P<d2>[^。；;\n]{{4,90}}))",
            re.IGNORECASE,
        )
        wrong = re.compile("|".join(fact["not"]), re.IGNORECASE)
        right = re.compile("|".join(fact["words"]), re.IGNORECASE)
        hits = []
        for line, text in brief.text_lines():
            for m in pattern.finditer(text):
                definition = m["d"] or m["d2"]
                letters = len(re.findall(r"[A-Za-z\u4e00-\u9fff]", definition))
                if letters < 4 or re.match(r"\s*(?:P\d\d|[<>≈~]?\s*[\d.]+\s*(?:%|ms|s\b|×|x\b|倍|-))", definition):
                    continue
                bad = wrong.search(definition)
                if (bad and (m["d"] or m["s"] in {"α", "τ"} or _is_expansion(definition, m["s"]))) or (
                    _is_expansion(definition, m["s"]) and not right.search(definition)
                ):
                    hits.append((line, m))
        if hits:
            line, m = hits[0]
            yield Finding(
                55,
                Place(line, m[0]),
                f"{m['s']} usually is: {fact['means']} ({facts.cite(fact)})",
                fact["means"],
                tuple(Place(n, x[0]) for n, x in hits[1:5]),
                "facts",
            )
