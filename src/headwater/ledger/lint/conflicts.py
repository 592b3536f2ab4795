"""Rules 58, 60, 61 and 62: conflicts have two different parties, two sides, the right axis, and end in a task."""

from __future__ import annotations

import re
from collections.abc import Iterator

from headwater.ledger.lint import words
from headwater.ledger.lint.brief import Brief
from headwater.ledger.lint.finding import Finding, Place
from headwater.ledger.lint.names import clauses, name_key, names_in, sentences
from headwater.ledger.lint.registry import check

_PARTY = (
    r"(?P<{0}>(?<![\w-])[A-Z][\w&.-]+(?: [A-Z][\w&.-]+){{0,2}}|[\u4e00-\u9fff]{{2,8}}?(?:公司|集团|科技|云|里巴巴|度|讯|节跳动|为))"
)
_AMOUNT = (
    r"(?:\s*(?:以|拟|将|计划|宣布|已|约|for|in a)?\s*(?:[$¥€£]\s?[\d.,]+\s?(?:[BMK]|bn|亿|万|billion|million)?(?:美元|元)?|"
    r"[\d.,]+\s?(?:亿|万|billion|million)(?:美元|元|人民币|dollars)?)\s*(?:deal to|的价格|价|元)?\s*)?"
)
_ACQUIRES = re.compile(
    _PARTY.format("a")
    + _AMOUNT
    + (
        r"\s*(?:拟|将|宣布|完成|已|计划|正式|has |have |will |is to |agreed to |plans to |to )?\s*(?P<verb>收购|并购|买下|吞并|"
        r"入股|控股|acquires?|acquired|acquiring|acquire|buys?|bought|takes over|took over|purchases?|merges? "
        r"with)\s*(?:了)?\s*"
    )
    + _PARTY.format("b")
)
_COMPARES = re.compile(
    r"(?<![\w-])(?P<a>[A-Z][\w.-]{2,}(?: \d+(?:\.\d+)?)?)\s*(?:vs\.?|对比|相比|比|相对|versus|outperforms|beats|is faster than|"
    r"is slower than)\s+?(?P<b>[A-Z][\w.-]{2,}(?: \d+(?:\.\d+)?)?)(?![\w-])"
)


@check(58)
def two_parties(brief: Brief) -> Iterator[Finding]:
    """Somebody acquires, or is compared with, himself."""
    for line, text in brief.text_lines():
        for m in _ACQUIRES.finditer(text):
            if name_key(m["a"]) == name_key(m["b"]):
                others = [
                    p
                    for p in _deals(brief)
                    if p[0] != line and name_key(p[2]) == name_key(m["b"]) and name_key(p[1]) != name_key(m["a"])
                ]
                related = tuple(Place(n, span) for n, _, _, span in others)
                hint = f"; line {others[0][0]} names {others[0][1]}" if others else ""
                yield Finding(
                    58, Place(line, m[0].strip()), f"buyer and bought are both {m['a']}{hint}", "two different parties", related
                )
        for m in _COMPARES.finditer(text):
            if (
                name_key(m["a"]) == name_key(m["b"])
                and not re.search(r"\d$", m["a"])
                and not re.match(r"\s*(?:with|without|on|at|v\d|\d|的|（|\()", text[m.end() :])
                and len(m["a"]) > 3
            ):
                yield Finding(
                    58,
                    Place(line, m[0].strip()),
                    f"{m['a']} is compared with itself",
                    "two different parties, or the versions and settings that differ",
                )


_ACQUIRED_BY = re.compile(
    _PARTY.format("b")
    + r"\s*(?:已|将|拟)?被\s*"
    + _PARTY.format("a")
    + r"\s*(?:以[^，。]{1,16})?(?:收购|并购|买下)|"
    + _PARTY.format("b2")
    + r"\s+(?:is|was|will be|has been|to be)\s+(?:acquired|bought|taken over) by\s+"
    + _PARTY.format("a2")
)


def _deals(brief: Brief) -> list[tuple[int, str, str, str]]:
    """(line, buyer, bought, span) of every acquisition told, active or passive, in text order."""
    passive = [
        (n, m["a"] or m["a2"], m["b"] or m["b2"], m[0].strip()) for n, t in brief.text_lines() for m in _ACQUIRED_BY.finditer(t)
    ]
    return sorted(passive + _active_deals(brief), key=lambda d: d[0])


def _active_deals(brief: Brief) -> list[tuple[int, str, str, str]]:
    return [(n, m["a"], m["b"], m[0].strip()) for n, t in brief.text_lines() for m in _ACQUIRES.finditer(t)]


@check(58)
def one_set_of_parties(brief: Brief) -> Iterator[Finding]:
    """One bought company, two buyers."""
    first: dict[str, tuple[int, str, str]] = {}
    for line, buyer, bought, span in _deals(brief):
        key = name_key(bought)
        if name_key(buyer) == key:
            continue
        if key in first and name_key(first[key][1]) != name_key(buyer):
            n, other, said = first[key]
            text = brief.lines[line - 1]
            if not re.search(r"传闻|另一|而非|不是|rumou?r|not\b|instead|contrary|denied|versus|或", text, re.IGNORECASE):
                yield Finding(
                    58,
                    Place(line, span),
                    f"{bought} is bought by {buyer} here and by {other} in line {n}",
                    "one buyer, or an open conflict with both sides",
                    (Place(n, said),),
                )
        first.setdefault(key, (line, buyer, span))


