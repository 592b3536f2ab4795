"""The vocabulary of briefs, Chinese and English: what a heading, a status, a grade or a doubt looks like in words.

Patterns only; no rule lives here. All are compiled without anchors and ignore case unless said otherwise.
"""

from __future__ import annotations

import re

_I = re.IGNORECASE


def rx(pattern: str) -> re.Pattern[str]:
    """Compile, ignoring case."""
    return re.compile(pattern, _I)


# headings -> canonical section kind; the first match wins, so the narrow ones come first
SECTION_WORDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("not_included", rx(r"未纳入|未采用|未使用|not[ -]included|excluded|not used|without yield|left out")),
    (
        "rejection",
        rx(
            r"无(?:显著)?(?:新增量|净增量|增量)|不建议入库|不入库|判定不|剔除|排除|no (?:new )?increments?|without (?:an? "
            r")?increment|do not store|not stored|reject|"
            r"not worth|set aside|discarded|declined|looked at and (?:not|rejected)"
        ),
    ),
    ("included", rx(r"已纳入|已采用|(?<!not )(?<!not-)\bincluded\b|used (?:sources|in this)")),
    ("source_total", rx(r"来源(?:汇总|统计|总计|合计)|source (?:totals?|summary|tally)|totals? of sources")),
    (
        "source",
        rx(
            r"来源清单|检查过的来源|查过的来源|已查来源|本轮来源|材料清单|^来源$|sources? (?:checked|read|reviewed|consulted|"
            r"seen)|(?:checked|read|reviewed) sources|"
            r"source list|list of sources|^sources?$|materials? (?:read|checked)|what (?:was|we) (?:read|checked)"
        ),
    ),
    ("adjacent", rx(r"邻接|旁支|相邻|adjacent|neighbou?ring items|side items")),
    ("carry_over", rx(r"沿用|遗留|结转|carried[ -]over|carry[ -]?overs?|carried forward|still open from")),
    (
        "contradiction",
        rx(
            r"矛盾|待核实|存疑|冲突|contradict|to (?:be )?verif|conflicts?\b|disputed|open questions? and|claims? (?:to check|"
            r"in doubt)|tensions?\b|caveats"
        ),
    ),
    (
        "citable",
        rx(
            r"可引用|编号列表|编号清单|arXiv\s*号|引用清单|citable|arxiv ids?\b|identifiers?\b|reference ids|\bids? (?:list|to "
            r"cite)|references? list|citations? list"
        ),
    ),
    (
        "handle",
        rx(
            r"抓手|今晚(?:动作|要做|建议)|明日(?:动作|要做)|行动(?:项|建议)|handles?\b|next steps?|action items?|to ?do\b|for "
            r"tonight$|tonight'?s? (?:tasks|moves|actions)"
        ),
    ),
    ("summary", rx(r"小结|总结|总览表|汇总表|round summary|\bsummary\b|wrap[ -]?up|recap")),
    (
        "increment",
        rx(
            r"增量|新增条目|主要条目|要闻|increments?\b|new items|main items|key items|what'?s new|main findings|top items|"
            r"headline items|main entries|new entries"
        ),
    ),
    ("status", rx(r"^(?:本轮|本批|今日|今晚|本日)?(?:状态|概况)$|^状态概览$|^status$|^at a glance$|^overview$|^status overview$")),
)
CANONICAL_TITLE = {
    "not_included": "source totals (checked / not included)",
    "included": "source totals (checked / included)",
    "rejection": "no increment",
    "source_total": "source totals",
    "source": "sources checked",
    "adjacent": "adjacent",
    "carry_over": "carried over",
    "contradiction": "contradictions",
    "citable": "citable",
    "handle": "handles",
    "summary": "round summary",
    "increment": "increments",
    "status": "status",
}

