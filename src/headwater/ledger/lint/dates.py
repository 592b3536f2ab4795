"""Rules 2 and 51: dates fit each other — identifier months, versions, venues, ages, weekdays, the brief's own window."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime, timedelta

from headwater.ledger import facts
from headwater.ledger.lint import words
from headwater.ledger.lint.brief import Brief, Item
from headwater.ledger.lint.finding import Finding, Place
from headwater.ledger.lint.names import name_key, names_in
from headwater.ledger.lint.numerals import value_of
from headwater.ledger.lint.registry import check
from headwater.ledger.parse.ids import ArxivId, IdMention, find_dates, find_ids

_VERSION_DATE = re.compile(
    r"(?<![\w.])v(?P<v>\d{1,2})\b\s*[(（,，:：·]?\s*(?:dated|of|from|on|submitted|posted|发布于|提交于|"
    r"于)?\s*(?P<d>20\d\d-\d{1,2}(?:-\d{1,2})?)(?!\d)",
    re.IGNORECASE,
)
_SUBMITTED = re.compile(
    r"(?:submitted|posted|first version|首次提交|提交于|挂出)\s*(?:on|于|：|:)?\s*(?P<d>20\d\d-\d{1,2}-\d{1,2})", re.IGNORECASE
)
_MONTH_TAG = re.compile(r"(?:^|[·|,，;；（(]\s*)(?P<d>20\d\d-\d{2})\s*(?=[）)·|,，;；]|$)")
_AGE = re.compile(
    r"(?:v(?P<v>\d{1,2})\s*(?:发布|上线|公开|提交)?(?:后|至今|距今)?\s*(?:约|近|已|大约)?\s*(?P<n>\d{1,2}|[一二三四五六七八九十两]{1,3})\s*个?月)|"
    r"(?:(?:(?:about|some|roughly|nearly)\s)?(?P<n2>\d{1,2}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve) "
    r"months? (?:after|since|past) (?:the )?v(?P<v2>\d{1,2}))",
    re.IGNORECASE,
)
_DAYS_OLD = re.compile(
    r"(?P<d>20\d\d-\d{2}-\d{2})[^，。；;,\n]{0,12}?[，,]?\s*(?:距今|至今|已过|已有)\s*(?:约)?\s*(?P<n>\d{1,3})\s*天|"
    r"(?P<d2>20\d\d-\d{2}-\d{2})\s*\((?:that is )?(?P<n2>\d{1,3}) days ago\)",
    re.IGNORECASE,
)
_WEEKDAY = re.compile(
    r"(?P<d>20\d\d-\d{2}-\d{2})\s*[（(,，]?\s*(?:(?:周|星期|礼拜)(?P<zh>[一二三四五六日天])|(?P<en>Mon|Tue|Wed|Thu|Fri|Sat|"
    r"Sun)[a-z]*\b)|\b(?P<en2>Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,?\s+(?P<d2>20\d\d-\d{2}-\d{2})",
    re.IGNORECASE,
)
_WEEKDAY_FIRST = re.compile(r"(?:周|星期|礼拜)(?P<zh>[一二三四五六日天])\s*[（(]\s*(?P<d>20\d\d-\d{2}-\d{2})\s*[）)]")
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTH = r"(?P<month>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.?"
_DAYNAME = r"(?P<en>Mon|Tues?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?"
# dates written out; names of groups as in _WEEKDAY
_WRITTEN = (
    re.compile(rf"\b{_DAYNAME},?\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s+{_MONTH},?\s+(?P<year>20\d\d)", re.IGNORECASE),
    re.compile(rf"\b{_DAYNAME},?\s+{_MONTH}\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<year>20\d\d)", re.IGNORECASE),
    re.compile(rf"\b(?P<day>\d{{1,2}})\s+{_MONTH}\s+(?P<year>20\d\d)\s*[(,]\s*{_DAYNAME}\b", re.IGNORECASE),
    re.compile(r"(?P<year>20\d\d)\s*年\s*(?P<month>\d{1,2})\s*月\s*(?P<day>\d{1,2})\s*日\s*[（(，,]?\s*(?:周|星期|礼拜)(?P<zh>[一二三四五六日天])"),
)
_FIRST_SEEN = re.compile(
    r"(?:first seen|since|首见|首次出现|首次见于|自)[^()（）\n]{0,40}?(?P<d>20\d\d-\d{2}-\d{2})[^()（）\n]{0,40}?[;；,，]\s*(?:已|age:?\s*|已待)?\s*"
    r"(?P<n>\d{1,3})\s*(?:days?\b|天)(?!\s*[）)]?\s*(?:内|in))",
    re.IGNORECASE,
)
_IMPOSSIBLE = re.compile(r"(?<![\d.-])(?P<d>(?:19|20)\d\d-(?P<m>\d{2})-(?P<day>\d{2}))(?![\d-])")
_WINDOW = re.compile(
    r"(?P<a>20\d\d-\d{2}-\d{2}(?:[ T]\d{1,2}:\d{2})?)\s*(?:→|->|–|—|~|至|到|to|until)\s*(?P<b>20\d\d-\d{2}-\d{2}(?:[ "
    r"T]\d{1,2}:\d{2})?)(?P<tail>[^\n]{0,24})",
    re.IGNORECASE,
)
_LENGTH = re.compile(r"(?:约|about|~|approx\.?)?\s*(?P<n>\d{1,4})\s*(?P<u>h\b|hours?|小时|天|日|days?)", re.IGNORECASE)
_GENERATED = re.compile(
    r"(?:生成时间|生成于|generated(?: at| on)?|written at|compiled at)[*_\s]*[：:]?[*_\s]*(?P<d>20\d\d-\d{2}-\d{2}(?:[ T]\d{1,2}:\d{2})?)",
    re.IGNORECASE,
)
_FUTURE_OK = words.rx(r"将|预计|计划|截止|deadline|will|planned|expected|upcoming|forthcoming|due|scheduled|拟|待")


def _day(text: str) -> date | None:
    try:
        parts = [int(p) for p in text.split("-")]
        return date(parts[0], parts[1], parts[2] if len(parts) > 2 else 1)
    except ValueError:
        return None


def _month_end(year: int, month: int) -> date:
    return (date(year + month // 12, month % 12 + 1, 1)) - timedelta(days=1)


def _version_fits(number: str, version: int, when: str) -> bool:
    """v1 belongs to the identifier's month (or the last days of the one before); later versions to that month or later ones."""
    month = ArxivId(number).month
    stated = _day(when)
    if not month or not stated:
        return True
    first, last = date(*month, 1), _month_end(*month)
    if when.count("-") == 1:
        stated_end = _month_end(stated.year, stated.month)
        return stated_end >= first - timedelta(days=6) if version > 1 else stated <= last and stated_end >= first
    if version > 1:
        return stated >= first
    return first - timedelta(days=6) <= stated <= last


