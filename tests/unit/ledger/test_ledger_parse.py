"""Identifiers, quantities and brief structure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.ledger.parse.brief import parse_brief
from headwater.ledger.parse.ids import arxiv_ids, canonical_url, find_dates, find_ids, find_links, find_sections, find_versions
from headwater.ledger.parse.quantity import find_quantities

ARXIV_FORMS = [
    ("2608.20359", "bare"),
    ("arXiv:2608.20359", "prefixed"),
    ("arXiv：２６０８.20359", "prefixed"),
    ("https://arxiv.org/abs/2608.20359v2", "abs"),
    ("https://arxiv.org/html/2608.20359v1", "html"),
    ("http://www.arxiv.org/pdf/2608.20359.pdf", "pdf"),
    ("paper_cards/1197-2608-20359.md", "card"),
    ("https://doi.org/10.48550/arXiv.2608.20359", "link"),
]


@pytest.mark.parametrize(("text", "form"), ARXIV_FORMS)
def test_an_arxiv_id_is_found_in_every_form(text: str, form: str) -> None:
    (found,) = [i for i in find_ids(f"见（{text}）。") if i.kind == "arxiv"]
    assert (found.value, found.form) == ("2608.20359", form)


@pytest.mark.parametrize("text", ["2613.20359", "12608.203591", "3.2608.20359", "2608.2035", "v2608.1", "1504.0145"])
def test_a_number_that_is_no_arxiv_id_is_left_alone(text: str) -> None:
    assert arxiv_ids(text) == []


def test_a_card_name_gives_its_number_and_its_paper() -> None:
    (found,) = find_ids("1197-2609-01925.md")
    assert (found.card, found.value) == (1197, "2609.01925")


def test_a_link_ends_before_the_sentence_mark() -> None:
    assert [u.value for u in find_links("见 https://a.org/x（甲）；[b](https://b.org/y_(z)).")] == [
        "https://a.org/x",
        "https://b.org/y_(z)",
    ]


def test_tracking_parameters_do_not_make_another_link() -> None:
    assert canonical_url("https://www.A.org/x/?utm_source=q#top") == canonical_url("http://a.org/x")


def test_section_marks_keep_their_brackets() -> None:
    assert [s.value for s in find_sections("§1.(3) 与 §4.2、§A1")] == ["1.(3)", "4.2", "A1"]


def test_short_dates_take_the_given_year() -> None:
    assert [d.value for d in find_dates("9/22 与 2026-03，9-1/9-2，Feb 2026", 2026)] == [
        "2026-09-22",
        "2026-03",
        "2026-09-01",
        "2026-09-02",
        "2026-02",
    ]


def test_versions_carry_the_name_in_front() -> None:
    assert [(v.name, v.value) for v in find_versions("SGLang v0.5.21、EAGLE 3.1 与 v1.x")] == [
        ("SGLang", "0.5.21"),
        ("EAGLE", "3.1"),
        ("", "1.x"),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("端到端延迟 -24.1%", (24.1, 24.1, "%", -1, "", "e2e_latency")),
        ("加载速度快 4.7-6.3×", (4.7, 6.3, "×", 1, "", "load_time")),
        ("吞吐量提升最高 ~2.5×", (2.5, 2.5, "×", 1, "up_to", "throughput")),
        ("近 10 亿月活用户", (1e9, 1e9, "月活", 0, "about", "users")),
        ("68.5B/3B", (68.5e9, 68.5e9, "B", 0, "", "")),
        ("HumanEval -2.9% ~ -14.6%", (2.9, 14.6, "%", -1, "", "")),
        ("throughput up to 2.23x", (2.23, 2.23, "×", 0, "up_to", "throughput")),
        ("带宽 800 GB/s", (800, 800, "GB/s", 0, "", "bandwidth")),
        ("减少 36.3% GPU", (36.3, 36.3, "%", -1, "", "gpu_count")),
    ],
)
def test_a_quantity_is_typed(text: str, expected: tuple[float, float, str, int, str, str]) -> None:
    q = find_quantities(text)[0]
    assert (q.low, q.high, q.unit, q.direction, q.bound, q.metric) == (*map(pytest.approx, expected[:2]), *expected[2:])


def test_ids_dates_versions_times_and_paths_are_not_quantities() -> None:
    assert find_quantities("arXiv:2608.20359 2026-09-03 22:20 v0.5.21 §1.(3) inbox/a/2026-09-03T0820-x.md https://a.org/7") == []


@given(st.text())
def test_offsets_point_at_what_was_found(text: str) -> None:
    for q in find_quantities(text):
        assert text[q.start : q.end] == q.raw
    for i in find_ids(text):
        assert 0 <= i.start < i.end <= len(text)


@given(
    st.lists(
        st.sampled_from(
            [
                "# a",
                "## 二、增量",
                "增量 1【§1】x（2608.20359）",
                "• 来源：x",
                "要点：",
                "| a | b |",
                "|-|-|",
                "1. q",
                "---",
                "",
                "A row 1",
            ]
        )
    )
)
def test_every_line_belongs_to_exactly_one_place(lines: list[str]) -> None:
    brief = parse_brief("\n".join(lines))
    owned = [n for _, e in brief.walk() for n in range(e.line, e.end_line + 1)]
    assert len(owned) == len(set(owned))


BRIEF = """# topic · E1 (2026-01-02)

## 二、最重要的 2 条主增量

增量 1【§1.(1) · 2026-01-02】🟢 甲：乙（arXiv:2601.00001）

  • 来源：inbox/a/x.md §A1
  • 可信度：高（有代码）

要点：

  • 延迟 -3%
  • 吞吐 2×

建议归入节：§1.(1) 状态：NET-new（未锚入）

增量 2【§2】🟡 丙（arXiv:2601.00002）

## 四、矛盾

1. 甲与丙不一
2. 另一
"""


def test_an_increment_keeps_rank_tag_flag_ids_and_fields() -> None:
    first, second = parse_brief(BRIEF).entries("increment")
    assert (first.rank, first.tag, first.flag, first.ids) == ("1", "【§1.(1) · 2026-01-02】", "🟢", ["2601.00001"])
    assert [f.text for f in first.get("points") if f.text] == ["延迟 -3%", "吞吐 2×"]
    assert first.first("status") == "NET-new（未锚入）"
    assert second.ids == ["2601.00002"]


def test_a_field_span_points_into_its_line() -> None:
    brief = parse_brief(BRIEF)
    for _, entry in brief.walk():
        for f in entry.fields:
            assert brief.lines[f.line - 1][f.start : f.end] == f.text


def test_front_matter_becomes_header_fields() -> None:
    brief = parse_brief("---\ntitle: A note\nlevel: full text\n---\n# Head\ntext\n")
    assert {h.label: h.text for h in brief.header if h.label} == {"title": "A note", "level": "full text"}


HOSTILE = ["a", "a/", "1", "1,", "a.", "(", "up to ", "w-", "Qwen3-", "§1.", "-1", " ", "来源：", "被引1", "请"]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("piece", HOSTILE)
def test_a_long_hostile_line_is_read(piece: str) -> None:
    line = piece * 12000
    assert all(line[q.start : q.end] == q.raw for q in find_quantities(line))
    find_ids(line), find_versions(line), find_dates(line), find_links(line)
    assert parse_brief(line).lines == ([line] if line else [])
