"""Rules 33, 42, 43 and 56: what was read, said with the same words everywhere, carried along, and never raised by retelling."""

from __future__ import annotations

import re
from collections.abc import Iterator

from headwater.ledger.lint import words
from headwater.ledger.lint.brief import Brief
from headwater.ledger.lint.finding import Finding, Place
from headwater.ledger.lint.names import clauses, name_key, names_in, sentences
from headwater.ledger.lint.registry import check

_NOT_READ = words.rx(
    r"(?:未|没|尚未|没有)(?:曾|有)?(?:读|取|获取|核|查|看|通读|精读)(?:到|过)?[^，。；]{0,6}(?:正文|全文|PDF)?|(?:正文|全文|"
    r"PDF)[^，。；]{0,4}(?:未|没)|not (?:yet )?(?:been )?(?:read|checked|obtained)|unread|never read"
)
_ABSTRACT_ONLY = words.rx(
    r"(?:仅|只|均为|全为|全是|都是|为|止于|只到)\s*(?:论文卡\s*)?(?:RSS\s*)?(?:TLDR|摘要|搜索线索|线索|二手|卡片|转述)(?:级|页|"
    r"层)?|(?:RSS )?摘要级|TLDR 级|线索级|正文未读|未读正文|未读 PDF|未取正文|"
    r"(?:only|just) (?:the )?(?:abstract|tl;?dr|digest|card|snippet|feed)|abstract[- ](?:only|level)|(?:digest|card|snippet|"
    r"tl;?dr|feed)[- ](?:only|level)|(?:body|full text|paper|pdf) (?:was )?(?:not|un|never) ?(?:yet )?(?:read|obtained|checked)|"
    r"second[- ]hand"
)


_ABSTRACT_CHECKED = words.rx(r"摘要页已核|abstract[- ]page (?:was )?(?:checked|verified)")


def _read_in_full(clause: str) -> re.Match[str] | None:
    """A statement that the body was read, neither negated nor asked for."""
    for m in words.BODY_LEVEL.finditer(clause):
        near = clause[max(0, m.start() - 8) : m.start()]
        if near[-1:] in {'"', "“", "「", "'", "‘"}:
            continue  # words that are talked about, not used
        if not re.search(
            r"未|没|无|尚|待|需|应|建议|值得|若|如|not|n't|never|without|to be|should|needs?|if|before|until|unless|yet",
            near,
            re.IGNORECASE,
        ) and not _NOT_READ.search(m[0]):
            return m
    return None


@check(56)
def level_words(brief: Brief) -> Iterator[Finding]:
    """`read in full` about what the same sentence calls an abstract page, a card or a digest."""
    for line, text in brief.text_lines():
        for _, sentence in _whole_sentences(text):
            m = _read_in_full(sentence)
            if not m:
                continue
            tail = sentence[m.end() : m.end() + 160]
            bracket = re.match(r"[^（(，。；]{0,24}[（(](?P<in>[^）)]*)[）)]", tail)
            inside = bracket["in"] if bracket else re.split(r"[，。；;,]", re.sub(r"^\s*[：:]\s*", "", tail))[0]
            low = words.ABSTRACT_LEVEL.search(inside)
            if low and not _contrasted(inside, low):
                span = sentence[max(0, m.start()) : m.end() + (bracket.end() if bracket else len(inside))]
                yield Finding(
                    56,
                    Place(line, span.strip()),
                    f'"{m[0]}" describes what the same sentence calls "{low[0]}"',
                    "one word for one level: an abstract page is not the body",
                )


def _contrasted(inside: str, low: re.Match[str]) -> bool:
    """`not only the abstract`, `the others abstract only`, `beyond the abstract`."""
    return bool(
        re.search(
            r"不止|不仅|而非|不是|非|除|其余|其他|not (?:only|just)|beyond|rather than|instead of|others?|the rest|besides|and the|plus",
            inside[max(0, low.start() - 14) : low.start()],
            re.IGNORECASE,
        )
    )


def _whole_sentences(text: str) -> Iterator[tuple[int, str]]:
    """Sentences that keep their brackets: `；` inside a bracket does not end one."""
    at = depth = 0
    for i, c in enumerate(text):
        depth += c in "（("
        depth -= c in "）)" and depth > 0
        if depth == 0 and c in "。；;！!？?":
            yield at, text[at:i]
            at = i + 1
    if at < len(text):
        yield at, text[at:]


@check(56)
def one_level_per_work(brief: Brief) -> Iterator[Finding]:
    """A work read in full in one place, in abstract only in another."""
    low: dict[str, Place] = {}
    high: dict[str, Place] = {}
    for item in brief.of("increment", "citable", "adjacent"):
        keys = [*item.ids, *(name_key(n) for n in item.names[:2])] if len(item.ids) <= 1 else []
        for piece in item.pieces:
            if piece.key in {"relation", "placement"}:
                continue
            full = next(
                (m for _, c in sentences(piece.text) if (m := _read_in_full(c)) and not words.ABSTRACT_LEVEL.search(c)), None
            )
            poor = _ABSTRACT_ONLY.search(piece.text)
            for key in keys:
                if full:
                    high.setdefault(key, piece.place(full[0]))
                if poor:
                    low.setdefault(key, piece.place(poor[0]))
    for source in brief.of("source", "other"):
        found = _ABSTRACT_ONLY.search(source.text) or _ABSTRACT_CHECKED.search(source.text)
        before = source.text[: found.start()] if found else ""
        named = [n.key for n in names_in(re.split(r"[。；;]", before)[-1])] if found else []
        if found and len(set(named)) == 1:
            piece = next(p for p in source.pieces if found[0] in p.text)
            low.setdefault(named[0], piece.place(found[0]))
    told: set[Place] = set()
    for key in sorted(high.keys() & low.keys()):
        a, b = high[key], low[key]
        if a.line != b.line and a not in told:
            told.add(a)
            yield Finding(
                56, a, f'"{a.span}" here, "{b.span}" in line {b.line} for the same work', "one evidence level per reading", (b,)
            )


