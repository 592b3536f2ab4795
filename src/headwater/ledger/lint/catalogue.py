"""What every rule means. Numbers are those of the evidence checklist; `headwater lint --explain N` prints one of these."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.ledger.lint.finding import Needs


@dataclass(frozen=True, slots=True)
class Rule:
    """number: checklist number. name: kebab-case, stable (used by SARIF). needs: what a check of this rule may have to look at."""

    number: int
    name: str
    what: str
    example: str
    needs: tuple[Needs, ...] = ("text",)


_RULES = (
    Rule(
        2,
        "header-dates",
        "The title's date, the time of generation and the window of a brief fit each other; a stated length fits its window.",
        "Window 2026-05-01 08:00 → 2026-05-03 08:00 (24 h): that window has 48 hours.",
        ("calendar",),
    ),
    Rule(
        6,
        "one-verdict-per-source",
        "Every source that was described stands in exactly one of the two lists, included or not included.",
        "Section 1 describes notes/a.md, the source totals list neither include nor exclude it.",
    ),
    Rule(
        7,
        "outside-the-batch",
        "When a batch declares its files by kind, nothing outside it may carry an increment.",
        '"All increments come from these 5 files (notes 4 + cards 1)", yet increments 2 and 5 cite two different cards.',
    ),
    Rule(
        13,
        "identifier-form",
        "An arXiv identifier has a month 01–12 and the right number of digits, and a link points at the work it stands beside.",
        "arXiv:2613.04567; or an item about 2605.11111 whose link is arxiv.org/abs/2605.11171.",
    ),
    Rule(
        18,
        "same-origin-counted-twice",
        "Retellings of one origin are not independent confirmations.",
        '"Three outlets independently confirm it" and, further down, "all three retell one press release".',
    ),
    Rule(
        20,
        "one-title-per-work",
        "One identifier has one title, and one title has one identifier.",
        '2604.01234 is "Paged Trees" in the id list and "A Survey of Serving" in the increment.',
    ),
    Rule(
        21,
        "two-cards-one-work",
        "Two cards (or queue entries) for one identifier are flagged.",
        "Cards 301-2604-01234 and 307-2604-01234.",
    ),
    Rule(
        23,
        "ambiguous-short-name",
        "A short name that several works of the field use is spelled out or given an identifier.",
        '"faster than SSD" in a text on speculation: self-speculative or speculative-speculative decoding?',
        ("text", "facts"),
    ),
    Rule(
        27,
        "authors-as-stated",
        "Affiliations are stated by the work itself, never inferred from another work; authors agree with what is known.",
        '"Authors: Example Labs (guessed from a paper on the same topic)".',
        ("text", "facts"),
    ),
    Rule(
        29,
        "number-with-its-definition",
        "A number carries how it was averaged and whether it was measured or simulated, and a change follows from its two values.",
        '"−20 % latency" for a work whose figure is a mean of per-sample ratios; "from 60 GB to 42 GB (45 % less)".',
        ("text", "facts"),
    ),
    Rule(
        32,
        "origin-of-the-number",
        "Author-reported, vendor, production and third-party numbers are not mistaken for each other.",
        '"validated in production" for results from a simulated cluster.',
        ("text", "facts"),
    ),
    Rule(
        33,
        "boundary-with-every-claim",
        "In a brief that states evidence boundaries, every increment has one.",
        "Five of six increments end with an evidence boundary; the fourth does not.",
    ),
    Rule(
        34,
        "graded-without-a-number",
        "A high grade needs at least one typed result, or a sentence that says numbers are missing.",
        '"Credibility: extremely high" above key points without a single figure.',
    ),
    Rule(
        42,
        "no-upgrade",
        "Repeating, translating, storing as a card or citing never raises what was read.",
        '"Now counted as verified, since three digests carry it."',
    ),
    Rule(
        43,
        "claims-stay-claims",
        "What was read only in abstract or card form is not told as proven.",
        '"Read: abstract only" and "this proves that routing is lossless" in one item.',
    ),
    Rule(44, "no-padding", "No minimum or target number of increments.", '"Two items were split to reach the usual ten."'),
    Rule(
        45,
        "one-file-only",
        "The brief step writes the brief and nothing else.",
        '"This run also updated the living document and the queue."',
    ),
    Rule(
        46,
        "advice-labelled",
        "Placement and tonight's handles are marked as advice.",
        'A section "Handles for tonight" without the word advice.',
    ),
    Rule(
        47,
        "counts-agree",
        "Header, summary, section headings, tables, brackets and footer give the same counts as the lists themselves.",
        '"Six increments" above five; "12 sources (4 + 3 + 2)"; "the only paper card" when two are cited.',
    ),
    Rule(
        48,
        "one-disposition-per-id",
        "Every citable identifier is used by an item, an adjacent row, a rejection or a register-only note, and by one of them "
        "only.",
        "2605.22222 stands in the id list and nowhere else.",
    ),
    Rule(
        49,
        "no-double-state",
        "No work is both anchored and pending, no source both included and not, no code both released and not found.",
        '"Foo — still pending" in section 1, "Foo (already anchored)" in the carry-over list.',
    ),
    Rule(
        50,
        "cited-source-was-checked",
        "A cited source stands in the checked list, and what the list says about it fits the citing item.",
        'An item cites "kim 5-2 0915"; no checked source is kim\'s at that time.',
    ),
    Rule(
        51,
        "dates-plausible",
        "Identifier month, version dates, venue dates, ages and weekdays fit each other and the day of the brief.",
        '2605.11111 "(v1 2026-03-02)"; or a May conference for a September identifier.',
        ("calendar", "facts"),
    ),
    Rule(
        52,
        "confirmation-needs-a-shared-quantity",
        "Two works confirm each other only when they report the same quantity.",
        '"Doubly confirmed", but one reports load time and the other cost.',
    ),
    Rule(
        53,
        "shared-phrase",
        "A distinctive phrase or list that two unrelated works share points at a mix-up.",
        'Increments 2 and 5 both have "NVMe / host RAM / peer RAM / object store" as their own design.',
    ),
    Rule(
        54,
        "known-facts",
        "Hardware, model and software facts agree with the fact tables.",
        '"H200 with 80 GB"; a flag named as enabling what it refuses.',
        ("facts",),
    ),
    Rule(
        55,
        "metric-defined",
        "A metric is a known one or defined, and a known one is not redefined.",
        '"TTBT doubles", never explained; "acceptance rate α (rate × length)".',
        ("text", "facts"),
    ),
    Rule(
        56,
        "level-words",
        "Words for what was read agree: an abstract page is no full text, and one work has one level.",
        '"Three papers read in full (abstract page, abstract page, digest)".',
    ),
    Rule(
        57,
        "grade-reasons",
        "Storage, citation counts, affiliation or missing bibliography alone never decide the grade of numbers.",
        '"Credibility: high (card stored)".',
        ("text", "facts"),
    ),
    Rule(
        58,
        "parties-of-a-conflict",
        "A relation has two different parties, and one event has one set of them.",
        '"Acme acquires Acme"; buyer X in the table, buyer Y in the contradictions.',
    ),
    Rule(
        59,
        "version-lines",
        "Software and paper versions belong to a known line and are named where lines differ.",
        '"stable v3.1" for a project whose releases are 0.9.x.',
        ("text", "facts"),
    ),
    Rule(60, "both-sides", "An unresolved conflict names both sides.", '"Reports contradict each other" without saying which.'),
    Rule(
        61,
        "kinds-of-optimisation",
        "Lower latency and an unchanged distribution are two axes; a method that changes outputs is not called lossless.",
        '"4-bit quantisation and speculative decoding, both lossless".',
    ),
    Rule(
        62,
        "gap-becomes-a-task",
        "A gap that several works share ends in a reading or a test.",
        '"Both omit accuracy." and no action.',
    ),
    Rule(
        63, "density-adds-up", "The counts per evidence level add up to the batch.", '"Of 6 notes 4 are abstracts and 3 are leads".'
    ),
    Rule(71, "at-most-three-handles", "At most three handles, and repair comes before adding.", "Five handles for one evening."),
)
CATALOGUE: dict[int, Rule] = {r.number: r for r in _RULES}


def explain(rule: Rule) -> str:
    """What `--explain` prints."""
    return f"{rule.number}  {rule.name}\n\n{rule.what}\n\nExample: {rule.example}\nNeeds: {', '.join(rule.needs)}"