# field labels (in front of a colon) -> canonical key, wider than what the ledger stores
LABEL_WORDS: tuple[tuple[str, str], ...] = (
    ("links", r"(?:[\w.-]+\s+)?(?:来源|原文|论文|项目)?链接|links?|urls?|repo(?:sitory)?|仓库|代码仓库|GitHub"),
    ("source", r"(?:主要)?来源|出处|sources?|from|via"),
    ("venue", r"会议|期刊|发表(?:于)?|录用|venue|published (?:at|in)|conference|journal"),
    ("authors", r"作者(?:/机构|与机构)?|单位|机构|署名|authors?|affiliations?|by|institutions?"),
    ("grade", r"可信度|置信度|可靠性|可信等级|credibility|confidence|reliability|trust|grade"),
    ("level", r"证据级别|证据等级|阅读深度|evidence level|reading level|read as"),
    (
        "points",
        r"(?:核心|主要)?要点(?:\s*[（(][^）)]*[）)])?|关键(?:点|数字|指标|结果)|核心[^：:]{0,8}|(?:key |main "
        r")?points(?:\s*\([^)]*\))?|key (?:numbers|results|figures|facts)|numbers|results|claims?",
    ),
    ("relation", r"与[^：:]{0,20}关系|关系|relation(?: to [^:]{1,30})?|fits? with"),
    (
        "placement",
        r"建议(?:归入|放入|放置|位置|落点)[^：:]{0,6}|归入|suggested (?:section|place|placement)|placement|place|goes to",
    ),
    (
        "boundary",
        r"证据边界(?:\s*[（(][^）)]*[）)])?|边界|局限|evidence boundary(?:\s*\([^)]*\))?|boundary|limits?|caveats?|limitations?",
    ),
    ("missing", r"缺失证据|缺失项|缺失指标|缺证据|missing(?: evidence| metrics| numbers)?|not reported"),
    ("status", r"状态|status|state|disposition"),
    ("verdict", r"(?:[\w-]+\s*)?(?:判断|评语|裁定)|critic'?s verdict|verdict"),
    ("purpose", r"用途|purpose"),
    ("generated", r"生成(?:时间|于)|generated(?: at| on)?|written at|compiled(?: at)?"),
    ("window", r"窗口(?:期)?|时间窗|window|period|covering"),
    ("baseline", r"基线(?:活)?(?:文档)?|活文档基线|baseline(?: document)?|living document|pinned document"),
    ("convention", r"证据口径|口径|evidence convention|convention"),
)
LABEL = re.compile(
    r"(?:^|(?<=[\s；;•·|。]))(?:[*_]{1,2})?(?:"
    + "|".join(f"(?P<{k}>{w})" for k, w in LABEL_WORDS)
    + r")(?:[*_]{1,2})?\s*(?:：|:(?!//))(?:[*_]{1,2})?",
    _I,
)
MIDLINE_LABELS = {
    "links",
    "status",
    "placement",
    "generated",
    "window",
    "baseline",
    "boundary",
    "level",
    "grade",
    "source",
    "venue",
    "authors",
}

NEGATION = rx(
    r"不(?:是|能|应|会|得|再|构成|算|计|等于|代表|足以|可|作|属)?|未(?:曾|能|必|见|经)?|没有?|非|无(?!损)|尚|勿|避免|切勿|not\b|"
    r"n't\b|\bno\b|never|without|neither|nor\b|cannot|avoid|rather than|instead of|"
    r"yet to|lacks?\b|missing|fails? to"
)
QUESTIONED = rx(
    r"待(?:核|验|查|补|定)|存疑|需(?:要)?(?:核|验|实测|另|再|独立|进一步)|是否|能否|可能|或许|未必|疑|据称|声称|自称|自报|自述|号称|误读|读成|误导|"
    r"to be (?:verified|checked)|"
    r"unverified|needs? (?:to be )?(?:check|verif|independent|a second)|whether|may\b|might\b|claims?\b|claimed|alleged|"
    r"reportedly|self-reported|if confirmed|wait(?:s|ing)? for|\?|？"
)

