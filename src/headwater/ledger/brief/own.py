"""Sentences of our own briefs, worded from codes: contradictions, handles, source lines, rejections, carry-overs, id lines."""

from __future__ import annotations

from typing import TypeVar

from headwater.ledger.brief.phrases import say
from headwater.ledger.brief.view import View
from headwater.ledger.digest.compose import identifier
from headwater.ledger.records import Adjacent, CarryOver, Citable, Contradiction, Handle, Rejection, SourceLine, Statement
from headwater.ledger.vocabulary import CONFLICTS, GAPS, LEVELS, STATUSES, word

# conflict -> (why it matters, what follows until it is solved, what to do), Chinese and English
_WHY: dict[str, tuple[tuple[str, str, str], tuple[str, str, str]]] = {
    "version_lines": (
        ("两条版本线并存且互不标注", "标清之前，跨版本线的领先或落后都无法判断说的是哪个版本", "先统一标注版本线，再比较"),
        (
            "two version lines stand side by side unlabelled",
            "until they are labelled, no comparison across them can be checked",
            "label the version lines first, then compare",
        ),
    ),
    "disagreement": (
        ("同一指标、同一设置下数值不同", "未消解前两边并列，不取其一", "回到原文核对设置与定义"),
        ("one metric in one setting has different values", "both sides stand until it is settled", "check setting and definition in the text itself"),
    ),
    "same_origin": (
        ("多份材料指向同一出处", "只计一个独立来源，不算新证据", "如需印证，找独立测量"),
        ("several files go back to one origin", "it counts as one origin, not as confirmation", "look for an independent measurement"),
    ),
    "open_source": (
        ("称已开源，材料未给仓库", "未见仓库前按无代码处理", "核实仓库名"),
        ("said to be open source, no repository is named", "treated as without code until one is", "find the repository"),
    ),
    "duplicate_cards": (
        ("同一编号建了两张卡", "被引与阅读记录会分裂", "合并卡片"),
        ("two cards carry one id", "readings and counts get split", "merge the cards"),
    ),
    "title": (
        ("同一编号出现两个标题", "以可核的标题为准，另一个保留备查", "改正卡片标题"),
        ("one id appears under two titles", "the checkable title is used, the other is kept", "correct the card's title"),
    ),
    "card_conflict": (
        ("卡片字段互相矛盾或被引不一", "两边并存，不作定量引用", "更新卡片字段"),
        ("fields of the card, or citation counts, contradict each other", "both are kept, neither is quoted as a number", "update the card"),
    ),
    "acronym": (
        ("同一缩写指不同工作", "单独出现时无法判断所指", "写全称或编号"),
        ("one short name stands for different works", "alone it does not say which", "write the full name or the id"),
    ),
    "different_kinds": (
        ("一类只加速、保持输出分布，另一类改变输出", "合并叙述会被读成都是无损加速", "分成「降延迟」与「保分布」两条轴"),
        (
            "one kind keeps the output distribution, the other changes it",
            "told as one, both read as lossless",
            "keep the latency axis and the distribution axis apart",
        ),
    ),
    "common_gap": (
        ("几条增量都没有报告同一项", "不是矛盾，是共同空洞", "作为一次定向补证：读正文抽取该项"),
        (
            "several increments leave the same thing out",
            "not a contradiction but a common gap",
            "one directed reading task: extract it from the full texts",
        ),
    ),
}


T = TypeVar("T")


def _pick(pair: tuple[T, T], lang: str) -> T:
    return pair[1 if lang == "en" else 0]


def _brackets(text: str, lang: str) -> str:
    return f" ({text})" if lang == "en" else f"（{text}）"


def contradiction(c: Contradiction, lang: str) -> str:
    """Kind, subject, both sides, reason, consequence, action; a foreign brief's text as it stood."""
    if not c.title:
        return f"{c.reason}→ {c.action}" if c.action else c.reason
    stop, colon, semi = (". ", ": ", "; ") if lang == "en" else ("。", "：", "；")
    subject = word(GAPS, c.title, lang) if c.conflict == "common_gap" else c.title
    why, then, todo = _pick(_WHY[c.conflict], lang)
    text = f"**{word(CONFLICTS, c.conflict, lang)}{colon}{subject}**{stop}{why}{stop}{say('parties', lang)}{colon}{semi.join(c.parties)}{stop}"
    if c.consequence:
        text += f"{say('source', lang)}{colon}{c.consequence}{stop}"
    where = " / ".join(f"§{s}" for s in c.sections)
    return f"{text}{then}{stop}".rstrip() + f" → {todo}{_brackets(where, lang) if where else ''}"


def handle(h: Handle, lang: str) -> str:
    """One piece of advice."""
    where = " / ".join(f"§{s}" for s in h.sections)
    advice, _, conflict = h.advice.partition(":")
    subject = word(GAPS, h.subject, lang) if advice == "read" else f"{word(CONFLICTS, conflict, lang)} {h.subject}" if conflict else h.subject
    if lang == "en":
        text = {
            "repair": f"Repair first: {subject}; only then add anything new.",
            "anchor": f"Anchor {subject}, with its boundary.",
            "read": f"One reading task: {subject}, from the full texts.",
        }[advice]
    else:
        text = {
            "repair": f"先修再加：{subject}；修好之前不加新条目。",
            "anchor": f"锚入 {subject}，限定语随段保留。",
            "read": f"定向补读：{subject}，从正文抽取。",
        }[advice]
    return f"{text} ({where})" if where and lang == "en" else f"{text}（{where}）" if where else text


