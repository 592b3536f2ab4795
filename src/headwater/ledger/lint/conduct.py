"""Rules 44, 45, 46 and 71: what a brief may do — no padding, one file, advice marked as advice, at most three handles."""

from __future__ import annotations

import re
from collections.abc import Iterator

from headwater.ledger.lint import words
from headwater.ledger.lint.brief import Brief
from headwater.ledger.lint.finding import Finding, Place
from headwater.ledger.lint.names import sentences
from headwater.ledger.lint.registry import check

_PADDING = words.rx(
    r"(?:凑(?:足|够|满|齐|到)|补足|补齐|拆(?:分)?(?:成|为)[^，。；]{0,12}(?:以|来)?(?:凑|达到|满足)|(?:达到|满足|"
    r"完成)[^，。；]{0,14}(?:条数|数量|篇数)(?:要求|目标|下限|指标)?|(?:至少|不少于|最低)\s*\d+\s*条(?:增量)?(?:的)?(?:要求|"
    r"目标|下限|硬性))|"
    r"(?:to (?:reach|meet|hit|fill|make up) (?:the |a |our |its )?(?:usual |daily |target |minimum |required |quota of "
    r")*(?:target|quota|minimum|number|count|two|three|four|five|six|seven|eight|nine|ten|\d+)\b)|\b(?:padded|padding) (?:to|"
    r"the|with|out)|"
    r"minimum of (?:\d+|five|six|seven|eight|ten) (?:items|increments)|quota of"
)
_WRITES = re.compile(
    r"(?:(?:本(?:棒|轮|简报|次|步|批)|我|我们|同时|顺手|顺带|另|并|也)[^，。；]{0,10}(?:已|已经|直接|同步|一并|顺手)?\s*(?:更新|"
    r"修改|改写|写入|改动|追加|同步|覆盖|删除|移动)(?:了|到|至)?[^，。；]{0,12}(?:活文档|队列|基线|清单|卡片库|work-queue|"
    r"knowledge/|配置|认领))|"
    r"(?:this (?:run|step|round|brief)|we|I|(?:it )?also|has)\s+(?:also |then |directly )*(?:updated|edited|modified|rewrote|"
    r"wrote to|changed|appended to|committed to|deleted|moved)\s+(?:the |our )?(?:living document|document|queue|baseline|"
    r"work[- ]?queue|index|config|cards?|knowledge)",
    re.IGNORECASE,
)
_HANDLE_TOPIC = words.rx(r"抓手|handles?|今晚|tonight|next steps?|action")
_REPAIR = words.rx(r"先修|修(?:复|正|补)|订正|更正|纠正|统一标注|标清|repair|fix|correct|settle|clean up|reconcile|label the")
_ADD = words.rx(r"新增|增补|加(?:一|入|上)|补齐|挂进|收录|写入|add|insert|extend|write|include|append")
_DEFECT = words.rx(
    r"最需要动手修|最高优先级|可核查性(?:缺口|缺陷)|版本线[^，。]{0,8}(?:未|混)|活文档(?:内部)?[^，。；]{0,14}(?:裂缝|矛盾|错配|"
    r"错误|混用)|needs? repair|checkability|highest priority|(?:document|doc) (?:itself )?(?:mixes|contradicts|is wrong|has an "
    r"error)|defect in the (?:living )?document"
)


@check(44)
def no_padding(brief: Brief) -> Iterator[Finding]:
    """A target number of increments, or items made to reach one."""
    for line, text in brief.text_lines():
        for _, sentence in sentences(text):
            m = _PADDING.search(sentence)
            if not m or re.search(
                r"不|未|没|无|勿|非|no\b|not\b|n't|never|without|refus|avoid|rather than|instead of",
                sentence[max(0, m.start() - 16) : m.start()],
                re.IGNORECASE,
            ):
                continue
            if not re.search(r"增量|条|简报|increment|item|entr|brief|list", sentence, re.IGNORECASE):
                continue
            yield Finding(
                44, Place(line, m[0].strip()), "the number of increments follows a target", "as many increments as there are"
            )


@check(45)
def one_file_only(brief: Brief) -> Iterator[Finding]:
    """The brief step changed something besides the brief."""
    for line, text in brief.text_lines():
        for _, sentence in sentences(text):
            m = _WRITES.search(sentence)
            if not m or re.search(
                r"未|不|没|无|建议|待|应|需|拟|计划|将|not\b|n't|no\b|nothing|never|without|should|suggest|propos|to be|plan",
                sentence[max(0, m.start() - 12) : m.end()],
                re.IGNORECASE,
            ):
                continue
            claim = next(
                (
                    (n, c)
                    for n, t in brief.text_lines()
                    if n != line
                    for c in re.findall(r"仅?只?写(?:此|本)一?文件|仅写此一文件|only this file|writes only", t, re.IGNORECASE)
                ),
                None,
            )
            yield Finding(
                45,
                Place(line, m[0].strip()),
                "the brief step writes the brief and nothing else",
                "a proposal for the owner",
                (Place(*claim),) if claim else (),
            )


def _handle_section(brief: Brief) -> tuple[int, str] | None:
    for section in brief.parsed.sections:
        if section.kind == "handle" and section.line <= len(brief.lines):
            return section.line, brief.headings.get(section.line, brief.lines[section.line - 1])
    return None


@check(46)
def advice_labelled(brief: Brief) -> Iterator[Finding]:
    """The handles for tonight do not say that they are advice."""
    found = _handle_section(brief)
    items = brief.of("handle")
    if not found or not items:
        return
    line, heading = found
    lead = "\n".join(brief.lines[line - 1 : items[0].line - 1]) + "\n" + "\n".join(i.text for i in items)
    if not words.ADVICE.search(lead):
        yield Finding(
            46,
            Place(line, heading.strip()),
            "the handles are not marked as advice",
            '"advice" in the heading, or a sentence that the owner decides',
        )


@check(71)
def at_most_three_handles(brief: Brief) -> Iterator[Finding]:
    """More than three handles, or an addition before the repair that the contradictions ask for."""
    items = [i for i in brief.of("handle") if i.rank] or brief.of("handle")
    found = _handle_section(brief)
    if not items or not found:
        return
    if len(items) > 3:
        yield Finding(
            71,
            items[3].place,
            f"{len(items)} handles for one evening",
            "at most three, in order",
            (Place(found[0], found[1].strip()),),
        )
    defect = next(
        (
            p.place(m[0])
            for i in brief.of("contradiction")
            for p in i.pieces
            if (m := _DEFECT.search(p.text)) and not words.NEGATION.search(p.text[max(0, m.start() - 4) : m.start()])
        ),
        None,
    )
    repairs = [n for n, i in enumerate(items) if _REPAIR.search(i.text[:60])]
    if defect and repairs and repairs[0] > 0 and _ADD.search(items[0].text[:60]):
        yield Finding(
            71,
            items[0].place,
            f"an addition comes first, the repair is handle {repairs[0] + 1}",
            "repair before add",
            (items[repairs[0]].place, defect),
        )