@check(51)
def version_dates(brief: Brief) -> Iterator[Finding]:
    """A version's date against the month coded in the identifier beside it."""
    for line, text in brief.text_lines():
        ids = [m for m in find_ids(text) if m.kind == "arxiv"]
        item = brief.item_at(line)
        for m in (*_VERSION_DATE.finditer(text), *_SUBMITTED.finditer(text)):
            number = _nearest(ids, m.start(), text) or (item.ids[0] if item and len(item.ids) == 1 else "") or _named(brief, text[: m.start()])
            version = int(m.groupdict().get("v") or 1)
            if number and not _version_fits(number, version, m["d"]):
                year, month = ArxivId(number).month or (0, 0)
                away = item is not None and not any(i.value == number for i in ids) and number in brief.lines[item.line - 1]
                related = (Place(item.line, number),) if item and away else ()
                yield Finding(
                    51,
                    Place(line, m[0].strip("（( ,，")),
                    f"identifier {number} is of {year}-{month:02d}, but v{version} is dated {m['d']}",
                    f"v1 in {year}-{month:02d}" if version == 1 else f"v{version} not before {year}-{month:02d}",
                    related,
                    "calendar",
                )


def _nearest(ids: list[IdMention], at: int, text: str) -> str:
    """The last identifier before a place in the same bullet, without a sentence's end between them."""
    before = [i for i in ids if i.end <= at and not re.search(r"[。；;]|\s-\s", text[i.end : at])]
    return before[-1].value if before else ""


def _named(brief: Brief, before: str) -> str:
    """The identifier of the only work with one that a clause names in front of a version."""
    clause = re.split(r"[。；;]|\s-\s", before)[-1]
    keys = {n.key for n in names_in(clause)}
    hits = [number for number, name in brief.works.items() if name_key(name) in keys]
    return hits[0] if len(hits) == 1 else ""


@check(51)
def month_tags(brief: Brief) -> Iterator[Finding]:
    """The month written behind an identifier in the citable list."""
    for item in brief.of("citable", "adjacent", "carry_over"):
        if len(item.ids) != 1:
            continue
        month = ArxivId(item.ids[0]).month
        for piece in item.pieces:
            for m in _MONTH_TAG.finditer(piece.text):
                if month and m["d"] != f"{month[0]}-{month[1]:02d}":
                    yield Finding(
                        51,
                        piece.place(m["d"]),
                        f"{item.ids[0]} is of {month[0]}-{month[1]:02d}, the list says {m['d']}",
                        f"{month[0]}-{month[1]:02d}",
                        (),
                        "calendar",
                    )


