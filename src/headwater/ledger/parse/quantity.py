"""Typed quantities in prose: `-24.1%`, `4.7-6.3×`, `最高 ~2.5×`, `P95 35-37%`, `近 10 亿`, `800 GB/s`, `< 8%`, `68.5B`.

Dates, identifiers, versions, section marks, clock times and links are not quantities. Nothing is guessed: a number without a
recognised unit comes back with an empty unit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from headwater.ledger.parse.ids import find_dates, find_ids, find_links, find_sections, find_versions, narrow

_NUM = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_UNITS = (
    r"%|个百分点|pp\b|×(?![A-Za-z0-9])|倍|[xX](?![A-Za-z0-9])|GB/s|TB/s|GiB|MiB|GB|MB|TB|KB|tok(?:ens?)?/s|req/s|QPS|TFLOPS|GHz|MHz|kW|W\b|ms\b|μs|us\b|"
    r"秒|毫秒|分钟|小时|天|个月|年|s\b|min\b|h\b|days?\b|months?\b|"
    r"tokens?\b|kernels?\b|GPUs?\b|并发|位|bit\b|[BMTKbmk](?![A-Za-z0-9]|/s)|月活|用户|users?\b|authors?\b|作者|条|件|份|篇|张|个|种|类|层|轮"
)
_QUANTITY = re.compile(
    rf"(?P<lead>(?:(?:最高|最多|高达|至多|up to|at most|至少|at least|约|近|超过?|about|around|over|[<>≤≥≈~～])[ ]{{0,2}}){{0,3}})"
    rf"(?P<cur>[$€¥])?(?P<sign>[-+−±](?=\d))?(?P<a>{_NUM})\+?(?:[ ]?(?P<ua>{_UNITS}))?"
    rf"(?:(?P<dash>[ ]?(?:[~～–—]|至|to|到)[ ]?|-(?! )|[ ]-[ ])(?P<sign2>[-+−](?=\d))?(?P<b>{_NUM})(?![-\d]))?"
    rf"[ ]?(?P<scale>亿|万|千|billion|million|trillion)?[ ]?(?P<unit>{_UNITS})?",
    re.IGNORECASE,
)
_SCALE = {"亿": 1e8, "万": 1e4, "千": 1e3, "billion": 1e9, "million": 1e6, "trillion": 1e12}
_SUFFIX = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
_TIMES = re.compile(r"(?<!\d)(?:[01]?\d|2[0-3]):[0-5]\d(?!\d)|(?<=\dT)\d{4}(?!\d)")
_WORD = re.compile(r"[\w.~/-]+", re.ASCII)
_FILE_END = re.compile(r"\.(?:md|txt|json|xml|bib|toml|py)\.?$")
_FOUR_DIGITS = re.compile(r"\d{4}")
_PERCENTILE = re.compile(r"\bP(50|90|95|99|99\.9)\b", re.IGNORECASE)
_UP = re.compile(r"提升|提高|增加|上升|更快|快|加速|翻倍|高(?!效)|increase|faster|higher|improv|speed-?up|gain|more", re.IGNORECASE)
_DOWN = re.compile(r"降低|下降|减少|节省|缩短|低于|更低|低|差距|reduc|lower|less|sav|decreas|drop|fewer|cut", re.IGNORECASE)
_SPLIT = re.compile(r"[，。；;、\n]|,(?!\d)|\.\s")

# canonical metric -> words that name it (definitions and doubts about them live in the fact tables)
METRICS: dict[str, str] = {
    "ttft": r"TTFT|首\s*token|time to first token",
    "tpot": r"TPOT|ITL|time per output token",
    "goodput": r"goodput|好吞吐",
    "slo_violation": r"SLO 违规|SLO violations?",
    "e2e_latency": r"端到端延迟|end-to-end latency|e2e latency",
    "latency": r"延迟|latency|时延",
    "throughput": r"吞吐|throughput|tok(?:ens?)?/s|QPS",
    "load_time": r"加载速度|加载|load(?:ing)? (?:time|speed)",
    "cache_reuse": r"缓存复用|cache reuse|命中率|hit rate",
    "cost_efficiency": r"成本效率|cost[- ]efficien",
    "compute_saved": r"算力|compute capacity",
    "gpu_count": r"GPU(?:s)?(?=\s*[、，,]|\s*数|\s*-\d|$)|减少[^，。]*GPU|fewer GPUs",
    "energy": r"电力|能效|功耗|energy|power",
    "acceptance_rate": r"接受率|acceptance rate|α",
    "accuracy": r"准确率|精度|accuracy|pass@\d",
    "bandwidth": r"带宽|bandwidth|GB/s|TB/s",
    "context_length": r"上下文|context",
    "parameters": r"参数|parameters|总参|激活",
    "citations": r"被引|citations?|cited",
    "optimality_gap": r"最优差距|optimal(?:ity)? gap|与理论最优",
    "users": r"用户|月活|users",
    "price": r"收购|acquisition|\$",
}
_METRICS = [(name, re.compile(rx, re.IGNORECASE)) for name, rx in METRICS.items()]


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number in prose.

    low, high: equal for a single value; a factor of 2.4× is 2.4, a percentage is in percent, `亿` and `B` are multiplied out.
    unit: `%`, `×`, `GB/s`, … or empty. direction: -1 falls, +1 rises, 0 not said. bound: `up_to`, `at_least`, `about`, `<`, `>` or
    empty. percentile: `P95` or empty. metric: canonical name or empty. raw: the exact characters text[start:end].
    """

    raw: str
    start: int
    end: int
    low: float
    high: float
    unit: str = ""
    direction: int = 0
    bound: str = ""
    percentile: str = ""
    metric: str = ""

    @property
    def form(self) -> str:
        """relative (percent), factor (times) or absolute."""
        return "relative" if self.unit == "%" else "factor" if self.unit == "×" else "absolute"


