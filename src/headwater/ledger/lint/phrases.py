"""Rule 53: a distinctive phrase that two unrelated works share points at a mix-up."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

from headwater.ledger import facts
from headwater.ledger.lint import words
from headwater.ledger.lint.brief import Brief, Item, Piece
from headwater.ledger.lint.finding import Finding
from headwater.ledger.lint.registry import check

_TOKEN = re.compile(r"[A-Za-z0-9][\w.@-]*[A-Za-z0-9]|[A-Za-z0-9]|[\u4e00-\u9fff]|[。；;]", re.ASCII)
_GLUE_WORDS = """
的 与 和 及 或 在 于 以 并 而 为 是 对 将 从 到 via and or the a an of to in on for with by is are as at from into that which its
"""
_GLUE = frozenset(_GLUE_WORDS.split())
_COMMON_WORDS = """
gpu cpu llm kv cache token tokens model models inference latency throughput attention prefill decode batch memory context
serving request requests
"""
_COMMON = frozenset(_COMMON_WORDS.split())
_SKIP = {"relation", "placement", "source", "links", "grade", "authors", "venue", "verdict", "boundary", "status", "title", "level", "missing"}
# how a number was obtained and what was read is said with the same words everywhere
_LEVEL_WORDS = re.compile(
    rf"{words.ABSTRACT_LEVEL.pattern}|正文未(?:读|取|获取|获)|未(?:读|取)正文|作者自报|作者自述|厂商(?:自述|口径)|证据级别\s*\d|"
    r"(?:full text|body|pdf) (?:was )?not (?:yet )?(?:read|obtained|checked)|(?:author|vendor|self)[- ]reported|evidence level \d",
    re.IGNORECASE,
)
WEIGHT = 12.0  # about six uncommon English words, or twelve Chinese characters


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    piece: Piece
    start: int
    end: int


def _setup_words() -> re.Pattern[str]:
    names = [f["name"] for kind in ("hardware", "models", "software") for f in facts.load(kind)]
    return re.compile(
        "|".join(re.escape(n.lower()) for n in names)
        + r"|^\d+(?:\.\d+)?[bkm]?$|bench|gsm8k|mmlu|humaneval|ruler|longbench|niah|sharegpt|llama|qwen|gemma|mistral|deepseek"
    )


def _tokens(item: Item) -> list[_Token]:
    out = []
    for piece in item.pieces:
        if piece.key in _SKIP:
            continue
        levels = [m.span() for m in _LEVEL_WORDS.finditer(piece.text)]
        for m in _TOKEN.finditer(piece.text):
            if any(a <= m.start() < b for a, b in levels):
                continue
            word = m[0].lower()
            if word in {"。", "；", ";"} or word not in _GLUE:
                out.append(_Token(word, piece, m.start(), m.end()))
        out.append(_Token("\n", piece, len(piece.text), len(piece.text)))
    return out


def _weight(run: list[_Token], setup: re.Pattern[str]) -> float:
    total = 0.0
    for t in run:
        if "\u4e00" <= t.text <= "\u9fff":
            total += 1.0
        else:
            total += 0.25 if setup.search(t.text) else 1.0 if t.text in _COMMON or len(t.text) == 1 else 2.0
    return total


def _stops(run: list[_Token]) -> list[list[_Token]]:
    """A run cut at sentence and line ends."""
    out: list[list[_Token]] = [[]]
    for t in run:
        if t.text in {"\n", "。", "；", ";"}:
            out.append([])
        else:
            out[-1].append(t)
    return [r for r in out if r]


def shared_run(a: list[_Token], b: list[_Token], setup: re.Pattern[str]) -> tuple[list[_Token], list[_Token]] | None:
    """The heaviest common run of tokens of two items, when it is heavy enough."""
    matcher = SequenceMatcher(None, [t.text for t in a], [t.text for t in b], autojunk=False)
    best: tuple[float, list[_Token], list[_Token]] = (0.0, [], [])
    for block in matcher.get_matching_blocks():
        if block.size < 4:
            continue
        for part in _stops(a[block.a : block.a + block.size]):
            weight = _weight(part, setup)
            if weight > best[0]:
                at = next(i for i in range(block.a, block.a + block.size) if a[i] is part[0]) - block.a
                best = (weight, part, b[block.b + at : block.b + at + len(part)])
    return (best[1], best[2]) if best[0] >= WEIGHT else None


def _span(run: list[_Token]) -> str:
    first, last = run[0], run[-1]
    return first.piece.text[first.start : last.end] if first.piece is last.piece else first.piece.text[first.start :]


@check(53)
def shared_phrase(brief: Brief) -> Iterator[Finding]:
    """Two increments describe different works with the same rare words."""
    items = [i for i in brief.of("increment", "adjacent") if i.kind == "increment" or i.ids]
    streams = [(i, _tokens(i)) for i in items]
    setup = _setup_words()
    for n, (later, tokens) in enumerate(streams):
        for earlier, before in streams[:n]:
            if set(later.ids) & set(earlier.ids) or later.name_keys & earlier.name_keys:
                continue
            run = shared_run(before, tokens, setup)
            if not run:
                continue
            mine, other = run
            if _acknowledged(mine, later) or _acknowledged(other, earlier) or _boilerplate(mine, streams):
                continue
            yield Finding(
                53,
                mine[0].piece.place(_span(mine)),
                f"{brief.subject(earlier)} and {brief.subject(later)} (line {other[0].piece.line}) are described with the same "
                f"words",
                "each work's own design; check which of the two it belongs to",
                (other[0].piece.place(_span(other)),),
            )


def _acknowledged(run: list[_Token], other: Item) -> bool:
    """The sentence itself names the other work: a comparison, not a mix-up."""
    text = run[0].piece.text.lower()
    return any(n.lower() in text for n in other.names)


def _boilerplate(run: list[_Token], streams: list[tuple[Item, list[_Token]]]) -> bool:
    """The phrase stands in three items or more."""
    needle = " ".join(t.text for t in run)
    return sum(needle in " ".join(t.text for t in tokens) for _, tokens in streams) > 2
