"""Rule 7: a batch that declares its files by kind carries no increment from outside."""

from __future__ import annotations

import re
from collections.abc import Iterator

from headwater.ledger.lint import words
from headwater.ledger.lint.brief import Brief
from headwater.ledger.lint.finding import Finding, Place
from headwater.ledger.lint.numerals import CLASSIFIER, NUMBER, value_of
from headwater.ledger.lint.registry import check
from headwater.ledger.lint.sourcelist import paths_in, source_key

_ALL = words.rx(r"全部|均|只|仅|本批|材料|batch|only|all (?:increments|items|material)|solely|exclusively|nothing else|files")
_DECLARED = re.compile(r"[（(](?P<in>[^（）()]{5,300})[）)]")
_PART = re.compile(
    rf"^(?:(?:in|from)\s+)?(?P<label>[A-Za-z][\w./-]*(?: [a-z]+)?|论文卡|雷达|"
    rf"批读)\s*[：:x×]?\s*(?P<n>{NUMBER})\s*(?:{CLASSIFIER}|files?|notes?)?$|"
    rf"^(?P<n2>{NUMBER})\s*(?:{CLASSIFIER}|files?|notes?)?\s*(?:from|in|by|of)\s+(?P<label2>[A-Za-z][\w./-]*)$",
    re.IGNORECASE,
)


def _declaration(brief: Brief) -> tuple[int, str, dict[str, int]] | None:
    """(line, bracket, number of files by label) of the first header statement such as `(inbox/a 4 + inbox/b 3 + cards 1)`."""
    for line, text in brief.text_lines():
        if brief.kind_at(line) not in {"header", "status", "other"}:
            continue
        for m in _DECLARED.finditer(text):
            parts = [_PART.match(p.strip()) for p in re.split(r"\s*[+＋、;；]\s*|,\s+", m["in"])]
            if len(parts) < 2 or not all(parts) or not _ALL.search(text):
                continue
            found = {(p["label"] or p["label2"]).lower(): value_of(p["n"] or p["n2"]) or 0 for p in parts if p}
            if any("/" in k or k in {"论文卡", "cards", "paper_cards"} for k in found):
                return line, m[0], found
    return None


def _belongs(path: str, label: str) -> bool:
    flat = path.lower()
    if label in {"论文卡", "cards", "card", "paper cards", "paper_cards"}:
        return bool(re.search(r"cards?/|^\d{1,6}-\d{4}-\d{4,5}", flat))
    if "/" in label:
        return flat.startswith(label.rstrip("/") + "/") or f"/{label.rstrip('/')}/" in f"/{flat}"
    return f"/{label}/" in f"/{flat}" or label in re.split(r"[-_./]", flat)


_SIZE = re.compile(
    rf"(?P<n>{NUMBER})\s*(?:份|个|件)?\s*(?:材料|文件|files?\b)"
    r"(?:[^，。；;()（）]{0,4}[，,]?\s*(?:全部处理|均已处理|all processed|all read)| of this batch|原文)|"
    rf"(?:来自|from)\s*(?:本批|这批|the|these)\s*(?P<n2>{NUMBER})\s*(?:份|个|件)?\s*(?:材料|文件|files?\b)",
    re.IGNORECASE,
)


@check(47)
def batch_size(brief: Brief) -> Iterator[Finding]:
    """The header gives the size of the batch once, or twice with one number."""
    told = [(n, m, value_of(m["n"] or m["n2"])) for n, t in brief.text_lines() if brief.kind_at(n) == "header" for m in _SIZE.finditer(t)]
    if told:
        n, first, size = told[0]
        for line, m, other in told[1:]:
            if other != size:
                yield Finding(
                    47,
                    Place(line, m[0]),
                    f"{m[0]!r} here, {first[0]!r} in line {n}",
                    "one size of the batch",
                    (Place(n, first[0]),),
                )


@check(7)
def outside_the_batch(brief: Brief) -> Iterator[Finding]:
    """More files of a kind are cited by increments than the batch declares, or one of no declared kind."""
    declared = _declaration(brief)
    if not declared:
        return
    line, bracket, groups = declared
    seen: dict[str, dict[str, tuple[int, str]]] = {label: {} for label in groups}
    for item in brief.of("increment"):
        for piece in item.get("source"):
            for path in paths_in(piece.text):
                label = next((g for g in sorted(groups, key=len, reverse=True) if _belongs(path, g)), "")
                if not label and "/" in path:
                    yield Finding(
                        7,
                        Place(piece.line, path),
                        f"{path} carries increment {item.rank} but belongs to none of the kinds the batch declares",
                        "only sources of the batch",
                        (Place(line, bracket),),
                    )
                if label:
                    seen[label].setdefault(source_key(path), (piece.line, path))
    for label, files in seen.items():
        if len(files) > groups[label]:
            extra = list(files.values())[groups[label] :]
            for at, path in extra:
                yield Finding(
                    7,
                    Place(at, path),
                    f"{path} is file {len(files)} of {label}, the batch declares {groups[label]}",
                    f"{groups[label]} files of {label}, or a corrected declaration",
                    (Place(line, bracket), *(Place(n, p) for n, p in list(files.values())[: groups[label]])),
                )
