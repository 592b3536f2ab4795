"""Claims with typed quantities in settings, out of one item's text. What cannot be typed stays a quoted thesis."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from headwater.ledger.parse.ids import find_ids
from headwater.ledger.parse.quantity import Quantity, find_quantities
from headwater.ledger.records import Amount, Claim, Item, Setting, fingerprint

_SENTENCE = re.compile(r"(?:[^。；;！!？?\n]|[;!?](?=\S))+[。；;！!？?]?")      # marks inside a link do not end a sentence
_STOP = re.compile(r"(?<=[a-z)\]%×])\.\s+(?=[A-Z])")
_MODEL = re.compile(
    r"\b(?:Llama|LLaMA|Qwen|Gemma|DeepSeek|Mistral|Mixtral|Kimi|GLM|Phi|SmolLM|Falcon|Yi|InternLM|LongCat|GPT|Claude|OPT)"
    r"[-\s]?[\w.]*(?:-[\w.]+)*"
)
_HARDWARE = re.compile(
    r"\b(?:\d{1,6}\s?×\s?)?(?:A100|A800|H100|H800|H200|H20|B200|B100|GB200|L40S?|"
    r"L4|T4|V100|MI\d{3}X?|TPU ?v\d\w*|RTX ?\d{4}\w*|M[1-5](?: (?:Max|Ultra|Pro))?"
    r"|Xeon[\w -]{0,12}|EPYC[\w -]{0,8}|Jetson\w*)\b"
)
_TASK = re.compile(
    r"\b(?:\w*(?:Bench|Eval|QA)\b(?:-?\w+)?|HumanEval\+?|ClassEval|MMLU(?:-Pro)?|GSM8K|MATH(?:-?500)?|"
    r"AIME\d*|RULER|LongProc(?: \d+K)?|MBPP|SWE-?bench|ShareGPT|C4|WikiText)"
)
_BASELINE = re.compile(
    r"(?:相对于?|相比|对比|比|vs\.?|versus|compared (?:with|to)|relative to|against|over|than)\s*"
    r"(?P<b>[A-Za-z][\w.+ /-]{1,40}|[\u4e00-\u9fff]{2,12})",
    re.IGNORECASE,
)
_BASE_YEAR = re.compile(r"[（(](20\d\d)[）)]")
_CONTEXT = re.compile(r"(?<!\d)(\d{1,9}(?:\.\d{1,9})?\s?[KM])\s?(?:上下文|context|tokens?)", re.IGNORECASE)
_BATCH = re.compile(r"batch(?: ?size)?\s*=?\s*(\d+)", re.IGNORECASE)
_NORMAL = re.compile(
    r"(?:等|iso-?|equal[- ])(?:参数|带宽|FLOPs?|parameters?|bandwidth|乘法器数?)|同乘法器数|相同[^，。]{0,12}(?:配置|口径)", re.IGNORECASE
)
_SIMULATED = re.compile(r"模拟器|仿真|simulat", re.IGNORECASE)
_MEASURED = re.compile(r"实测|measured|生产(?:数据|环境|轨迹)|in production", re.IGNORECASE)
_DEFINITION = re.compile(
    r"逐样本[^，。]{0,8}(?:均值|平均)|均值之比|比值的均值|mean of (?:per-sample )?ratios|ratio of means|几何平均|geometric mean", re.IGNORECASE
)
_ORIGIN: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("third_party", re.compile(r"第三方(?:复现|评测|实测)|independent(?:ly)? (?:measured|reproduced|test)|third[- ]party", re.IGNORECASE)),
    ("production", re.compile(r"生产(?:数据|环境|轨迹|验证|级数据)|production (?:data|traces?|deployment)", re.IGNORECASE)),
    ("vendor", re.compile(r"厂商|官方博客|发布稿|vendor|press release|official blog", re.IGNORECASE)),
    ("author", re.compile(r"作者自(?:报|述)|自报|摘要自述|authors? (?:report|claim)|self-reported|paper reports", re.IGNORECASE)),
)
_NEGATED_THIRD = re.compile(r"(?:无|没有|缺|no|without|lacks?)\s*(?:任何\s*)?(?:第三方|third[- ]party|independent)", re.IGNORECASE)
_KIND: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("event", re.compile(r"收购|归档|加入|acqui|archived|announced|joined", re.IGNORECASE)),
    (
        "availability",
        re.compile(
            r"开源|发布(?:代码|权重)|open[- ]source|code (?:is )?(?:available|released)|weights (?:are )?(?:available|released)", re.IGNORECASE
        ),
    ),
    ("quality", re.compile(r"精度|准确率|accuracy|perplexity|pass@|score", re.IGNORECASE)),
    ("thesis", re.compile(r"综述|survey|roadmap|路线图|position paper", re.IGNORECASE)),
    ("opinion", re.compile(r"认为|我觉得|in my opinion|arguably", re.IGNORECASE)),
    ("mechanism", re.compile(r"方法|机制|算法|通过|mechanism|method|algorithm|by (?:routing|caching|sharing|forking)", re.IGNORECASE)),
)
_TYPED_UNITS = {
    "%",
    "×",
    "GB/s",
    "TB/s",
    "tok/s",
    "token/s",
    "tokens/s",
    "req/s",
    "QPS",
    "ms",
    "s",
    "秒",
    "毫秒",
    "B",
    "T",
    "M",
    "W",
    "kW",
    "TFLOPS",
    "$",
    "GB",
    "MB",
}
_LABELLED = re.compile(
    r"^\s*(?:[-*•]\s*)?(?:\*\*)?(?:来源|链接|作者|机构|会议|日期|标题|编号|主分类|类型|建议动作|被引|arXiv|source|links?|authors?|affiliations?|venue|date|title|producer)(?:\*\*)?\s*[:：]",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Attributed:
    """A sentence of an item and the work it is about."""

    work: str
    text: str
    quantities: list[Quantity]


def sentences(text: str) -> list[str]:
    """Sentences of a text, Chinese or English, in order, without list marks."""
    out = []
    for line in text.split("\n"):
        if line.lstrip().startswith("#"):
            continue
        for m in _SENTENCE.finditer(line):
            out += [re.sub(r"^[\s\-*•>\d.、①-⑳]*(?=\S)", "", s).strip() if not re.match(r"^\s*-\d", s) else s.strip() for s in _STOP.split(m[0])]
    return [s for s in out if len(s) > 1]


def attribute(text: str, works: list[str], names: dict[str, str]) -> list[Attributed]:
    """Sentences with the work each is about: named in it by id or short name, else the last one named, else the item's first.

    names: short name in lower case -> work key.
    """
    if not works:
        return []
    out, current = [], works[0]
    for sentence in sentences(text):
        keys = [i.key for i in find_ids(sentence) if i.key in works]
        low = sentence.casefold()
        named = [k for n, k in names.items() if k in works and re.search(rf"(?<![a-z0-9]){re.escape(n)}(?![a-z0-9])", low)]
        if keys or named:
            current = (keys or named)[0]
        quantities = [] if _LABELLED.match(sentence) else [q for q in find_quantities(sentence, plain=False) if _counts(q)]
        if any(q.unit in {"%", "×"} for q in quantities):
            quantities = [q for q in quantities if q.metric != "context_length"]  # beside a result, a context length is its setting
        out.append(Attributed(current, sentence, quantities))
    return out


def _counts(q: Quantity) -> bool:
    """Worth a claim: a measured kind of unit or a named metric; numbers of files, days, items and dates are not."""
    return q.unit in _TYPED_UNITS or (bool(q.metric) and q.metric not in {"users", "citations"} and bool(q.unit or q.bound))


def setting_of(sentence: str, item: str) -> Setting:
    """Setting of a number: what its sentence names; for a field the sentence leaves out, what the item names exactly once."""

    def pick(rx: re.Pattern[str]) -> str:
        own = list(dict.fromkeys(m[0].strip(" .,-") for m in rx.finditer(sentence)))
        if own:
            return " / ".join(own)
        wide = list(dict.fromkeys(m[0].strip(" .,-") for m in rx.finditer(item)))
        return wide[0] if len(wide) == 1 else ""

    baseline = _BASELINE.search(sentence)
    year = _BASE_YEAR.search(sentence)
    context, batch, normal = _CONTEXT.search(sentence), _BATCH.search(sentence), _NORMAL.search(sentence)
    return Setting(
        model=pick(_MODEL),
        task=pick(_TASK),
        hardware=pick(_HARDWARE),
        baseline=baseline["b"].strip() if baseline else "",
        baseline_generation=year[1] if baseline and year else "",
        context=context[1] if context else "",
        batch=batch[1] if batch else "",
        normalisation=normal[0] if normal else "",
    )


def origin_of(sentence: str, item: str, work: str) -> str:
    """Where a number comes from: what the sentence says, else what the item says, else the author for a paper; vendor for a link."""
    for text in (sentence, item):
        for origin, rx in _ORIGIN:
            if rx.search(text) and not (origin == "third_party" and _NEGATED_THIRD.search(text)):
                return origin
    return "author" if work.startswith(("arxiv:", "doi:")) else "unknown"


def amount_of(q: Quantity, sentence: str, item: str) -> Amount:
    """The typed number with what the text says about its definition and how it was obtained."""
    definition = _DEFINITION.search(sentence)
    measured: Literal["measured", "simulated", "unknown"] = "unknown"
    if _SIMULATED.search(sentence) or _SIMULATED.search(item):
        measured = "simulated"
    elif _MEASURED.search(sentence):
        measured = "measured"
    return Amount(
        raw=q.raw,
        low=q.low,
        high=q.high,
        unit=q.unit,
        direction=q.direction,
        bound=q.bound,
        percentile=q.percentile,
        metric=q.metric,
        definition=definition[0] if definition else "unknown",
        measured=measured,
    )


def claims_of(item: Item, works: list[str], names: dict[str, str], boundary: str, missing: list[str]) -> list[Claim]:
    """Claims of one item. A claim's id depends on work, metric, value and named setting, so a retelling yields the same id."""
    out: dict[str, Claim] = {}
    covered: set[str] = set()
    for a in attribute(item.text, works, names):
        for q in a.quantities:
            setting = setting_of(a.text, item.text)
            ident = fingerprint(
                "claim", a.work, q.metric or "?", q.unit, round(q.low, 6), round(q.high, 6), q.percentile, _nearest(a.text, q, setting)
            )
            out.setdefault(
                ident,
                Claim(
                    id=ident,
                    work=a.work,
                    statement=a.text,
                    claim_kind=_kind(a.text, "performance"),
                    amount=amount_of(q, a.text, item.text),
                    setting=setting,
                    origin=origin_of(a.text, item.text, a.work),
                    missing=missing,
                    boundary=boundary,
                    source=item.source,
                    item=item.id,
                ),
            )
            covered.add(a.work)
    for work in works:
        if work in covered:
            continue
        gist = next(
            (a.text for a in attribute(item.text, works, names) if a.work == work and not _LABELLED.match(a.text) and len(a.text) > 12), item.title
        )
        ident = fingerprint("claim", work, "thesis")
        if gist:
            out[ident] = Claim(
                id=ident,
                work=work,
                statement=gist,
                claim_kind=_kind(item.text, "thesis"),
                origin=origin_of(gist, item.text, work),
                missing=missing,
                boundary=boundary,
                source=item.source,
                item=item.id,
            )
    return list(out.values())


def _kind(text: str, default: str) -> str:
    return next((k for k, rx in _KIND if rx.search(text)), default)


def _nearest(sentence: str, q: Quantity, setting: Setting) -> str:
    """The model or task named last before the number: two numbers of one metric on two models are two claims."""
    before = sentence[: q.start]
    hits = [(m.start(), m[0]) for rx in (_MODEL, _TASK) for m in rx.finditer(before)]
    return max(hits)[1].strip() if hits else (setting.model or setting.task)


def same_quantity(a: Claim, b: Claim) -> bool:
    """One number told twice: same metric, unit and value, and no field of the setting named differently by both."""
    if not (a.amount and b.amount) or (a.amount.unit, a.amount.low, a.amount.high) != (b.amount.unit, b.amount.low, b.amount.high):
        return False
    if a.amount.metric != b.amount.metric and a.amount.metric and b.amount.metric:
        return False
    one, two = a.setting, b.setting
    return all(
        not x or not y or x == y for x, y in ((one.model, two.model), (one.task, two.task), (one.hardware, two.hardware), (one.context, two.context))
    )