_CONFLICT = words.rx(
    r"(?:相互|互相|彼此|前后)?矛盾|说法不一|口径不一|不一致|相左|打架|冲突(?:未|尚)|contradict|disagree|conflict(?:s|ing)?\b|"
    r"inconsisten|at odds|diverg(?:e|ing) (?:reports|accounts)"
)
_UNSOLVED = words.rx(
    r"未(?:消解|解决|决|定)|待(?:核|定|查)|尚无定论|存疑|unresolved|open\b|unsettled|to be (?:verified|settled)|undecided"
)
_SIDES = words.rx(
    r"一方|另一(?:方|家|则|份)|前者|后者|分别|称|说|写|记|为|而|但|vs|versus|\bwhile\b|whereas|\bbut\b|says?\b|claims?\b|"
    r"according|reports?\b|states?\b|one (?:source|note|report)|the other|against|≠|与[^，。]{2,30}(?:矛盾|冲突|不一致|相左)"
)


@check(60)
def both_sides(brief: Brief) -> Iterator[Finding]:
    """An unresolved conflict that names no second side."""
    for item in brief.of("contradiction"):
        text = item.text
        if _CONFLICT.search(text) and _UNSOLVED.search(text) and not _two_sided(text):
            yield Finding(
                60,
                item.pieces[0].place(item.pieces[0].text[:100]) if item.pieces else item.place,
                "an unresolved conflict without its sides",
                "both statements, each with its source",
                (),
            )


def _two_sided(text: str) -> bool:
    """Two statements stand against each other: two sources, or a contrast word between two clauses with content."""
    contrast = _SIDES.search(text)
    numbers = re.findall(r"\d+(?:\.\d+)?", text)
    quoted = re.findall(r"[\"“「《][^\"”」》]{2,}[\"”」》]", text)
    return len(names_in(text)) >= 2 or bool(contrast and len(re.sub(r"\W", "", text)) > 24) or len(numbers) >= 2 or len(quoted) >= 2


_CHANGES = words.rx(
    r"蒸馏|量化|剪枝|稀疏(?:化|注意力)?|低比特|近似|缓存压缩|distill\w*|quanti[sz]\w*|\bprun\w*|spars\w*|low[- ]?bit|[248]-bit|"
    r"approximat\w*|early exit|decision models?|决策模型|token (?:merging|dropping)|eviction"
)
_LOSSLESS = words.rx(
    r"无损|保(?:持)?(?:输出)?分布(?:不变)?|分布(?:保持)?不变|输出(?:完全)?(?:一致|不变|相同)|不改变(?:输出|分布)|零精度损失|"
    r"lossless\w*|distribution[- ]preserving|preserv\w* the (?:output )?distribution|(?:same|identical|unchanged) (?:output|"
    r"distribution)|without (?:any )?(?:quality|accuracy) loss|no (?:quality|accuracy) loss|exact same output"
)
_BOTH = words.rx(
    r"都|均|两者|二者|皆|同样|同属|一样|both|alike|all of (?:them|which)|equally|each|together|as well as|和|与|、|and\b|\+"
)
_WARNING = words.rx(
    r"误读|读成|误导|区分|分开|不同(?:性质|类|轴)|并非|不是|不能|不可|避免|混淆|而非|否则|若|如果|不应|勿|distinguish|separate|"
    r"misread|confus|not\b|never|avoid|differ|unlike|whereas|rather|instead|if\b|claims?\b|声称|自称|据称|[\"“「]|近似无损|"
    r"near[- ]lossless|nearly lossless|几乎无损|lossy|有损|weight (?:file|format)|压缩格式|re-?encod|checkpoint"
)


@check(61)
def kinds_of_optimisation(brief: Brief) -> Iterator[Finding]:
    """A method that changes outputs is called lossless together with one that does not."""
    for item in brief.of("increment", "contradiction", "handle", "adjacent", "summary_row"):
        for piece in item.pieces:
            for _, sentence in sentences(piece.text):
                lossless, changes = _LOSSLESS.search(sentence), _CHANGES.search(sentence)
                exact = re.search(r"投机|speculat|prefix cach|前缀缓存|分叉|fork", sentence, re.IGNORECASE)
                if lossless and changes and exact and _BOTH.search(sentence) and not _WARNING.search(sentence):
                    yield Finding(
                        61,
                        piece.place(sentence.strip()[:120]),
                        f'"{changes[0]}" changes the output distribution, "{lossless[0]}" says it does not',
                        "latency and distribution as two axes",
                    )


_COMMON_GAP = words.rx(
    r"(?:都|均|皆|两(?:者|篇|条)都?|二者)[^，。；]{0,10}(?:缺(?:少|失|乏)?|没有|未(?:报告|给出|披露|提供|测|提)|不报告|无)|"
    r"(?:both|all (?:three|four|of them)|neither|none of (?:them|these))[^.;,]{0,40}(?:lack|omit|miss|report no|give no|"
    r"do(?:es)? not (?:report|give|state)|reports?\b|gives?\b|states?\b|without|leave out)"
)
_METRIC_GAP = words.rx(
    r"精度|准确|质量|代价|成功率|接受率|消融|基线|显著性|方差|置信区间|代码|功耗|延迟|指标|数字|accuracy|quality|cost|success "
    r"rate|acceptance|ablation|baseline|variance|interval|code|power|latency|metric|number|figure|energy"
)


@check(62)
def gap_becomes_a_task(brief: Brief) -> Iterator[Finding]:
    """A gap that several works share, without anything to do about it."""
    for item in brief.of("contradiction"):
        m = next(
            (m for p in item.pieces for _, c in sentences(p.text) if (m := _COMMON_GAP.search(c)) and _METRIC_GAP.search(c)), None
        )
        if m and not words.TASK.search(item.text):
            piece = next(p for p in item.pieces if m[0] in p.text)
            yield Finding(
                62,
                piece.place(next(c.strip() for _, c in clauses(piece.text) if m[0][:6] in c)),
                "a common gap without a reading or a test",
                "a directed task: what to read, or what to measure",
            )