def _masked(text: str) -> str:
    """The text with everything that merely looks like a number blanked out, same length."""
    chars = list(narrow(text))
    spans = [(i.start, i.end) for i in find_ids(text)]
    for finder in (find_links, find_sections, find_dates, find_versions):
        spans += [(m.start, m.end) for m in finder(text)]
    spans += [m.span() for m in _TIMES.finditer(text)]
    spans += [m.span() for m in _WORD.finditer(text) if _is_path(m[0])]
    for start, end in spans:
        chars[start:end] = "\x00" * (end - start)
    return "".join(chars)


def _is_path(word: str) -> bool:
    """A file name, or a path with a date in it."""
    if "/" not in word and "." not in word:
        return False
    return bool(_FILE_END.search(word)) or ("/" in word and word[:3].replace("_", "a").isalpha() and bool(_FOUR_DIGITS.search(word)))


def _clause(text: str, start: int, end: int) -> tuple[str, str]:
    """The text before and after a number inside its clause (at most 40 characters on either side)."""
    before = _SPLIT.split(text[max(0, start - 40) : start])[-1]
    after = _SPLIT.split(text[end : end + 40])[0]
    return before, after


def _bound(lead: str) -> str:
    lead = lead.lower()
    if re.search(r"最高|最多|高达|至多|up to|at most|≤", lead):
        return "up_to"
    if re.search(r"至少|at least|≥", lead):
        return "at_least"
    if re.search(r"<", lead):
        return "<"
    if re.search(r">|超|over", lead):
        return ">"
    return "about" if re.search(r"约|近|about|around|[≈~～]", lead) else ""


def _unit(raw: str | None) -> str:
    if not raw:
        return ""
    if raw in {"×", "倍", "x", "X"}:
        return "×"
    if raw in {"B", "M", "T", "K", "b", "m", "k"}:
        return raw.upper()
    return raw


