"""The fixed words of the ledger: evidence levels, origins, statuses, dispositions, relations, gaps, contradiction types.

Each table maps a canonical name to (Chinese, English). Records store canonical names only; renderers look the words up here.
"""

from __future__ import annotations

import re

LEVELS: dict[int, tuple[str, str]] = {
    0: ("搜索线索级", "lead only"),
    1: ("转述级", "retelling"),
    2: ("TLDR / 摘要流级，未读正文", "TLDR card or feed abstract, body not read"),
    3: ("摘要页已核，未读全文", "abstract page checked, full text not read"),
    4: ("已读全文", "full text read"),
    5: ("已读全文并查看代码或数据", "full text read, artefact inspected"),
}
ORIGINS: dict[str, tuple[str, str]] = {
    "author": ("作者自报", "author-reported"),
    "vendor": ("厂商口径", "vendor"),
    "production": ("生产数据", "production report"),
    "third_party": ("第三方", "third party"),
    "own_run": ("自测", "own run"),
    "unknown": ("来源不明", "unknown"),
}
STATUSES: dict[str, tuple[str, str]] = {
    "net_new": ("NET-new", "NET-new"),
    "update": ("实质更新", "material update"),
    "adjacent": ("邻接", "adjacent"),
    "anchored": ("已锚入", "anchored"),
    "pending": ("待锚入", "pending"),
    "duplicate": ("重复", "duplicate"),
    "same_origin": ("同源复述", "same origin"),
    "off_topic": ("非本主题", "off topic"),
    "too_thin": ("证据过薄", "too thin"),
    "register_only": ("仅登记", "register only"),
    "to_verify": ("P0 待核实", "to verify (P0)"),
}
RELATIONS: dict[str, tuple[str, str]] = {
    "fills_gap": ("补空位", "fills a gap"),
    "extends": ("延伸", "extends"),
    "complements": ("互补", "complements"),
    "competes": ("竞争", "competes"),
    "quantifies": ("量化补充", "quantifies"),
    "contradicts": ("冲突", "contradicts"),
    "background": ("背景锚点", "background anchor"),
    "same_family": ("同族", "same family"),
}
FORMS: dict[str, tuple[str, str]] = {
    "subsection": ("新增小节", "new subsection"),
    "paragraph": ("新增一段", "paragraph"),
    "sentence": ("补一句", "one sentence"),
    "cross_reference": ("交叉引用", "cross-reference"),
    "open_question": ("开放问题", "open question"),
    "merge": ("与现有条目合并", "merge with the existing entry"),
    "none": ("不单独立条", "no entry of its own"),
}
GAPS: dict[str, tuple[str, str]] = {
    "alpha": ("接受率 α", "acceptance rate α"),
    "accuracy_cost": ("精度代价", "accuracy cost"),
    "ablation": ("分离消融", "ablation"),
    "baseline_generation": ("基线代际", "baseline generation"),
    "normalisation": ("归一化口径", "normalisation"),
    "code": ("代码", "code"),
    "scale": ("规模", "scale"),
    "hardware": ("硬件", "hardware"),
    "variance": ("方差或样本数", "variance or sample size"),
    "data_size": ("数据量", "data size"),
}
CONFLICTS: dict[str, tuple[str, str]] = {
    "scope": ("适用范围过窄", "scope too narrow"),
    "maturity": ("工程成熟度未知", "engineering maturity unknown"),
    "open_source": ("称开源但无仓库", "open source asserted without a repository"),
    "deployability": ("可部署性未评估", "deployability not assessed"),
    "disagreement": ("两处说法不一", "two sources disagree"),
    "version_lines": ("版本线混用", "version lines mixed"),
    "baseline": ("基线代际不符", "baseline generation mismatch"),
    "different_kinds": ("两种不同性质的优化", "two different kinds of optimisation"),
    "common_gap": ("共同空洞", "common gap"),
    "same_origin": ("同源复述，不构成交叉验证", "same-origin retelling, not independent"),
    "card_conflict": ("论文卡自相矛盾", "card conflicts with itself"),
    "duplicate_cards": ("一号两卡", "two cards for one id"),
    "acronym": ("同名缩写", "one short name, several works"),
    "title": ("标题错挂", "mis-attached title"),
    "density": ("证据密度", "evidence density"),
    "other": ("待核实", "to be verified"),
}
GRADES: dict[int, tuple[str, str]] = {
    1: ("低", "low"),
    2: ("中-低", "mid-low"),
    3: ("中", "middle"),
    4: ("中-高", "mid-high"),
    5: ("高", "high"),
}
ASPECTS: dict[str, tuple[str, str]] = {
    "source": ("来源", "source"),
    "metadata": ("元数据", "bibliographic data"),
    "numbers": ("数字", "numbers"),
    "conclusion": ("结论", "conclusion"),
}
REASONS: dict[str, tuple[str, str]] = {
    "peer_reviewed": ("同行评审", "peer-reviewed"),
    "affiliation_stated": ("机构写明", "affiliation stated"),
    "no_code": ("无代码", "no code"),
    "simulated": ("仅模拟", "simulated only"),
}
KINDS: dict[str, tuple[str, str]] = {
    "inbox_note": ("收件箱笔记", "inbox note"),
    "radar_round": ("radar 轮次", "radar round"),
    "critical_read": ("批判性阅读", "critical read"),
    "rss_batch": ("RSS 批次", "RSS batch"),
    "blog_discovery": ("博客发现", "blog discovery"),
    "engineering_digest": ("工程简报", "engineering digest"),
    "social_post": ("社媒帖", "social post"),
    "paper_card": ("论文卡", "paper card"),
    "work_queue": ("工作队列", "work queue"),
    "sibling_brief": ("兄弟主题简报", "sibling brief"),
    "earlier_brief": ("历史简报", "earlier brief"),
    "living_document": ("活文档", "living document"),
    "bibliography": ("文献库", "bibliography"),
    "unreadable": ("无法读取", "unreadable"),
}
VERDICTS = ("untested", "reproduced", "partly", "refuted", "inconclusive", "not_testable_here")