def source(s: SourceLine, lang: str) -> str:
    """Path, time, gist, yield (zero is said), salience."""
    found = f"本主题 {s.yielded or 0} 件" if lang == "zh" else f"{s.yielded or 0} for this topic"
    bits = [b for b in (s.timestamp, s.gist, found) if b]
    if s.salience:
        bits.append(f"本棒最关键源之{'一二三四'[s.salience - 1]}" if lang == "zh" else f"most important source no. {s.salience}")
    return f"{s.path} — {' · '.join(bits)}"


def total(s: SourceLine, lang: str) -> str:
    """Path with what was found in it, by disposition; for one that is not included this is the reason."""
    joint = "、" if lang == "zh" else ", "
    counts = joint.join(f"{word(STATUSES, k, lang)} {n}" for k, n in s.found.items())
    baseline = {"living_document": ("基线", "baseline"), "earlier_brief": ("参照", "reference"), "work_queue": ("队列", "queue")}.get(s.source_kind)
    text = counts or (_pick(baseline, lang) if baseline else ("本主题 0 件" if lang == "zh" else "nothing for this topic"))
    return s.path + _brackets(text + (f"; {s.reason}" if s.reason else ""), lang)


def rejection(r: Rejection, lang: str) -> str:
    """Title, file, status and reason; for a duplicate the brief and number."""
    reason = word(STATUSES, r.status, lang)
    if r.ref_brief:
        reason += f"：已在 {r.ref_brief} 第 {r.ref_number} 条" if lang == "zh" else f": covered in {r.ref_brief} no. {r.ref_number}"
    elif r.reason:
        reason += ("：" if lang == "zh" else ": ") + r.reason
    return f"{r.title}{_brackets(r.source, lang)}{'：' if lang == 'zh' else ': '}{reason}"


def carried(c: CarryOver, lang: str) -> str:
    """Title, where it was first seen, state, age."""
    state = word(STATUSES, c.state, lang)
    if lang == "en":
        return f"{c.title} (first seen {c.first_brief}; {state}; {c.age_days} days)"
    return f"{c.title}（首见 {c.first_brief}；{state}；{c.age_days} 天）"


def group(code: str, lang: str) -> str:
    """Heading of a group of ids."""
    names = {
        "direct": ("本批直接涉及", "directly involved"),
        "adjacent": ("邻接", "adjacent, seen on the way"),
        "register": ("已检查，仅登记", "checked, register only"),
    }
    return _pick(names[code], lang)


def citable(c: Citable, view: View) -> str:
    """Id, title, facts, and the level at which anything about it was read."""
    levels = [
        view.levels[i]
        for p in view.increments
        if set(c.works) & set(p.works)
        for i in p.claims
        if i in view.levels and view.claims[i].work in c.works
    ]
    level = word(LEVELS, max(levels), view.language) if levels else ""
    note = " · ".join(b for b in (c.note, level) if b)
    return f"{c.text} — {c.title or say('none', view.language)}" + (_brackets(note, view.language) if note else "")


def queue(s: Statement, lang: str) -> str:
    """What the work queue says."""
    v = s.values
    ages = [say("age", lang, name=k[4:], days=n) for k, n in v.items() if k.startswith("age ")]
    return say(
        "queue_text",
        lang,
        path=v["path"],
        time=v["time"] or "-",
        cards=v["cards"],
        documents=v["documents"],
        topics=v["topics"],
        ages=("、" if lang == "zh" else ", ").join(ages) or say("none", lang),
        fired=say("fired" if v["fired"] == "1" else "not_fired", lang),
    )


def compare(view: View) -> str:
    """Comparison with the previous brief on the topic."""
    found = view.said("compare")
    if not found:
        return say("compare_none", view.language)
    v = found[0].values
    return say(
        "compare",
        view.language,
        name=v["name"],
        before=v["before"],
        now=len(view.increments),
        carried=sum(c.state == "pending" for c in view.carried),
    )


def character(view: View) -> str:
    """The round in counts: how many items rest on measured numbers, how many conflicts are repairs."""
    typed = sum(any(view.claims[c].amount for c in i.claims if c in view.claims) for i in view.increments)
    repairs = sum(c.priority == "P0" for c in view.contradictions)
    if view.language == "en":
        return (
            f"{typed} of {len(view.increments)} main items carry typed numbers; {len(view.contradictions)} contradictions, {repairs} of them repairs"
        )
    return f"{len(view.increments)} 条主增量中 {typed} 条带可键入的数字；矛盾 {len(view.contradictions)} 条，其中须先修 {repairs} 条"


def adjacent_id(a: Adjacent, lang: str) -> str:
    """The id, or `none` with where the item comes from: works without an id are first-class."""
    if a.identifier:
        return a.identifier
    host = next((identifier(w).split("/")[0] for w in a.works if identifier(w)), "")
    return say("none_source", lang, source=host) if host else say("none", lang)
