"""The sentences of a brief that are ours, in both languages. Everything else in a brief is quoted from records."""

from __future__ import annotations

_P: dict[str, tuple[str, str]] = {
    "title": ("{topic} · E1 预消化简报（{date}）", "{topic} · E1 pre-digestion brief ({date})"),
    "instance": ("实例", "instance"),
    "topic": ("主题", "topic"),
    "batch": ("批次", "batch"),
    "generated": ("生成时间", "generated at"),
    "window": ("窗口期", "window"),
    "baseline": ("基线活文档", "baseline document"),
    "baseline_text": ("{path}（更新标注：{note}；引 {ids} 个编号；sha256 {sha}）", "{path} (update note: {note}; cites {ids} ids; sha256 {sha})"),
    "no_baseline": ("无（未读到活文档）", "none (no living document was read)"),
    "no_note": ("无", "none"),
    "files": ("{n} 份材料，全部处理", "{n} files, all processed"),
    "by_producer": ("按来源：{text}", "by producer: {text}"),
    "purpose": ("用途", "purpose"),
    "purpose_text": (
        "为今晚 {topic} 主题活文档更新备料（只写本文件，不改活文档）",
        "material for tonight's update of the living document on {topic} (writes only this file, not the document)",
    ),
    "convention": ("证据口径", "evidence convention"),
    "convention_text": (
        "全部增量仅来自本批材料原文；材料自身的核验边界如实转述，不升级为事实；作者与厂商的说法始终标为主张。",
        "all increments come from this batch only; what the material says about its own limits is passed on, never upgraded; "
        "what authors and vendors say stays marked as a claim.",
    ),
    "background": ("背景", "background"),
    "queue_text": (
        "{path}（{time}）：待建卡 {cards} 件、待更新活文档 {documents} 个（{ages}）、选题 {topics} 件；本主题{fired}触发",
        "{path} ({time}): {cards} cards to build, {documents} documents to update ({ages}), {topics} topics; this topic {fired} fire",
    ),
    "fired": ("已", "did"),
    "not_fired": ("未", "did not"),
    "age": ("{name} {days} 天", "{name} {days} days"),
    "status": ("状态", "Status"),
    "counts": ("增量条数", "counts"),
    "counts_text": (
        "主增量 {main}（其中 NET-new {new}、实质更新 {update}）；邻接 {adjacent}",
        "main {main} (NET-new {new}, material update {update}); adjacent {adjacent}",
    ),
    "nature": ("本棒性质", "nature of this round"),
    "net_new_ids": ("涉及 arXiv 号", "net-new arXiv ids"),
    "net_new_text": ("净增 {n} 件{list}", "{n} new{list}"),
    "sources": ("本棒检查过的来源清单", "Sources checked"),
    "increments_D": ("最重要的 {n} 条主增量", "The {n} main increments"),
    "increments_B": ("今日最重要的 {n} 条增量", "The {n} most important increments today"),
    "increment": ("增量", "Increment"),
    "adjacent": ("{n} 条邻接预备供今晚参考", "{n} adjacent items for tonight"),
    "contradictions": ("值得警惕的矛盾或待核实说法", "Contradictions and claims to verify"),
    "citable": ("可引用的 arXiv 号列表（{n} 件）", "Citable arXiv ids ({n})"),
    "carried": ("沿用件（历史简报未了结）", "Carried over (open from earlier briefs)"),
    "summary": ("本棒小结", "Round summary"),
    "totals": ("检查过的来源汇总", "Source totals"),
    "included": ("已检查 / 已纳入本棒", "Checked / included"),
    "not_included": ("已检查 / 未纳入（附理由）", "Checked / not included (with reason)"),
    "rejections": ("已检查但判定无显著新增量 / 不建议入库", "Checked, no increment / do not store"),
    "handles": ("给今晚活文档更新的抓手（建议，不代替 {owner} 判断）", "Handles for tonight (advice, {owner} decides)"),
    "kept": ("原文保留（版式未收的部分）", "Kept as quoted (parts this layout has no place for)"),
    "source": ("来源", "source"),
    "links": ("链接", "links"),
    "venue": ("会议", "venue"),
    "dates": ("日期", "dates"),
    "authors": ("作者", "authors"),
    "affiliation": ("机构", "affiliation"),
    "affiliation_stated": ("（材料写明）", " (stated)"),
    "affiliation_none": ("材料未写明", "not stated"),
    "category": ("类别", "category"),
    "code": ("代码", "code"),
    "withheld": ("暂不引用（版本线未标清）", "withheld (version line not named)"),
    "affiliation_inferred": ("（推断）", " (inferred)"),
    "credibility": ("可信度", "credibility"),
    "level": ("证据级别", "evidence level"),
    "points": ("要点", "key points"),
    "claims": ("关键数字", "key numbers"),
    "defects": ("核心缺陷", "critic's defects"),
    "verdict": ("批评者判断", "critic's verdict"),
    "relation": ("与活文档脉络的关系", "relation to the document"),
    "placement": ("建议归入", "suggested place"),
    "status_label": ("状态", "status"),
    "priority": ("优先级", "priority"),
    "boundary": ("证据边界（须随段落保留）", "evidence boundary (must stay with the paragraph)"),
    "missing": ("缺失证据", "missing evidence"),
    "action": ("建议动作", "action"),
    "parties": ("各方", "parties"),
    "consequence": ("后果", "consequence"),
    "none_source": ("无（{source}）", "none ({source})"),
    "col_item": ("条目", "item"),
    "col_arxiv": ("arXiv", "arXiv"),
    "col_source": ("来源", "source"),
    "col_status": ("状态", "status"),
    "col_class": ("分类", "class"),
    "col_value": ("价值", "value"),
    "summary_text": ("净增量 = 主增量 {main} 条 + 邻接 {adjacent} 条", "net increment = {main} main + {adjacent} adjacent"),
    "compare": (
        "与上一份简报 {name} 对照：上次主增量 {before} 条，本次 {now} 条；沿用未了结 {carried} 件",
        "compared with {name}: {before} main then, {now} now; {carried} carried over",
    ),
    "compare_none": ("与上一份简报对照：没有更早的简报", "compared with the previous brief: there is none"),
    "character": ("本棒特征", "character of this round"),
    "memory": (
        "本批材料未给出其他 arXiv 编号；材料未给的编号、作者与数字不凭记忆补写。",
        "the material gives no other arXiv ids; ids, authors and numbers it does not give are not supplied from memory.",
    ),
    "none": ("无", "none"),
    "nothing": ("本批没有通过的条目；不凑数。", "nothing passed in this batch; no padding."),
    "footer_sources": (
        "检查 {n} 个来源（{text}）· 纳入 {included} · 未纳入 {excluded} · 主增量 {main} · 邻接 {adjacent} · 矛盾 {conflicts} · 登记编号 {ids}",
        "sources checked: {n} ({text}) · included {included} · not included {excluded} · main {main} · adjacent {adjacent} · "
        "contradictions {conflicts} · ids {ids}",
    ),
    "footer_integrity": (
        "本文件为 E1 预消化产物，仅写此一文件；活文档、清单、基线、队列、认领记录与定时配置均未改动；"
        "未联网；未为凑数补写；材料中的指令性文本未被执行（已标记 {orders} 处）。",
        "written by the E1 step: only this file; document, lists, baseline, queue, claims of work and schedule untouched; "
        "no network; nothing padded; "
        "instruction-like text in the material was not acted on ({orders} passages flagged).",
    ),
    "density": ("本批证据密度：{levels}。{fit}", "evidence density of this batch: {levels}. {fit}"),
    "density_low": (
        "适合作为值得排队精读的候选清单，不适合作为趋势已确立的证据。",
        "fit as a queue of things worth reading closely, not as evidence of an established trend.",
    ),
    "density_high": (
        "多数增量的主张已读到全文，可作对照引用；数字仍需与设置一并引用。",
        "most claims rest on full text; numbers still have to be cited with their setting.",
    ),
    "claim_mark": ("{origin}；证据级别 {level}", "{origin}; evidence level {level}"),
    "independent": ("独立来源 {n} 个（同源复述不计）", "{n} independent origin(s) (retellings not counted)"),
    "advice": ("建议", "advice"),
    "merged": ("一条增量并入 {n} 个来源", "one increment merges {n} sources"),
    "measured": ("实测", "measured"),
    "simulated": ("模拟", "simulated"),
}


def say(key: str, language: str, **values: object) -> str:
    """The phrase in a language, with its places filled."""
    return _P[key][1 if language == "en" else 0].format(**values)


def ordinal(n: int, language: str) -> str:
    """Section number as it stands in a heading: `一、` or `One — `."""
    if language == "en":
        return _ENGLISH[n - 1] + " — "
    return ("十" * (n > 9) + "一二三四五六七八九十"[(n - 1) % 10] if n != 10 else "十") + "、"


_ENGLISH = ("One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten", "Eleven", "Twelve")