# words by which a collector says how far the reading went; the strongest claim that is not negated wins
_READ_WORDS: tuple[tuple[int, str], ...] = (
    (5, r"(?:已)?(?:查看|检查|跑通|运行)(?:了)?(?:代码|仓库|数据)|inspected the (?:code|data|repository)|artefact inspected"),
    (
        4,
        r"(?:已读|通读|精读)(?:了)?(?:全文|正文|PDF)|全文已读|正文已(?:读|核)|"
        r"full text (?:was )?read|read (?:in full|the (?:full )?(?:paper|PDF|text))",
    ),
    (3, r"摘要页已?核|摘要页核查|abstract page (?:was )?(?:checked|verified|read)"),
    (2, r"TLDR|摘要级|摘要流|RSS|feed abstract|abstract level"),
    (1, r"转述|二手|摘编|second-?hand|retelling|digest"),
    (0, r"搜索线索|线索级|登录墙|未获取正文|正文未获取|search snippet|login wall|lead only|body not obtained"),
)
_READ = [(n, re.compile(rx, re.IGNORECASE)) for n, rx in _READ_WORDS]
_NEGATION = re.compile(r"(?:未|没有|没|不|尚未|not|never|un)\s*$", re.IGNORECASE)

# what a source of a kind can vouch for at most when its text says nothing else: a card stays a card however often it is stored
KIND_CAP: dict[str, int] = {
    "inbox_note": 1,
    "radar_round": 1,
    "critical_read": 3,
    "rss_batch": 2,
    "blog_discovery": 1,
    "engineering_digest": 1,
    "social_post": 0,
    "paper_card": 2,
    "work_queue": 0,
    "sibling_brief": 1,
    "earlier_brief": 1,
    "living_document": 1,
    "bibliography": 0,
    "unreadable": 0,
}


def word(table: dict, key: object, language: str) -> str:
    """The word for a canonical name; unknown names come back as they are."""
    pair = table.get(key)
    return str(key) if pair is None else pair[1 if language == "en" else 0]


def stated_level(text: str) -> tuple[int, str] | None:
    """(level, words) a text claims for its own reading, or None. Negated words (`未读全文`) do not count; the lowest limit wins
    when both a lead and a retelling are named, the highest among true readings otherwise."""
    best: tuple[int, str] | None = None
    for level, rx in _READ:
        for m in rx.finditer(text):
            if _NEGATION.search(text[max(0, m.start() - 4) : m.start()]):
                continue
            if best is None:
                best = (level, m[0])
            break
    return best


def opening_level(kind: str, text: str) -> tuple[int, str]:
    """(level, quote) of the reading a source of this kind made itself. Only a critical read can vouch for more than its kind's cap."""
    said = stated_level(text)
    cap = KIND_CAP[kind]
    if said is None:
        return min(cap, 1) if kind == "critical_read" else cap, ""
    if kind == "critical_read":
        return said
    return min(said[0], cap), said[1]