ANCHORED = rx(
    r"已(?:经)?(?:锚入|锚定|并入|合入|收入|写入|落入)(?:了)?(?!简报|本简报)|已(?:在|于)[^，。；()（）]{0,18}(?:锚入|锚定)|"
    r"(?<!not )(?<!not yet )(?<!un)(?<!to be )(?<!be )(?<!still un)(?<!pending )(?<!await )\banchored\b(?! pending)|already "
    r"(?:in|merged|part of|covered in|recorded in) the (?:living )?(?:document|doc)\b|merged into the (?:living )?(?:document|"
    r"doc)\b"
)
PENDING = rx(
    r"待(?:锚入|锚定|并入|合入|写入|收录进活文档)|(?:仍|尚|还|均|都|依然)?未(?:被)?(?:锚入|锚定|并入|合入|写入活文档)|(?:仍|尚|还)?没有?(?:锚入|并入)|"
    r"not (?:yet )?(?:been )?anchored|un-?anchored|to be anchored|pending anchor\w*|await(?:s|ing)? anchor\w*|anchor(?:ing)? "
    r"pending|still pending|\bpending\b|not (?:yet )?(?:in|merged into) the (?:living )?(?:document|doc)\b"
)
UPDATE_NOTE = rx(
    r"更新(?:标注|说明|记录|备注)|最近更新|上次更新|update note|last updated?(?: note)?|updated with|latest additions?|newly anchored"
)
NET_NEW = rx(r"NET-?\s?new|净新增|全新条目")

CODE_OPEN = rx(
    r"(?:开源)?代码(?:已经?)?(?:已)?(?:公开|开源|发布|释出|放出)(?:了|可得)?|已开源|开源(?:代码|仓库)已(?:发布|公开)|code (?:is "
    r"|has been |was )?(?:publicly )?(?:released|public|available|published|open[- ]?sourced?)|"
    r"open[- ]?sourced?\b(?! (?:status|question|model|engine|stack|community|ecosystem|inference|tool|framework|llm|weights))|"
    r"(?:public|released) code\b|"
    r"repository (?:is )?(?:public|released|available)"
)
CODE_DOUBT = rx(
    r"(?:仓库|代码|repo)[^，。；]{0,14}(?:未(?:注明|给出|提供|公开|找到|见|核|列|附|说明)|待核|存疑|找不到|缺失)|(?:未|没有?|"
    r"无)(?:见|找到|给出|注明|提供|列出|附)?[^，。；]{0,6}(?:仓库|代码|GitHub|开源)|开源[^，。；]{0,8}待核实|"
    r"no (?:public |known |named )?(?:code|repository|repo)\b|(?:repository|repo|code)(?: name| link| location| url)? (?:is |"
    r"was |has )?(?:not|never|un|still un)\s?-?(?:been )?(?:named|found|given|linked|released|available|verified|stated|public|"
    r"located|published)|"
    r"(?:code|repository|repo) (?:was |is |has been )?(?:announced|promised),? (?:but )?not (?:yet )?(?:public|released|available|out)|"
    r"without (?:a |any )?(?:link to )?(?:a )?(?:code|repository|repo)\b|could not find (?:the |a |any )?(?:code|repo)|"
    r"(?:names?|gives?|links?) no (?:code|repository|repo)"
)

