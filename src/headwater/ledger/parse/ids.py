"""Identifiers in free text, Chinese or English: arXiv in every form, DOI, repositories, cards, section marks, dates, versions.

Every finder returns mentions in text order with character offsets into the string it was given. Full-width forms are read as their
ASCII twins; the translation keeps lengths, so offsets stay true.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

_DIGIT = re.compile(r"\d")
_WIDE = {0xFF01 + i: 0x21 + i for i in range(94)}
_WIDE.update({0x3000: 0x20, 0x2010: 0x2D, 0x2011: 0x2D})
_ARXIV_NEW = r"(?P<new>(?:0[7-9]|[1-9]\d)(?:0[1-9]|1[0-2])\.\d{4,5})"
_ARXIV_OLD = r"(?P<old>(?:[a-z]+(?:-[a-z]+)?)(?:\.[A-Z]{2})?/\d{7})"
_VERSION = r"(?:v(?P<v>[1-9]\d?))?(?!\d)"
_LINKED = re.compile(
    r"(?:https?://)?(?:www\.|export\.|browse\.)?(?:arxiv\.org/(?P<form>abs|html|pdf|format|e-print)/|alphaxiv\.org/(?:abs|overview)/|"
    r"huggingface\.co/papers/|doi\.org/10\.48550/arxiv\.|papers\.cool/arxiv/)" + f"(?:{_ARXIV_NEW}|{_ARXIV_OLD}){_VERSION}",
    re.IGNORECASE,
)
_PREFIXED = re.compile(rf"arxiv\s*[:\s]\s*(?:{_ARXIV_NEW}|{_ARXIV_OLD}){_VERSION}", re.IGNORECASE)
_BARE = re.compile(r"(?<![\w./$-])(?P<new>(?:0[7-9]|[1-9]\d)(?:0[1-9]|1[0-2])\.\d{5})" + _VERSION + r"(?![.\d]\d)", re.ASCII)
_CARD = re.compile(
    r"(?<![\w-])(?P<card>\d{1,6})-(?P<yymm>(?:0[7-9]|[1-9]\d)(?:0[1-9]|1[0-2]))-(?P<seq>\d{4,5})(?:v(?P<v>\d+))?(?P<ext>\.md)?(?![\w-])",
    re.ASCII,
)
_CARD_WORD = re.compile(r"(?:paper[_ ]cards?|论文卡)\s*#?(?P<card>\d{1,6})(?!\d|-\d|\s*[份张件个篇条])", re.IGNORECASE)
_DOI = re.compile(r"(?<![\w.])(?:https?://(?:dx\.)?doi\.org/|doi:\s*)?(?P<doi>10\.\d{4,9}/[^\s\"<>（）()，。；、]+)", re.IGNORECASE)
_URL = re.compile(r"https?://[^\s<>\"'`（）【】《》「」，。；、！？｜|]+", re.IGNORECASE)
_SECTION = re.compile(r"§\s*(?P<no>\d+(?:\.(?:\(\d+\)|（\d+）|\d+))*|[A-Z]\d+(?:\.\d+)*)")
_DATE_FULL = re.compile(
    r"(?<![\d.])(?P<y>(?:19|20)\d{2})[-/年.](?P<m>0?[1-9]|1[0-2])(?:[-/月.](?P<d>0?[1-9]|[12]\d|3[01])(?!\d))?日?(?![\d])"
)
_DATE_SHORT = re.compile(
    r"(?<![A-Za-z0-9_.§-])(?P<m>0?[1-9]|1[0-2])(?P<sep>[-/])(?P<d>0?[1-9]|[12]\d|3[01])(?![A-Za-z0-9%×-]|\.\d|\s*[×%倍条件句个份篇层次])"
)
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DATE_NAMED = re.compile(
    r"\b(?P<mon>" + "|".join(_MONTHS) + r")[a-z]*\.?\s+(?:(?P<d>\d{1,2}),?\s+)?(?P<y>20\d{2})\b", re.IGNORECASE
)
_RELEASE = re.compile(
    r"(?P<name>[A-Za-z][A-Za-z0-9.+]{0,40}[A-Za-z0-9+])?(?P<gap>[\s\"“]{0,4})\bv?(?P<ver>\d+\.(?:\d+|x)(?:\.(?:\d+|x))*(?:\.?(?:dev|rc|post|a|b)\d*)?)",
    re.ASCII,
)


def narrow(text: str) -> str:
    """Full-width letters, digits and punctuation to ASCII; same length."""
    return text.translate(_WIDE)


@dataclass(frozen=True, slots=True)
class ArxivId:
    """An arXiv identifier. number: `2608.20359` or `hep-th/9901001`; version: None when the text names none."""

    number: str
    version: int | None = None

    @property
    def key(self) -> str:
        """Work key without version: `arxiv:2608.20359`."""
        return f"arxiv:{self.number}"

    @property
    def month(self) -> tuple[int, int] | None:
        """(year, month) coded in a new-style identifier, None for old ones."""
        if "/" in self.number:
            return None
        return 2000 + int(self.number[:2]), int(self.number[2:4])

    def __str__(self) -> str:
        return f"arXiv:{self.number}" + (f"v{self.version}" if self.version else "")


@dataclass(frozen=True, slots=True)
class IdMention:
    """One identifier in a text.

    kind: arxiv, doi, card, repo. value: canonical value (`2608.20359`, `10.1145/1.2`, `1197`, `github.com/owner/name`).
    form: how it was written: bare, prefixed, abs, html, pdf, card, link, doi, repo. card: card number when form is card.
    """

    kind: str
    value: str
    start: int
    end: int
    form: str
    version: int | None = None
    card: int | None = None

    @property
    def key(self) -> str:
        """Key under which a work is filed."""
        return f"{self.kind}:{self.value}"


@dataclass(frozen=True, slots=True)
class Mention:
    """A found piece of text. kind: url, section, date, version; value: canonical form; name: software of a version, else empty."""

    kind: str
    value: str
    start: int
    end: int
    name: str = ""


def _arxiv(match: re.Match[str], form: str) -> IdMention:
    groups = match.groupdict()
    number = groups.get("new") or groups.get("old") or ""
    return IdMention("arxiv", number, match.start(), match.end(), form, int(groups["v"]) if groups.get("v") else None)


def _plausible(number: str) -> bool:
    """Five digits since 2015, four before: `1412.4567` and `1501.04567` exist, `2608.2035` does not."""
    if "/" in number:
        return True
    head, tail = number.split(".")
    return len(tail) == (5 if int(head) >= 1501 else 4)


def find_ids(text: str) -> list[IdMention]:
    """All identifiers; overlapping forms (a link contains a bare id) are reported once, the longest form wins."""
    return list(_remembered(text) if len(text) <= 4096 else _find_ids(text))


@lru_cache(maxsize=1024)
def _remembered(text: str) -> tuple[IdMention, ...]:
    """Versions, quantities and works of one sentence all need its identifiers."""
    return _find_ids(text)


def _find_ids(text: str) -> tuple[IdMention, ...]:
    flat = narrow(text)
    if not _DIGIT.search(flat) and "//" not in flat:
        return ()
    found: list[IdMention] = []
    low = flat.lower()
    if "arxiv" in low or "huggingface.co" in low:
        found += [_arxiv(m, (m.group("form") or "link").lower()) for m in _LINKED.finditer(flat)]
        found += [_arxiv(m, "prefixed") for m in _PREFIXED.finditer(flat)]
    for m in _CARD.finditer(flat):
        number = f"{m['yymm']}.{m['seq']}"
        found.append(IdMention("arxiv", number, m.start(), m.end(), "card", int(m["v"]) if m["v"] else None, int(m["card"])))
    found += [IdMention("card", m["card"], m.start(), m.end(), "card", None, int(m["card"])) for m in _CARD_WORD.finditer(flat)]
    found += [_arxiv(m, "bare") for m in _BARE.finditer(flat)]
    for m in _DOI.finditer(flat) if "10." in flat else ():
        value = m["doi"].rstrip(".,;:)]}'").lower()
        if not value.startswith("10.48550/arxiv."):
            found.append(IdMention("doi", value, m.start(), m.start("doi") + len(value), "doi"))
    for link in find_links(text):
        repo = repository_of(link.value)
        if repo:
            found.append(IdMention("repo", repo, link.start, link.end, "repo"))
    found = [i for i in found if i.kind != "arxiv" or _plausible(i.value)]
    found.sort(key=lambda i: (i.start, -(i.end - i.start)))
    kept: list[IdMention] = []
    for i in found:
        if kept and i.start < kept[-1].end:
            continue
        kept.append(i)
    return tuple(kept)


def arxiv_ids(text: str) -> list[str]:
    """Distinct arXiv numbers in order of first mention, versions dropped."""
    return list(dict.fromkeys(i.value for i in find_ids(text) if i.kind == "arxiv"))


def parse_arxiv(text: str) -> ArxivId | None:
    """The one arXiv identifier that `text` is or contains first; None when there is none."""
    for i in find_ids(text):
        if i.kind == "arxiv":
            return ArxivId(i.value, i.version)
    return None


def repository_of(url: str) -> str | None:
    """`github.com/owner/name` for a link into a code host, else None."""
    m = re.match(r"https?://(?:www\.)?(github\.com|gitlab\.com|gitee\.com)/([\w.-]+)/([\w.-]+)", url, re.IGNORECASE)
    return f"{m[1].lower()}/{m[2].lower()}/{m[3].lower().removesuffix('.git')}" if m else None


def find_links(text: str) -> list[Mention]:
    """http(s) links; a closing bracket or sentence mark that belongs to the prose is not part of the link."""
    out = []
    for m in _URL.finditer(text) if "://" in text else ():
        url = m[0].rstrip(".,;:!?*_~")
        while url.endswith((")", "]", "}")) and url.count(url[-1]) > url.count({")": "(", "]": "[", "}": "{"}[url[-1]]):
            url = url[:-1].rstrip(".,;:!?*_~")
        if len(url) > len("https://"):
            out.append(Mention("url", url, m.start(), m.start() + len(url)))
    return out


def canonical_url(url: str) -> str:
    """Comparable form of a link: host in lower case without `www.`, no scheme, fragment, tracking parameters or closing slash."""
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return url.strip()
    query = "&".join(p for p in parts.query.split("&") if p and not re.match(r"(?:utm_\w+|ref|spm|from|source|fbclid)=", p))
    host = parts.netloc.lower().removeprefix("www.")
    return f"{host}{parts.path.rstrip('/')}" + (f"?{query}" if query else "")


def find_sections(text: str) -> list[Mention]:
    """Section marks: `§1.(3)`, `§4.2`, `§A1`. The value keeps the number with ASCII brackets."""
    return [Mention("section", narrow(m["no"]), m.start(), m.end()) for m in _SECTION.finditer(text)]


def find_dates(text: str, year: int | None = None) -> list[Mention]:
    """Dates as ISO strings: `2026-09-03`, `2026-09`, `9-3` and `9/22` (with `year`; without it `--09-03`), `Feb 2026`."""
    flat = narrow(text)
    out: list[Mention] = []
    for m in _DATE_FULL.finditer(flat):
        day = f"-{int(m['d']):02d}" if m["d"] else ""
        out.append(Mention("date", f"{m['y']}-{int(m['m']):02d}{day}", m.start(), m.end()))
    for m in _DATE_NAMED.finditer(flat):
        month = _MONTHS.index(m["mon"].lower()[:3]) + 1
        out.append(Mention("date", f"{m['y']}-{month:02d}" + (f"-{int(m['d']):02d}" if m["d"] else ""), m.start(), m.end()))
    taken = [(d.start, d.end) for d in out]
    for m in _DATE_SHORT.finditer(flat):
        if any(m.start() < e and m.end() > s for s, e in taken):
            continue
        head = f"{year:04d}" if year else "-"
        out.append(Mention("date", f"{head}-{int(m['m']):02d}-{int(m['d']):02d}", m.start(), m.end()))
    return sorted(out, key=lambda d: d.start)


def find_versions(text: str) -> list[Mention]:
    """Software releases: `SGLang v0.5.21`, `vLLM 0.30.0`, `v1.x`. A bare `1.2` needs a name in front; name may be empty."""
    flat = narrow(text)
    ids = [(i.start, i.end) for i in find_ids(text)] + [(u.start, u.end) for u in find_links(text)]
    ids += [(s.start, s.end) for s in find_sections(text)]
    out = []
    for m in _RELEASE.finditer(flat):
        ver, start = m["ver"], m.start("ver")
        has_v = start > 0 and flat[start - 1] in "vV"
        name = m["name"] or ""
        named = len(m["gap"]) == 1 and len(name) >= 3 and any(c.isupper() or c.isdigit() for c in name)
        measured = re.match(r"\s?[-~%×xBMTKG倍亿万]", flat[m.end() : m.end() + 2])
        if not has_v and ver.count(".") < 2 and (not named or measured):
            continue
        if any(start < e and m.end() > s for s, e in ids):
            continue
        if has_v and not m["gap"]:
            name = name.removesuffix("v")
        if name.lower() in {"vs", "v", "and", "or", "to", "version"}:
            name = ""
        begin = m.start("name") if name else start - int(has_v)
        out.append(Mention("version", ver, begin, m.end(), name))
    return out


def title_key(title: str) -> str:
    """Comparable form of a title: case, punctuation and spaces dropped, full-width forms folded."""
    return re.sub(r"[\W_]+", "", narrow(title).casefold())
