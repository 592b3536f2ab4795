"""The words that mark sections and fields in briefs and notes, Chinese and English, and what they are called here."""

from __future__ import annotations

import re

# canonical section kind -> words in its heading; the first match in this order wins
SECTIONS: dict[str, str] = {
    "source_total": r"来源汇总|source totals",
    "source": r"来源清单|sources checked|checked sources",
    "rejection": r"判定无显著|不建议入库|无增量|no increment|do not store|not stored",
    "adjacent": r"邻接预备|邻接(?:件|条)|adjacent",
    "contradiction": r"矛盾|待核实说法|contradiction|claims? to verify",
    "carry_over": r"沿用件|carried over|carry-?over",
    "citable": r"可引用|citable|arXiv ids",
    "summary": r"小结|round summary",
    "handle": r"抓手|handles",
    "increment": r"增量|increments",
    "status": r"^状态$|^status$",
    "kept": r"原文保留|kept as quoted",
    "note": r"要点|key points",
}
_SECTIONS = [(k, re.compile(rx, re.IGNORECASE)) for k, rx in SECTIONS.items()]
NUMBERED_KINDS = {"contradiction", "citable", "handle", "rejection", "adjacent", "source", "other", "carry_over", "note"}
BULLET_KINDS = {
    "source",
    "source_total",
    "citable",
    "carry_over",
    "rejection",
    "contradiction",
    "handle",
    "status",
    "adjacent",
    "kept",
    "other",
    "note",
}

# canonical field -> labels as they are written in front of a colon
FIELDS: dict[str, str] = {
    "source": r"来源|source|sources",
    "links": r"(?:[\w-]+\s+)?链接|来源链接|links?|github|repository|仓库",
    "venue": r"会议|venue|期刊|journal",
    "authors": r"作者|authors?|author",
    "affiliation": r"机构|affiliations?",
    "dates": r"日期|dates?|published|updated",
    "credibility": r"可信度|credibility",
    "level": r"证据级别|evidence level",
    "origin": r"数字来源|origin",
    "points": r"要点(?:（[^）]*）|\([^)]*\))?|key points(?:\s*\([^)]*\))?|points",
    "claims": r"关键数字|key numbers|claims",
    "defects": r"核心缺陷(?:（[^）]*）)?|critic's defects|defects",
    "verdict": r"批评者判断|critic's verdict",
    "relation": r"与活文档(?:现有)?脉络的关系|relation to the document|relation",
    "placement": r"建议归入节?|suggested (?:section|place)|placement",
    "status": r"状态|status",
    "priority": r"优先级|priority",
    "boundary": r"证据边界(?:（[^）]*）)?|evidence boundary(?:\s*\([^)]*\))?|boundary",
    "missing": r"缺失证据|missing evidence|missing",
    "batch": r"批次|batch",
    "purpose": r"用途|purpose",
    "convention": r"证据口径|evidence convention",
    "background": r"背景|background",
    "instance": r"实例|instance",
    "generated": r"生成时间|generated(?: at)?",
    "window": r"窗口期|window",
    "baseline": r"基线活文档|baseline(?: document)?",
    "nature": r"本棒性质|nature of (?:the|this) round",
    "character": r"本棒特征|character of (?:the|this) round",
    "counts": r"增量条数|counts",
    "net_new_ids": r"涉及 arXiv 号|net-new arXiv ids",
    "title": r"标题|title",
    "arxiv": r"arxiv",
    "action": r"建议动作|suggested action|action",
    "class": r"主分类|分类|class|category",
    "tldr": r"tldr|一句话",
    "citations": r"被引|citations",
    "parties": r"各方|parties",
    "consequence": r"后果|consequence",
    "reason": r"原因|理由|reason",
}
FIELD_OF: dict[str, str] = {w: k for k in FIELDS for w in (k,)}
_LABEL = re.compile(
    r"(?:(?<=^)|(?<=[\s；;•·|（(*]))(?:\*\*)?(?P<label>"
    + "|".join(f"(?P<{k}>{rx})" for k, rx in FIELDS.items())
    + r")(?:\*\*)?\s*(?:[：:])(?:\*\*)?(?!//)\s*",
    re.IGNORECASE,
)
# labels that may start in the middle of a line; all others only count at its beginning
_MIDLINE = {
    "links",
    "status",
    "placement",
    "generated",
    "window",
    "baseline",
    "batch",
    "boundary",
    "priority",
    "character",
    "level",
}
_COLUMNS = {
    "#": "rank",
    "条目": "item",
    "item": "item",
    "arxiv": "arxiv",
    "来源": "source",
    "source": "source",
    "状态": "status",
    "status": "status",
    "分类": "class",
    "class": "class",
    "价值": "value",
    "value": "value",
}
_BARE = re.compile(
    r"^(?:状态|沿用件(?:（[^）]*）)?|已检查\s*/\s*(?:已|未)纳入.*|status|carried over.*|checked\s*/\s*(?:not )?included.*)$",
    re.IGNORECASE,
)
_FOOTER = re.compile(
    r"只?仅?写(?:此|本)?(?:一)?文件|未(?:改动|联网)|检查\s*\d+\+?\s*(?:个)?来源|only this file|no network|sources checked:",
    re.IGNORECASE,
)


def section_kind(title: str) -> str:
    """Canonical kind of a section heading, empty when unknown."""
    return next((k for k, rx in _SECTIONS if rx.search(title)), "")


def bare_heading(line: str) -> bool:
    """A heading without any mark of its own, known by its words only."""
    return bool(_BARE.match(line.strip()))


def find_labels(text: str) -> list[tuple[int, int, str, str]]:
    """(label start, body start, canonical key, label as written) for every `label:` in a line."""
    out = []
    for m in _LABEL.finditer(text):
        key = next(k for k in FIELDS if m.group(k))
        if key not in _MIDLINE and text[: m.start()].strip(" \t•*-–·✅>"):
            continue
        out.append((m.start(), m.end(), key, m["label"]))
    return out


def column(title: str) -> str:
    """Canonical column name of a table heading."""
    return _COLUMNS.get(title.strip().lower(), title.strip().lower())


def table_heading(line: str) -> bool:
    """The heading of a table whose bars were lost: `# item arXiv source status`."""
    words = line.strip().lower().split()
    return len(words) >= 3 and words[0] == "#" and all(w in _COLUMNS for w in words)


def is_footer(text: str) -> bool:
    """An integrity statement or a signature with counters."""
    return bool(_FOOTER.search(text))