# grades in falling order; the number is the ordinal of the checklist (5 = extremely high)
GRADES: tuple[tuple[int, re.Pattern[str]], ...] = (
    (5, rx(r"极高|非常高|很高|extremely high|very high|highest|\b5\s*/\s*5\b")),
    (
        2,
        rx(
            r"中\s*[-—–~至到]\s*低|低\s*[-—–~至到]\s*中|较低|偏低|mid[- ]?(?:to[- ])?low|low[- ]?to[- ]?(?:mid|medium)|medium[- "
            r"]low|\b2\s*/\s*5\b"
        ),
    ),
    (4, rx(r"(?<!不)(?<!偏)(?<!较)(?<!中)(?<!中-)(?<!中至)高|\bhigh\b|\bstrong\b|\b4\s*/\s*5\b")),
    (4, rx(r"较高|偏高|中[-至]?高|mid[- ]?(?:to[- ])?high|medium[- ]high")),
    (3, rx(r"中等|(?<![高低])中(?!国|文|科|心)|\bmedium\b|\bmoderate\b|\bmid\b|\b3\s*/\s*5\b")),
    (1, rx(r"低|\blow\b|\bweak\b|\b1\s*/\s*5\b")),
)
STORED = rx(
    r"(?:paper[_ ]?card|卡片|论文卡|card)[^，。；;,]{0,24}(?:已?入库|已?建卡|已?存|stored|filed|on file|exists|created|"
    r"archived)|已入库|已建卡|(?:is |already )?(?:stored|filed|archived) (?:as|in) (?:a |the )?(?:card|library|card library|"
    r"notes)|"
    r"card (?:is )?(?:stored|filed|on file|exists|created|\d+ stored)|in our (?:card )?library"
)
CITED = rx(r"被引|引用(?:数|量|次数)|cited by \d|\d+ citations?|citation count|highly cited|高引")
AFFILIATION = rx(
    r"署名|机构|大学|学院|研究院|实验室|名校|大厂|出品|背书|知名(?:作者|团队)|university|institute|laborator|\blabs?\b|affiliat|"
    r"famous|well[- ]known|prestig|big[- ]name|from (?:Google|Microsoft|Meta|OpenAI|NVIDIA|Stanford|MIT|Berkeley|DeepMind)"
)

# what was read (evidence levels of the checklist): words for a level that is at most the abstract, and for the body
ABSTRACT_LEVEL = rx(
    r"摘要(?:页|级|层|水平)?|TLDR|导读|RSS|搜索(?:线索|片段)|线索级|卡片级|标题级|二手|转述|abstract(?:[- ](?:page|level|"
    r"only))?|tl;?dr|snippet|digest(?:[- ]level)?|second[- ]hand|retelling|feed (?:item|entry)|title only|card[- ]level"
)
BODY_LEVEL = rx(
    r"(?:正文|全文)(?:已|均已|都已)?(?:核查|核对|核实|核验|通读|精读|细读|阅读|读完|读过|查证|已读|已核)|(?:核查|核对|核实|通读|精读|细读|读完|读过|已读|读了)(?:了|过)?(?:其)?(?:正文|全文)|"
    r"full[- ]texts? (?:was |were |has been |have been )?(?:read|checked|verified|reviewed)|(?:read|checked|reviewed|verified) "
    r"(?:in full|the (?:full (?:text|paper)|body|whole paper))|body[- ]?(?:was )?(?:checked|read|verified)|"
    r"(?:whole|entire|full) (?:paper|pdf|article) (?:was |has been )?(?:read|checked)|full[- ]text "
    r"(?:check|reading|review)|read end to end"
)
PROVEN = rx(
    r"(?:已|已经|得到|被)(?:证实|验证|证明|确认)|证实了|证明了|验证了|坐实|确凿|无疑|\bproven\b|\bproves\b|\bconfirmed\b|"
    r"\bconfirms\b|has been verified|\bverified that|established fact|demonstrated beyond|conclusively|beyond doubt|"
    r"definitively"
)
SAME_ORIGIN = rx(
    r"同源|同一(?:来源|出处|源头|篇|份|条|家)|转述自|转载自|均(?:指向|出自|引自|转自|来自)同|复述|same (?:origin|source|press "
    r"release|post|article)|both (?:cite|quote|retell|repeat|derive|trace back)|retell|syndicated|one origin|trace[sd]? back to "
    r"(?:one|the same)|"
    r"(?:posts?|notes?|articles?|blogs?|digests?|outlets?) (?:all |merely |only )?(?:repeat|quote|copy|echo)\b|"
    r"all (?:cite|quote|retell|repeat) the same"
)
CONFIRM = rx(
    r"(?:双重|双向|双方|双|三重|多重|多方|独立|两方|交叉|互相|相互|两份材料|两家)\s*(?:确认|验证|印证|佐证|证实|背书|互证)|互证|"
    r"(?:confirmed|verified|validated|corroborated) (?:twice|independently|by (?:both|two|three|multiple|several|independent))|"
    r"(?:double|doubly|independent(?:ly)?|mutual(?:ly)?|cross)[- ]?(?:confirm|verif|"
    r"validat|corroborat)\w*|\bconfirm(?:s|ed)? (?:each other|one another)|"
    r"both (?:papers |"
    r"works |sources |teams |systems |reports )?(?:confirm|corroborate|verify|validate|agree)|corroborat\w+ each other|"
    r"(?:two|three|several|multiple) independent (?:sources|confirmations|teams|reports)"
)
INDEPENDENT = rx(
    r"(?:[两二三四五多2345]|\d{1,3})\s*(?:个|份|家|方|路)?(?:相互|互相|彼此)?独立(?:的)?(?:来源|信源|材料|验证|证实|证据|渠道)|"
    r"(?:two|three|four|five|several|multiple|\d{1,3}) independent (?:sources|confirmations|reports|outlets|teams|groups|labs|lines of evidence)|"
    r"交叉验证|cross-?(?:validat|verif|confirm)\w*|互相印证|独立(?:佐证|印证|证实)|"
    r"independent(?:ly)? (?:confirm|corroborat|verif)\w*"
)
ADVICE = rx(
    r"建议|供参考|仅供|不代替|由.{0,8}(?:判断|决定|定夺)|advice|advisory|suggest|recommend|proposal|proposed|for consideration|"
    r"owner decides|not a decision|optional"
)
AUTHOR_ONLY = rx(r"单作|独作|单一作者|单作者|仅一(?:位|名)作者|single[- ]author|sole author|one author|lone author")
NO_AFFILIATION = rx(
    r"无机构|机构(?:未|不)(?:标|明|详)|无(?:署名)?单位|未标注机构|no (?:stated |listed |named )?(?:affiliation|institution)|"
    r"unaffiliated|institution (?:not|un)|without (?:an? )?(?:affiliation|institution)"
)
NO_CODE = rx(
    r"(?:无|没有|未见|未放|未)\s*(?:公开|开源|附)?\s*(?:GitHub|代码|仓库)(?:仓库|代码)?|代码(?:未|没有)(?:公开|发布|开源)|no "
    r"(?:public |github )?(?:code|repo(?:sitory)?)\b|code (?:is )?(?:not|un)\s?(?:released|available|public)"
)
SIMULATED = rx(r"模拟|仿真|simulat|trace[- ]driven|事件驱动模型")
ON_REAL = rx(
    r"(?:生产|线上|真实|实际)(?:环境|轨迹|流量|数据|集群|部署|系统)?[^，。；;]{0,8}(?:验证|实测|部署|检验|证实|测得)|"
    r"(?:validated|verified|proven|tested|measured|deployed) (?:on|in|at|with|against) (?:a )?(?:real |live )?(?:production|"
    r"real|live|deployed)|production[- ](?:validated|proven|verified|tested)"
)