@check(51)
def from_the_future(brief: Brief) -> Iterator[Finding]:
    """An identifier or a version that did not exist on the day of the brief."""
    today = brief.date
    if not today:
        return
    told: set[str] = set()
    for line, number, start, end in brief.ids:
        month = ArxivId(number).month
        if month and date(*month, 1) > today + timedelta(days=1) and number not in told:
            told.add(number)
            yield Finding(
                51,
                Place(line, brief.lines[line - 1][start:end]),
                f"{number} is of {month[0]}-{month[1]:02d}, the brief of {today}",
                "an identifier that existed",
                (),
                "calendar",
            )
    for line, text in brief.text_lines():
        for m in _VERSION_DATE.finditer(text):
            when = _day(m["d"])
            if when and when > today + timedelta(days=1) and not _FUTURE_OK.search(text[max(0, m.start() - 20) : m.end() + 10]):
                yield Finding(
                    51,
                    Place(line, m[0].strip("（( ,，")),
                    f"v{m['v']} is dated {m['d']}, after the brief ({today})",
                    f"a date up to {today}",
                    (),
                    "calendar",
                )


def _venues() -> re.Pattern[str]:
    names = sorted((n for f in facts.load("venues") for n in (f["name"], *f.get("aliases", []))), key=len, reverse=True)
    return re.compile(
        rf"(?<![\w-])(?P<v>{'|'.join(map(re.escape, names))})(?:\s*['’]?\s*(?P<y2>\d\d)(?!\d)|\s*[-,]?\s*(?P<y>20\d\d))",
        re.IGNORECASE,
    )


def venue_end(name: str, year: int) -> tuple[date, dict[str, object]] | None:
    """Last day of a conference and the fact it comes from."""
    fact = facts.by_name("venues").get(name.lower())
    span = fact and fact["years"].get(str(year))
    return (date.fromisoformat(span.split("/")[1]), fact) if fact and span else None


@check(51)
def venue_dates(brief: Brief) -> Iterator[Finding]:
    """A meeting that was over more than a month before the identifier was given out."""
    pattern = _venues()
    for item in brief.of("increment", "citable", "adjacent", "carry_over"):
        told: set[str] = set()
        for piece in item.pieces:
            if item.kind == "increment" and piece.key not in {"venue", "title", "grade", ""}:
                continue
            for m in pattern.finditer(piece.text):
                year = int(m["y"] or f"20{m['y2']}")
                known = venue_end(m["v"], year)
                numbers = _owners(item, piece.text, m.start())
                if not known or not numbers or m[0].lower() in told:
                    continue
                end, fact = known
                late = [n for n in numbers if (month := ArxivId(n).month) and date(*month, 1) > end + timedelta(days=31)]
                if len(late) == len(numbers):
                    told.add(m[0].lower())
                    yield Finding(
                        51,
                        piece.place(m[0]),
                        f"{m[0]} ended on {end}, but identifier {late[0]} is of 20{late[0][:2]}-{late[0][2:4]} "
                        f"({facts.cite(fact)})",
                        "a venue after the preprint, or a checked reference",
                        (Place(item.line, late[0]),) if late[0] in brief.lines[item.line - 1] else (),
                        "facts",
                    )


def _owners(item: Item, text: str, at: int) -> list[str]:
    """Identifiers a venue mention is about: the nearest before it in the same bullet, else all of the item's heading."""
    before = [i for i in find_ids(text) if i.kind == "arxiv" and i.end <= at]
    if before:
        return [before[-1].value]
    return item.ids


@check(51)
def ages(brief: Brief) -> Iterator[Finding]:
    """`about 7 months since v3`, `12 days ago`, against the day of the brief."""
    today = brief.date
    if not today:
        return
    dated: dict[tuple[str, int], tuple[date, int]] = {}
    for line, text in brief.text_lines():
        for m in _VERSION_DATE.finditer(text):
            item = brief.item_at(line)
            when = _day(m["d"])
            if item and when and item.ids:
                dated.setdefault((item.ids[0], int(m["v"])), (when, line))
    for line, text in brief.text_lines():
        item = brief.item_at(line)
        for m in _AGE.finditer(text):
            key = (item.ids[0] if item and item.ids else "", int(m["v"] or m["v2"]))
            n = value_of(m["n"] or m["n2"])
            if n is None or key not in dated:
                continue
            when, at = dated[key]
            months = (today - when).days / 30.44
            if abs(months - n) > max(1.0, 0.15 * n):
                yield Finding(
                    51,
                    Place(line, m[0].strip()),
                    f"v{key[1]} is of {when}: {months:.1f} months before {today}, not {n}",
                    f"about {round(months)} months",
                    (Place(at, str(when)),),
                    "calendar",
                )
        for m in (*_DAYS_OLD.finditer(text), *_FIRST_SEEN.finditer(text)):
            when = _day(m["d"] or m.groupdict().get("d2") or "0-0-0")
            n = int(m["n"] or m.groupdict().get("n2") or 0)
            if when and abs((today - when).days - n) > 1:
                yield Finding(
                    51,
                    Place(line, m[0].strip()),
                    f"{when} is {(today - when).days} days before {today}, not {n}",
                    f"{(today - when).days} days",
                    (),
                    "calendar",
                )


