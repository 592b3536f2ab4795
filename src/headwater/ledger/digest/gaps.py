"""Which evidence is missing: a fixed vocabulary, what each family of work owes, and the boundary sentence that follows."""

from __future__ import annotations

import re

from headwater.ledger.vocabulary import GAPS, LEVELS, ORIGINS, word

_FAMILY: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("speculation", re.compile(r"投机|speculative|draft|verify|self-specul", re.IGNORECASE)),
    ("compression", re.compile(r"稀疏|量化|压缩|剪枝|蒸馏|sparse|quanti[sz]|compress|prun|distil|evict", re.IGNORECASE)),
    ("hardware", re.compile(r"加速器|脉动阵列|ISA|accelerator|systolic|ASIC|FPGA", re.IGNORECASE)),
    ("scheduling", re.compile(r"调度|SLO|弹性|schedul|autoscal|goodput", re.IGNORECASE)),
    ("decision", re.compile(r"决策模型|decision model|decision inference|rerank", re.IGNORECASE)),
)
_OWES: dict[str, tuple[str, ...]] = {
    "speculation": ("alpha", "accuracy_cost", "ablation"),
    "compression": ("accuracy_cost", "ablation", "normalisation"),
    "hardware": ("accuracy_cost", "normalisation", "baseline_generation"),
    "scheduling": ("variance", "baseline_generation"),
    "decision": ("accuracy_cost", "scale"),
}
_PRESENT: dict[str, re.Pattern[str]] = {
    "alpha": re.compile(r"接受率|acceptance rate|α\s*=|accept(?:ance)? length", re.IGNORECASE),
    "accuracy_cost": re.compile(
        r"精度(?!代价)|准确率|accuracy|perplexity|pass@|质量(?:无损|持平|下降)|quality (?:loss|unchanged)|lossless|无损", re.IGNORECASE
    ),
    "ablation": re.compile(r"消融|ablation", re.IGNORECASE),
    "baseline_generation": re.compile(r"[（(]20\d\d[）)]|vLLM v?\d|SGLang v?\d|当代基线|baseline version", re.IGNORECASE),
    "normalisation": re.compile(r"等(?:参数|带宽|FLOPs)|iso-|同乘法器数", re.IGNORECASE),
    "code": re.compile(r"github\.com|gitlab\.com|gitee\.com|代码已(?:公开|发布|开源)|code (?:is )?(?:available|released|public)", re.IGNORECASE),
    "scale": re.compile(r"(?<!\d)\d{1,9}(?:\.\d{1,9})?\s?[BT]\b", re.ASCII),
    "hardware": re.compile(r"\b(?:A100|A800|H100|H800|H200|B200|GB200|L40|MI\d{3}|TPU|RTX|Xeon|EPYC|M[1-5]\b)", re.IGNORECASE),
    "variance": re.compile(r"方差|标准差|置信区间|±|variance|std|confidence interval|seeds?\b|n\s*=\s*\d", re.IGNORECASE),
    "data_size": re.compile(r"(?<!\d)\d{1,12}\s?(?:条|个|samples?|examples?|requests?|questions?)", re.IGNORECASE),
}
_ABSENT_BEFORE = re.compile(
    r"(?:未|无|没有|缺(?:失|少)?|不明|\bnot |\bno |without |missing|lacks?|unreported|undisclosed|unknown)[^，。；;,.]{0,16}$", re.IGNORECASE
)
_ABSENT_AFTER = re.compile(r"^[^，。；;,.（(]{0,12}(?:未(?:报告|披露|给出|提|单独报告)|缺失|missing|not reported|undisclosed)", re.IGNORECASE)
_BOUNDARY = re.compile(
    r"^\s*(?:[-*•]\s*)?(?:\*\*)?(?:证据边界(?:（[^）]*）)?|边界|evidence boundary(?:\s*\([^)]*\))?|boundary|limits?)"
    r"(?:\*\*)?\s*[:：]\s*(?:\*\*)?(?P<b>\S.*)$",
    re.IGNORECASE | re.MULTILINE,
)
_VERDICT = re.compile(r"(?P<who>[A-Za-z][\w-]{1,20})\s*(?:判|判断|verdict)\s*[:：]?\s*[\"“「](?P<v>[^\"”」\n]+)[\"”」]", re.IGNORECASE)
_AXES: dict[str, re.Pattern[str]] = {
    "preserving": re.compile(
        r"投机解码|speculative decoding|保持分布|保分布|prefix cach|前缀缓存|PagedAttention|调度|distribution[- ]preserving|lossless", re.IGNORECASE
    ),
    "changing": re.compile(r"蒸馏|distil|量化|quanti[sz]|稀疏|sparse|剪枝|prun|决策模型|decision model|改变输出", re.IGNORECASE),
}


def families(text: str) -> list[str]:
    """Families of technique a text speaks of."""
    return [k for k, rx in _FAMILY if rx.search(text)]


def axis(text: str) -> str:
    """`preserving` or `changing` of the output distribution; empty when both or neither is named."""
    hits = [k for k, rx in _AXES.items() if rx.search(text)]
    return hits[0] if len(hits) == 1 else ""


def missing_evidence(text: str) -> list[str]:
    """Names from `vocabulary.GAPS` for what the text owes and does not report, or says is missing; in the vocabulary's order."""
    owed = {"code", "hardware", "variance", *(g for f in families(text) for g in _OWES[f])}
    out = []
    for gap in GAPS:
        hits = list(_PRESENT[gap].finditer(text))
        told = [m for m in hits if not _denied(text, m)]
        if (hits or gap in owed) and not told:
            out.append(gap)
    return out


def _denied(text: str, m: re.Match[str]) -> bool:
    """`未报告接受率`, `acceptance rate not reported`: naming a thing to say that it is missing."""
    before, after = text[max(0, m.start() - 20) : m.start()], text[m.end() : m.end() + 24]
    return bool(_ABSENT_BEFORE.search(before) or _ABSENT_AFTER.search(after))


def stated_boundary(text: str) -> str:
    """The boundary sentence an item gives itself, verbatim."""
    m = _BOUNDARY.search(text)
    return m["b"].strip() if m else ""


def boundary_sentence(level: int, origins: list[str], missing: list[str], sources: int, language: str) -> str:
    """A boundary for an item that gives none: level, origin of the numbers, independent sources, what is missing."""
    words = [word(GAPS, m, language) for m in missing]
    if language == "en":
        return (
            f"{word(LEVELS, level, 'en')}; numbers: {', '.join(word(ORIGINS, o, 'en') for o in origins) or 'none'}; {sources} independent origin(s); "
            f"not reported: {', '.join(words) or 'nothing on the list'}."
        )
    return (
        f"{word(LEVELS, level, 'zh')}；数字来源：{'、'.join(word(ORIGINS, o, 'zh') for o in origins) or '无'}；独立来源 {sources} 个；"
        f"未报告：{'、'.join(words) or '清单内无'}。"
    )


def critic_verdict(text: str) -> tuple[str, str] | None:
    """(critic, verbatim words) when a critical read pronounces a verdict."""
    m = _VERDICT.search(text)
    return (m["who"], m["v"].strip()) if m else None