MISSING_NUMBERS = rx(
    r"(?:未|没有?|无)(?:见|给出|报告|披露|提供|列)?[^，。；;]{0,10}(?:数字|数据|量化|指标|benchmark|基准|倍数)|无量化|"
    r"数字(?:缺失|未)|no (?:numbers?|figures?|quantit\w+|measurements?|benchmarks?|metrics?)|not (?:quantified|measured)|"
    r"without (?:a |one |any )?(?:number|figure|quantit|measurement)|unquantified|qualitative only"
)

TASK = rx(
    r"→|=>|需|应|建议|待|值得|任务|补证|读正文|核实|核查|复核|实测|测试|抽取|跟进|排队|should|need|must|task|todo|to do|read "
    r"the|verify|check|measure|test|follow[- ]?up|action|next|queue|ask|request|extract|schedule"
)

FOOTER = rx(
    r"(?:\d+|[一二三四五六七八九十]+)\+?\s*(?:个|份|件)?\s*(?:来源|sources?\b)|来源\s*[:：]?\s*\d+\s*(?:个|份|件)|仅?只?写(?:此|本)?一?(?:个)?文件|未(?:改动|联网|"
    r"修改)|only this file|nothing else (?:was )?(?:written|changed)|no network|untouched|"
    r"not (?:changed|touched)"
)