@check(51)
def weekdays_and_calendar(brief: Brief) -> Iterator[Finding]:
    """A weekday that is another one, a day that does not exist."""
    for line, text in brief.text_lines():
        for m, when, stated in _weekdays(text):
            if when and when.weekday() != stated:
                name = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"][when.weekday()]
                yield Finding(51, Place(line, m[0].strip("（( ")), f"{when} was a {name}", name, (), "calendar")
        for m in _IMPOSSIBLE.finditer(text):
            if _day(m["d"]) is None and 1 <= int(m["m"]) <= 99:
                yield Finding(51, Place(line, m["d"]), f"{m['d']} is not a day of the calendar", "an existing date", (), "calendar")


def _weekdays(text: str) -> Iterator[tuple[re.Match[str], date | None, int]]:
    """(match, day, stated weekday from 0 = Monday) of every date with a weekday."""
    for pattern in (_WEEKDAY, _WEEKDAY_FIRST, *_WRITTEN):
        for m in pattern.finditer(text):
            g = m.groupdict()
            english = g.get("en") or g.get("en2")
            stated = (
                ["mon", "tue", "wed", "thu", "fri", "sat", "sun"].index(english.lower()[:3])
                if english
                else "一二三四五六日".find(g["zh"].replace("天", "日"))
            )
            if g.get("year"):
                month = int(g["month"]) if g["month"].isdigit() else _MONTHS.index(g["month"].lower()[:3]) + 1
                yield m, _day(f"{g['year']}-{month}-{g['day']}"), stated
            else:
                yield m, _day(g.get("d") or g.get("d2") or ""), stated


def _moment(text: str) -> datetime | None:
    flat = text.replace("T", " ").strip()
    for form in ("%Y-%m-%d %H:%M", "%Y-%m-%d"):
        try:
            return datetime.strptime(flat, form)
        except ValueError:
            continue
    return None


@check(2)
def window_and_generation(brief: Brief) -> Iterator[Finding]:
    """The window runs forward, has the stated length, and ends when the brief was generated; the title has the same day."""
    head = [(n, t) for n, t in brief.text_lines() if brief.kind_at(n) in {"header", "status"}][:20]
    made = next(((n, m) for n, t in head for m in [_GENERATED.search(t)] if m), None)
    when = _moment(made[1]["d"]) if made else None
    titled = next((d.value for n, t in head[:1] for d in find_dates(t) if len(d.value) == 10), "")
    if made and when and titled and titled != str(when.date()):
        yield Finding(
            2,
            Place(made[0], made[1][0]),
            f"generated {when.date()}, the title says {titled}",
            "one day",
            (Place(head[0][0], titled),),
            "calendar",
        )
    for n, text in head:
        for m in _WINDOW.finditer(text):
            a, b = _moment(m["a"]), _moment(m["b"])
            if (
                not a
                or not b
                or (
                    m.start()
                    and not re.search(
                        r"窗口|window|period|cover|时段|区间", text[max(0, m.start() - 16) : m.start()], re.IGNORECASE
                    )
                )
            ):
                continue
            span = f"{m['a']}{text[m.end('a') : m.start('b')]}{m['b']}"
            if b <= a:
                yield Finding(2, Place(n, span), "the window ends before it begins", "start before end", (), "calendar")
                continue
            length = _LENGTH.search(m["tail"])
            if length:
                hours = (b - a).total_seconds() / 3600
                stated = int(length["n"]) * (1 if length["u"].lower().startswith(("h", "小")) else 24)
                if abs(hours - stated) > max(1.0, 0.1 * stated):
                    yield Finding(
                        2,
                        Place(n, f"{span}{m['tail'][: length.end()]}"),
                        f"the window has {hours:g} hours, {length[0].strip()} is stated",
                        f"{hours:g} h",
                        (),
                        "calendar",
                    )
            if when and when.hour + when.minute and b > when and ":" in m["b"]:
                yield Finding(
                    2,
                    Place(n, span),
                    f"the window ends after the brief was generated ({when})",
                    "an end up to the time of generation",
                    (),
                    "calendar",
                )
