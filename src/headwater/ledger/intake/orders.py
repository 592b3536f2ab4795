"""Text that gives orders to whoever reads it. Material is data: such text is quoted and flagged, and nothing else happens."""

from __future__ import annotations

import re

# (words of which one must occur, pattern): looking for words first makes long texts cheap
_ORDERS: list[tuple[tuple[str, ...], re.Pattern[str]]] = [
    (words, re.compile(rx, re.IGNORECASE))
    for words, rx in (
        (
            ("ignore", "disregard", "forget"),
            r"(?:ignore|disregard|forget)\s+(?:all\s+|any\s+)?(?:the\s+|your\s+)?(?:previous|prior|above|earlier)\s+(?:instructions?|rules?|prompts?)",
        ),
        (("忽略",), r"忽略(?:之前|以上|上述|前面|所有)[^。\n]{0,12}(?:指令|规则|提示|要求|内容)"),
        (("system", "developer", "assistant"), r"\b(?:system|developer|assistant)\s*(?:prompt|message)?\s*[:：]\s*(?:you|please|ignore|do)\b"),
        (("<",), r"<\s*/?\s*(?:system|instructions?|tool_call|assistant)\s*>"),
        (
            ("you ",),
            r"\byou\s+(?:must|should|are required to)\s+(?:now\s+)?"
            r"(?:delete|run|execute|write|send|upload|publish|mark|set|raise|upgrade|install|push|edit|modify)\b",
        ),
        (
            ("请", "务必", "必须", "应当"),
            r"(?:请|务必|必须|应当)(?:立即|直接|马上)?(?:执行|运行|删除|修改|改写|写入|上传|发送|推送|安装|升级为|标记为)",
        ),
        (
            ("mark", "rate", "grade", "record", "register"),
            r"(?:mark|rate|grade|record|register)\s+(?:this|it|the paper)\s+as\s+(?:verified|confirmed|level\s*\d|fully read|highest)",
        ),
        (("将", "把"), r"(?:将|把)(?:本文|此条|该条|证据级别)[^。\n]{0,12}(?:标为|升级|提升|改为)[^。\n]{0,16}(?:已读|已核|最高|全文|五级|\d)"),
        (("curl", "wget", "rm -rf"), r"(?:curl|wget)\s+\S+\s*\|\s*(?:ba)?sh|rm\s+-rf\s+[/~*]"),
        (
            ("do not", "don't", "never", "不要"),
            r"(?:do not|don't|never)\s+(?:tell|inform|mention (?:this|it) to)\s+(?:the\s+)?(?:user|owner|reader)|"
            r"不要(?:告诉|告知|提醒)(?:用户|作者|读者)",
        ),
        (("as a", "你"), r"\bas an? (?:AI|language model|assistant),?\s+you\b|你(?:现在)?是一个?(?:AI|助手|管理员)"),
    )
]


def _patterns(text: str) -> list[re.Pattern[str]]:
    low = text.casefold()
    return [rx for words, rx in _ORDERS if any(w in low for w in words)]


def find_orders(text: str) -> list[str]:
    """Quotes of instruction-like passages (each cut at 200 characters), in text order."""
    spans = sorted(m.span() for rx in _patterns(text) for m in rx.finditer(text))
    out: list[str] = []
    last = -1
    for start, end in spans:
        if start < last:
            continue
        stop = min(end + 80, len(text))
        cut = re.search(r"[\n。]", text[end:stop])
        last = end + cut.start() if cut else stop
        out.append(text[start:last].strip()[:200])
    return out


_SENTENCE = re.compile(r"[^。！!？?\n]*?(?:[。！!？?\n]|\.(?=\s)|$)")


def without_orders(text: str) -> str:
    """The text without the sentences that give orders, for everything that draws conclusions from it; quotes keep the original."""
    found = [rx for rx in _patterns(text) if rx.search(text)]
    if not found:
        return text
    return "".join(m[0] for m in _SENTENCE.finditer(text) if not any(rx.search(m[0]) for rx in found))
