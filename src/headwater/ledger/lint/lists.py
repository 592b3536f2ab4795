"""Rule 47, third part: lists outside the known sections — as long as the sentence above them says, parts no more than the whole, ranks used once."""

from __future__ import annotations

import re
from collections.abc import Iterator

from headwater.ledger.lint import words
from headwater.ledger.lint.brief import Brief
from headwater.ledger.lint.finding import Finding, Place
from headwater.ledger.lint.names import sentences
from headwater.ledger.lint.numerals import CLASSIFIER, NUMBER, Count, counts_of, value_of
from headwater.ledger.lint.registry import check
from headwater.ledger.parse.ids import arxiv_ids

_THINGS = (
    r"(?:\w+ ){0,2}?(?:things|points|items|questions|papers|works|reasons|doubts|problems|issues|notes|sources|files|findings|"
    r"claims|tasks|steps)\b"
)
_ANNOUNCED = rf"(?P<n>{NUMBER})\s*(?:{CLASSIFIER}|点|{_THINGS})"
_OPEN = words.rx(r"其中|例如|比如|包括|含|等(?:[：:，,]|$)|such as|including|e\.g\.|among|some of|at least|第|前|after|last|past|of the")
_NUMBERED = re.compile(r"^\s{0,4}(?P<no>\d{1,2})[.)、）]\s*\S")


def _one_count(text: str) -> Count | None:
    found = counts_of(_ANNOUNCED, text)
    return found[0] if len(found) == 1 and not found[0].open_end and not _OPEN.search(text) else None


@check(47)
def announced_list(brief: Brief) -> Iterator[Finding]:
    """`Three things are open:` above a numbered list of four."""
    for line, text in brief.text_lines():
        lead = text.strip().strip("*_ ")
        if not lead.endswith((":", "：")) or len(lead) > 120 or text.lstrip().startswith("#"):
            continue
        count = _one_count(lead)
        numbers: list[int] = []
        at = line
        while at < len(brief.lines) and (m := _NUMBERED.match(brief.lines[at])) and int(m["no"]) == len(numbers) + 1:
            numbers.append(at + 1)
            at += 1
        if count and len(numbers) > 1 and count.value != len(numbers):
            related = tuple(Place(n, brief.lines[n - 1].strip()[:60]) for n in numbers)
            yield Finding(
                47, Place(line, lead[count.start : count.end].strip()), f"{count.value} are announced, the list below has {len(numbers)}",
                str(len(numbers)), related,
            )


@check(47)
def announced_works(brief: Brief) -> Iterator[Finding]:
    """`Read four papers: A (id), B (id), …`: as many works as it says."""
    for line, text in brief.text_lines():
        for _, sentence in sentences(text):
            head, colon, tail = sentence.partition("：") if "：" in sentence else sentence.partition(":")
            count = _one_count(head) if colon and len(head) < 60 else None
            ids = arxiv_ids(tail)
            if not count or len(ids) < 2 or re.search(r"[（(][^（）()]*[、,，][^（）()]*[)）]", tail):
                continue
            parts = [p for p in re.split(r"\s*[、，,]\s*|\s*(?:以及|和|与)\s*|\s+and\s+", tail) if p.strip(" .。")]
            if count.value not in {len(ids), len(parts)} and len(parts) <= 24:
                yield Finding(
                    47, Place(line, head[count.start : count.end].strip()), f"{count.value} are announced, {len(parts)} are named", str(len(parts))
                )


_AGED = re.compile(r"(?P<who>[A-Za-z\u4e00-\u9fff][A-Za-z0-9_\u4e00-\u9fff/.-]*)\s*(?::|：)?\s*\d{1,3}\s*(?:天|days?)(?:未更新)?", re.IGNORECASE)
_QUEUE = re.compile(
    rf"(?<![\d:.-])(?P<n>{NUMBER})\s*(?:个|份|篇)?\s*(?:documents?|topics?|文档|主题)?[^：:（(。；;、，,\d\n]{{0,16}}"
    r"[：:（(](?P<list>[^）)。；;\n]{5,300})",
    re.IGNORECASE,
)


@check(47)
def documents_with_ages(brief: Brief) -> Iterator[Finding]:
    """`4 documents: a 2 days, b 5 days, c 1 day` names three; `a/b 9 days` names two."""
    for line, text in brief.text_lines():
        if not re.search(r"文档|documents?|topics?|主题", text, re.IGNORECASE):
            continue
        for m in _QUEUE.finditer(text):
            total, named = value_of(m["n"]), list(_AGED.finditer(m["list"]))
            rest = re.sub(r"[\s，,、；;/和]|and", "", _AGED.sub("", m["list"]))
            if not total or len(named) < 2 or rest:
                continue
            counts = {len(named), sum(len(x["who"].split("/")) for x in named)}
            if total not in counts:
                yield Finding(47, Place(line, m[0].strip()), f"{total} are announced, {max(counts)} are named", str(max(counts)))


_ZH_WHOLE = re.compile(rf"(?P<n>{NUMBER})\s*(?P<c>{CLASSIFIER})[^，,。；;]{{0,6}}[，,]\s*其中(?P<rest>[^。；;\n]{{1,200}})")
_EN_WHOLE = re.compile(
    rf"(?P<a>{NUMBER}) of (?:the |these |our )?(?P<n>{NUMBER}) (?P<noun>[a-z]+)\b[^.;\n]{{0,160}}?,\s*(?:and |while )?"
    rf"(?P<b>{NUMBER})\s+(?:were|are|had|have|failed|came)\b",
    re.IGNORECASE,
)


@check(47)
def parts_of_a_whole(brief: Brief) -> Iterator[Finding]:
    """`96 papers, of which 31 … and 75 …`; `3 of 11 were …, 9 were …`: the parts exceed the whole."""
    for line, text in brief.text_lines():
        for m in _ZH_WHOLE.finditer(text):
            total = value_of(m["n"]) or 0
            shares = [value_of(n) or 0 for n in re.findall(rf"({NUMBER})\s*{m['c']}", m["rest"])]
            if len(shares) > 1 and all(s <= total for s in shares) and sum(shares) > total and "、" in m["rest"]:
                yield Finding(47, Place(line, m[0].strip()), f"the parts add up to {sum(shares)} of {total}", f"parts within {total}")
        for m in _EN_WHOLE.finditer(text):
            a, b, total = (value_of(m[k]) or 0 for k in "abn")
            if a <= total and b <= total < a + b:
                yield Finding(47, Place(line, m[0].strip()), f"the parts add up to {a + b} of {total}", f"parts within {total}")


@check(47)
def ranks_once(brief: Brief) -> Iterator[Finding]:
    """Two increments under one number."""
    seen: dict[str, Place] = {}
    for item in brief.of("increment"):
        if not item.rank or item.rank == "0":
            continue
        if item.rank in seen:
            yield Finding(47, item.place, f"a second increment {item.rank}; the first is in line {seen[item.rank].line}", "one number per item",
                          (seen[item.rank],))
        seen.setdefault(item.rank, item.place)