def _direction(sign: str, before: str, after: str) -> int:
    if sign in {"-", "−"}:
        return -1
    if sign == "+":
        return 1
    for near in (after[:8], before[-12:], after, before):
        down, up = _DOWN.search(near), _UP.search(near)
        if bool(down) != bool(up):
            return -1 if down else 1
    return 0


def _metric(before: str, after: str, unit: str) -> str:
    best, place = "", 10**6
    for name, rx in _METRICS:
        for near, base in ((before[::-1], 0), (after, 1)):
            hay = before if base == 0 else after
            for m in rx.finditer(hay):
                distance = len(near) - m.end() if base == 0 else m.start() + 2
                if distance < place:
                    best, place = name, distance
    if not best and unit in {"GB/s", "TB/s"}:
        return "bandwidth"
    return best


def _inside_word(before: str, first: str) -> bool:
    """A digit glued to Latin letters (`H100`, `v2`, `A_3`) names something; it does not count it."""
    return before.isascii() and (before.isalpha() or before in "_." or (before.isdigit() and not first.isdigit()))


def _matches(flat: str) -> Iterator[re.Match[str]]:
    """Numbers that do not belong to a name; after one that does, the search goes on right behind its first digits."""
    at = 0
    while m := _QUANTITY.search(flat, at):
        start = m.start("cur") if m["cur"] else m.start("sign") if m["sign"] else m.start("a")
        inside = start > 0 and not m["lead"].strip() and _inside_word(flat[start - 1], flat[start])
        at = m.end("a") if inside else m.end()
        if not inside:
            yield m


def find_quantities(text: str, plain: bool = True) -> list[Quantity]:
    """All numbers that are neither identifiers nor dates, versions, times, sections or links.

    plain: also return bare counts without a unit (`512`); with False only numbers with a unit, bound or range are kept.
    """
    flat = _masked(text)
    out: list[Quantity] = []
    for m in _matches(flat):
        start = m.start("cur") if m["cur"] else m.start("sign") if m["sign"] else m.start("a")
        low = float(m["a"].replace(",", ""))
        high = float(m["b"].replace(",", "")) if m["b"] else low
        inner = _unit(m["ua"])
        unit = inner if inner and not m["b"] and not (inner in _SUFFIX and m["unit"]) else _unit(m["unit"] or m["ua"])
        sign = m["sign"] or ""
        if m["b"] and sign == "" and high < low and not m["sign2"]:  # `4-6` of an enumeration written backwards is no range
            high = low
        noun = inner and unit == inner and m["unit"] and not m["b"]  # `36.3% GPU`: the noun is not part of the number
        stop = m.start("unit") if noun else m.end()
        factor = _SCALE.get((m["scale"] or "").lower(), 1.0) * _SUFFIX.get(unit, _SUFFIX.get(inner, 1.0) if inner != unit else 1.0)
        before, after = _clause(flat, m.start(), stop)
        bound = _bound(m["lead"])
        if not unit and not bound and not m["b"] and not m["cur"] and re.fullmatch(r"(?:19|20)\d\d", m["a"]) and not sign:
            continue  # a year standing alone
        if not plain and not (unit or bound or m["b"] or m["cur"]):
            continue
        window = text[max(0, start - 24) : m.end() + 8]
        pct = _PERCENTILE.search(window)
        end = stop
        while end > start and flat[end - 1] == " ":
            end -= 1
        out.append(
            Quantity(
                text[start:end],
                start,
                end,
                low * factor,
                high * factor,
                "$" if m["cur"] else unit,
                _direction(sign, before, after) if unit in {"%", "×"} or sign else 0,
                bound,
                f"P{pct[1]}" if pct else "",
                _metric(before, after, unit),
            )
        )
    return out


def number_tokens(text: str) -> list[str]:
    """Every numeral as written, dates, ids and versions included, full-width folded: the currency of the round-trip comparison."""
    return re.findall(r"\d+(?:[.,]\d+)*", narrow(text))