_RAISED = words.rx(
    r"(?:升(?:级|格)|提升|上调|上升|升)(?:为|到|至)\s*[^，。；]{0,10}(?:已验证|已核实|证实|高可信|可信|事实|正文级|高)|(?:视为|"
    r"当作|计为|算作|可作为)\s*(?:已(?:验证|核实|证实)|事实|确证|定论)|"
    r"(?:upgrad|promot|rais|elevat)\w*\s+(?:it |them |this |the (?:claim|level|grade|item|work) )?(?:to|from)\b|(?:now |"
    r"therefore |thus )?(?:counts?|counted|treated|regarded|taken) as (?:verified|confirmed|fact|established|proven|full)"
)
_BY_RETELLING = words.rx(
    r"转述|转载|转引|复述|多(?:份|篇|家|处|次)(?:材料|报道|简报)?(?:提及|提到|转述|引用|报道)|(?:[两二三四五六七八2-9]|"
    r"多)\s*(?:份|篇|家|条)\s*(?:材料|简报|摘要|报道|来源|转述|博文|笔记|帖子|文章|推文)|入库|建卡|存卡|论文卡|卡片|被引|引用数|翻译|译文|"
    r"retell|retold|repeat|digests?|mentions?|mentioned|several (?:notes|briefs|posts)|(?:two|three|four|five|\d+) (?:notes|"
    r"briefs|posts|digests|blogs|articles|sources)|card|stored|citations?|cited|translat"
)


@check(42)
def raised_by_retelling(brief: Brief) -> Iterator[Finding]:
    """A level or grade raised because something was repeated, stored, translated or cited."""
    for line, text in brief.text_lines():
        for _, sentence in _whole_sentences(text):
            m = _RAISED.search(sentence)
            if (
                not m
                or not _BY_RETELLING.search(sentence)
                or words.NEGATION.search(sentence[max(0, m.start() - 10) : m.start()])
                or _read_in_full(sentence)
            ):
                continue
            if re.search(
                r"不(?:升级|提升|视为|当作|计为)|勿|不得|never|not\b|no upgrade",
                sentence[max(0, m.start() - 12) : m.end() + 4],
                re.IGNORECASE,
            ):
                continue
            yield Finding(
                42,
                Place(line, m[0].strip()),
                "a retelling, a card, a translation or a citation does not raise what was read",
                "the level of the item's own readings",
            )


@check(43)
def claims_stay_claims(brief: Brief) -> Iterator[Finding]:
    """Proven words in an item that was read in abstract or card form only."""
    for item in brief.of("increment", "adjacent"):
        low = next((p.place(m[0]) for p in item.pieces if (m := _ABSTRACT_ONLY.search(p.text))), None)
        if not low:
            continue
        for piece in item.pieces:
            if piece.key in {"relation", "placement", "source", "grade", "venue", "verdict"}:
                continue
            for offset, clause in clauses(piece.text):
                m = words.PROVEN.search(clause)
                if not m or _hedged(piece.text, offset, clause, m):
                    continue
                yield Finding(
                    43,
                    piece.place(clause.strip()),
                    f'told as proven ("{m[0]}"), but the item was read only as "{low.span}"',
                    "the authors' claim, marked as one",
                    (low,),
                )
                break


def _hedged(text: str, offset: int, clause: str, m: re.Match[str]) -> bool:
    near = text[max(0, offset - 24) : offset + m.start()]
    after = clause[m.end() : m.end() + 12]
    return bool(
        words.NEGATION.search(clause[max(0, m.start() - 12) : m.end()])
        or words.QUESTIONED.search(clause)
        or re.search(r"[\"“「《][^\"”」》]*$", near)
        or re.search(
            r"作者|论文称|摘要(?:自)?(?:称|述)|自述|authors?|paper (?:says|claims|reports)|according to|they (?:say|claim)",
            near + clause,
            re.IGNORECASE,
        )
        or re.match(r"\s*(?:需|待|尚|not|yet)", after, re.IGNORECASE)
    )


@check(33)
def boundary_everywhere(brief: Brief) -> Iterator[Finding]:
    """Where most increments state an evidence boundary, all do."""
    increments = brief.of("increment")
    with_boundary = [i for i in increments if i.get("boundary")]
    if len(with_boundary) < 2 or len(with_boundary) * 2 <= len(increments):
        return
    for item in increments:
        if not item.get("boundary"):
            yield Finding(
                33,
                item.place,
                f"increment {item.rank or brief.subject(item)} has no evidence boundary; {len(with_boundary)} others have one",
                "a boundary sentence with every claim",
                (with_boundary[0].place,),
            )
