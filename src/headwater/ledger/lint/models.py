"""Rule 54, model families: checkpoints that exist, dense or mixture of experts, hybrid or full attention."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from headwater.ledger import facts
from headwater.ledger.lint import words
from headwater.ledger.lint.brief import Brief
from headwater.ledger.lint.finding import Finding, Place
from headwater.ledger.lint.names import sentences
from headwater.ledger.lint.registry import check

_SIZE = r"(?P<size>\d{1,4}(?:\.\d+)?[BM](?:[- ]A\d{1,3}(?:\.\d+)?B)?|\d{1,2}x\d{1,3}B)(?![\w.])"
_MOE_NAME = re.compile(r"-A\d|^\d+x", re.IGNORECASE)
_HYBRID = words.rx(
    r"hybrid|混合(?:线性)?注意力|线性注意力|linear[- ]attention|gated[- ]?delta|DeltaNet|conv_states?|recurrent[_ ]states?|"
    r"循环(?:状态|层)|状态空间|state[- ]space|Mamba"
)
_FULL = words.rx(
    r"(?:纯|全|标准|普通|完全的?)\s*(?:softmax\s*)?(?:attention|注意力)(?!\s*层的)|full[- ]attention(?: only)?\b(?! layers?)|"
    r"(?:pure|plain|standard|vanilla|only) (?:softmax )?attention|no (?:linear|recurrent) (?:attention|layers)|不含(?:线性|"
    r"循环)"
)
_OPEN = words.rx(
    r"未(?:验证|知|测|覆盖|核|定)|未经|无法|失效|存疑|待(?:验证|核|测)|不确定|尚不|open question|unverified|unknown|untested|"
    r"not (?:yet )?(?:tested|verified|covered|measured)|unclear|unresolved|may (?:fail|break)|remains? open|to be (?:tested|"
    r"verified)|no data"
)
_ALSO = words.rx(
    r"同样|也(?:是|采用|用|属|含)|均为|都是|全系|各尺寸|小模型也|also\b|as well|all sizes|every size|too\b|whole family|throughout the family"
)
_DENSE = words.rx(r"dense|稠密")
_MOE = words.rx(r"\bMoE\b|混合专家|mixture[- ]of[- ]experts")


@cache
def _families() -> tuple[tuple[str, dict[str, Any]], ...]:
    """(name or alias, fact), longest first, so that a family never matches inside a longer one."""
    pairs = [(n, f) for f in facts.load("models") for n in (f["name"], *f.get("aliases", []))]
    return tuple(sorted(pairs, key=lambda p: -len(p[0])))


@cache
def _pattern(name: str) -> str:
    return rf"(?<![\w.-]){re.escape(name)}(?![.\d\w]|-(?:Next|VL|Coder|Omni|ASR|Math|Audio|Embedding|Reranker|TTS)\b)"


def _mentions(text: str) -> Iterator[tuple[dict[str, Any], str, int, int]]:
    """(family, size as written, start, end) of every checkpoint, also `Family MoE (27B-A3B)`."""
    taken: list[tuple[int, int]] = []
    flat = text.lower()
    for name, fact in _families():
        if name.lower() not in flat:
            continue
        for m in re.finditer(rf"{_pattern(name)}(?:\s?[- ]\s?|\s*MoE\s*[（(]\s*|\s*[（(]\s*){_SIZE}", text, re.IGNORECASE):
            if not any(m.start() < e and m.end() > s for s, e in taken):
                taken.append(m.span())
                yield fact, m["size"].replace(" ", "-"), m.start(), m.end()


@check(54)
def checkpoint_exists(brief: Brief) -> Iterator[Finding]:
    """A size the family was never published in, or one called dense although it is a mixture (and the other way round)."""
    told: set[tuple[str, str]] = set()
    for line, text in brief.text_lines():
        for fact, size, start, end in _mentions(text):
            sizes = {s.upper() for s in fact["sizes"]}
            key = (fact["name"], size.upper())
            if key in told:
                continue
            span = text[start:end].strip()
            if sizes and not _published(size.upper(), sizes) and not fact.get("sizes_open"):
                told.add(key)
                yield Finding(
                    54,
                    Place(line, span),
                    f"{fact['name']} was not published as {size}; sizes: {', '.join(fact['sizes'])} ({facts.cite(fact)})",
                    "a published checkpoint, or a note that the name is the source's",
                    (),
                    "facts",
                )
                continue
            wrong = _kind_wrong(fact, size, text[end : end + 14])
            if wrong:
                told.add(key)
                yield Finding(
                    54,
                    Place(line, text[start : end + 14].strip()),
                    f"{fact['name']}-{size} is {wrong} ({facts.cite(fact)})",
                    wrong,
                    (),
                    "facts",
                )


def _published(size: str, sizes: set[str]) -> bool:
    """A published size, or the total of a mixture (`122B` for `122B-A10B`); millions in a family of billions are a context length."""
    if size in sizes or any(s.startswith(f"{size}-A") for s in sizes):
        return True
    return size.endswith("M") and not any(s.endswith("M") for s in sizes)


def _kind_wrong(fact: dict[str, Any], size: str, after: str) -> str:
    moe = {s.upper() for s in fact["moe"]}
    near = re.match(
        r"\s*(?:是|为|is|,|，|\(|（)?\s*(?:a |an |一个|的)?\s*(?P<k>dense|稠密|MoE|混合专家|mixture)", after, re.IGNORECASE
    )
    if not near:
        return ""
    dense = bool(_DENSE.match(near["k"]))
    if dense and size.upper() in moe:
        return "a mixture of experts, not dense"
    if not dense and fact["sizes"] and size.upper() in {s.upper() for s in fact["sizes"]} - moe and not _MOE_NAME.search(size):
        return "dense, not a mixture of experts"
    return ""


_ACTIVE = re.compile(
    r"(?<![\w.])(?P<n>\d{1,3}(?:\.\d+)?)\s*B\s*(?:激活|active\b|activated\b)|"
    r"(?:激活|active parameters?|activates?)\s*(?:参数)?\s*(?:约|about|only|of|:|：)?\s*(?P<n2>\d{1,3}(?:\.\d+)?)\s*B\b",
    re.IGNORECASE,
)
_TOTAL_ACTIVE = re.compile(r"^(?P<total>\d+(?:\.\d+)?)B-A(?P<active>\d+(?:\.\d+)?)B$", re.IGNORECASE)


@check(54)
def active_parameters(brief: Brief) -> Iterator[Finding]:
    """Active parameters of a mixture against its published size, or against the `A3B` of its own name."""
    for line, text in brief.text_lines():
        for _, sentence in sentences(text):
            stated = [(float(m["n"] or m["n2"]), m) for m in _ACTIVE.finditer(sentence)]
            sizes = _mixtures(sentence)
            if len(stated) != 1 or len(sizes) != 1:
                continue
            (name, active, source), (value, m) = sizes[0], stated[0]
            if abs(value - active) > max(0.6, 0.1 * active):
                yield Finding(
                    54, Place(line, m[0].strip()), f"{name} has {active:g}B active parameters ({source})", f"{active:g}B active", (), "facts"
                )


def _mixtures(sentence: str) -> list[tuple[str, float, str]]:
    """(name, active billions, source) of every mixture a sentence is about, the size named or the only one of its family."""
    out: dict[str, tuple[float, str]] = {}
    for name, fact in _families():
        m = re.search(rf"(?<![\w.-]){re.escape(name)}(?![.\d])", sentence, re.IGNORECASE) if name.lower() in sentence.lower() else None
        if not m or any(name.lower() in n.lower() for n in out):
            continue
        known = [(s, t) for s in fact["sizes"] if (t := _TOTAL_ACTIVE.match(s))]
        named = [(s, t) for s, t in known if s.lower() in sentence.lower()]
        dense = len({s for s in fact["sizes"] if s not in fact["moe"]})
        pick = named or (known if len(known) == 1 and not dense else [])
        if len(pick) == 1:
            size, t = pick[0]
            out[f"{fact['name']}-{size}" if named else fact["name"]] = (float(t["active"]), facts.cite(fact))
    return [(n, a, s) for n, (a, s) in out.items()]


@check(54)
def attention_kind(brief: Brief) -> Iterator[Finding]:
    """Full attention where the family is hybrid, hybrid where it is not, and hybrid told as a trait of the mixtures only."""
    dense_reported: dict[str, Place] = {}
    for line, text in brief.text_lines():
        for fact, size, start, end in _mentions(text):
            if size.upper() not in {s.upper() for s in fact["moe"]} and not _MOE_NAME.search(size):
                dense_reported.setdefault(fact["name"], Place(line, text[start:end]))
    for line, text in brief.text_lines():
        for _, sentence in sentences(text):
            told: set[str] = set()
            for name, fact in _families():
                m = re.search(_pattern(name), sentence, re.IGNORECASE) if name.lower() in sentence.lower() else None
                if not m or any(name in t for t in told):
                    continue
                told.add(name)
                finding = _judge(fact, name, sentence, m, line, dense_reported)
                if finding:
                    yield finding


def _judge(fact: dict[str, Any], name: str, sentence: str, m: re.Match[str], line: int, dense: dict[str, Place]) -> Finding | None:
    near = sentence[m.start() : m.end() + 60]
    hybrid, full = _HYBRID.search(near), _FULL.search(near)
    told = full or hybrid
    if told and re.search(r"不同|相比|而|vs|unlike|whereas|compared|与", near[len(m[0]) : told.start()], re.IGNORECASE):
        hybrid = full = None  # the trait belongs to what it is compared with
    source = facts.cite(fact)
    if fact["hybrid"] == "all" and full and not hybrid and not words.NEGATION.search(near[: full.start()]):
        return Finding(
            54,
            Place(line, near[: full.end()].strip()),
            f"{fact['name']} has {fact['layers']} in all sizes ({source})",
            "hybrid attention",
            (),
            "facts",
        )
    if (
        fact["hybrid"] == "none"
        and hybrid
        and hybrid.start() - len(m[0]) < 24
        and not words.NEGATION.search(near[: hybrid.start()])
    ):
        return Finding(
            54,
            Place(line, near[: hybrid.end()].strip()),
            f"{fact['name']} has {fact['layers']} ({source})",
            fact["layers"],
            (),
            "facts",
        )
    if (
        fact["hybrid"] == "all"
        and fact["name"] in dense
        and _HYBRID.search(sentence)
        and _OPEN.search(sentence)
        and not _ALSO.search(sentence)
    ):
        moe_only = _MOE.search(sentence) or (
            re.search(rf"{_pattern(name)}[- ]{_SIZE}", sentence, re.IGNORECASE) and _MOE_NAME.search(sentence)
        )
        if moe_only:
            hit = _HYBRID.search(sentence)
            end = hit.end() if hit else m.end()
            begin = min(m.start(), hit.start() if hit else m.start())
            return Finding(
                54,
                Place(line, sentence[begin:end].strip()),
                f"told as an open question of the mixtures; {fact['name']} has {fact['layers']} in all sizes, also in "
                f"{dense[fact['name']].span} ({source})",
                "an open question about what was really not covered",
                (dense[fact["name"]],),
                "facts",
            )
    return None
