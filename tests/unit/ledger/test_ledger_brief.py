"""Rendering: round trips, both layouts and languages, counters from facts, one file, the same bytes."""

from __future__ import annotations

import hashlib
import json
import socket
from pathlib import Path

import pytest
from ledger_round import INBOX, Round
from typer.testing import CliRunner

from headwater.cli.main import app
from headwater.core.errors import UserInputError
from headwater.ledger.brief.facts import gained, lost
from headwater.ledger.brief.view import batches, find_batch, load_view
from headwater.ledger.brief.write import render
from headwater.ledger.instance import Instance
from headwater.ledger.intake.ingest import ingest
from headwater.ledger.parse.brief import parse_brief
from headwater.ledger.store import Ledger

SEEDS = (("000_4a29f0f3cf7dd673.txt", "D"), ("001_c7e6d8574e79db7a.txt", "B"))
DAY1, DAY2 = "inference 2026-10-06 22:00", "inference 2026-10-07 22:00"
CASES = [(lang, layout, form) for lang in ("zh", "en") for layout in "DB" for form in ("md", "text")]


def tree(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize(("language", "layout", "form"), CASES)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_brief_survives_ledger_and_rendering_without_losing_or_gaining_a_fact(
    shared: Path, ledger: Ledger, seed: tuple[str, str], language: str, layout: str, form: str
) -> None:
    path = shared / "seeds" / seed[0]
    ingest(ledger, Instance(topic="inference"), [path], "t", durable=False)
    text = render(load_view(ledger, batches(ledger)[0], language), layout, form)
    assert lost(path.read_text("utf-8"), text) == []
    assert gained(path.read_text("utf-8"), text) == []


@pytest.mark.parametrize("language", ["zh", "en"])
@pytest.mark.parametrize("form", ["md", "text"])
def test_our_own_brief_survives_a_second_ledger(two_days: Round, ledger: Ledger, tmp_path: Path, language: str, form: str) -> None:
    text = render(two_days.view(DAY2, language), "D", form)
    path = tmp_path / "2026-10-07-brief.md"
    path.write_text(text, "utf-8")
    ingest(ledger, two_days.instance, [path], "t", durable=False)
    again = render(load_view(ledger, batches(ledger)[0], language), "D", form)
    assert lost(text, again) == []


CUTS = [
    ("arXiv:2505.02922 — RetroInfer", "arXiv:2505.02923 — RetroInfer"),
    ("-24.1%", "-24.2%"),
    ("§1.(3) KV Cache · 2026", "§1.(4) KV Cache · 2026"),
    ("https://github.com/microsoft/retrievalattention", ""),
    ("状态：NET-new（均未锚入", "状态：anchored（均未锚入"),
    ("F NVIDIA", "NVIDIA"),
]


@pytest.mark.parametrize(("old", "new"), CUTS)
def test_the_difference_of_facts_notices_a_single_change(shared: Path, old: str, new: str) -> None:
    text = (shared / "seeds" / SEEDS[0][0]).read_text("utf-8")
    assert text.count(old) >= 1
    assert lost(text, text.replace(old, new, 1)) != []


def test_counters_in_header_summary_table_and_footer_agree(two_days: Round) -> None:
    for batch in (DAY1, DAY2):
        view = two_days.view(batch, "en")
        parsed = parse_brief(render(view, "D", "md"))
        main, beside = len(parsed.entries("increment")), len(parsed.entries("adjacent"))
        text = "\n".join(parsed.lines)
        assert (main, beside) == (len(view.increments), len(view.adjacent))
        assert f"main {main} (" in text and f"adjacent {beside}\n" in text
        assert f"net increment = {main} main + {beside} adjacent" in text
        assert len(parsed.entries("summary_row")) == main + beside
        included = [e for e in parsed.entries("source_total") if e.mark == "included"]
        excluded = [e for e in parsed.entries("source_total") if e.mark == "not_included"]
        assert f"sources checked: {len(included) + len(excluded)} (" in text
        assert f"included {len(included)} · not included {len(excluded)} · main {main} · adjacent {beside}" in text


def test_every_source_of_the_batch_is_listed_once_with_one_verdict(two_days: Round) -> None:
    view = two_days.view(DAY1)
    paths = [s.path for s in view.sources]
    assert len(paths) == len(set(paths)) == sum(view.batch.declared.values())
    assert all(s.verdict in {"included", "not_included"} for s in view.sources)


def test_every_id_of_a_brief_is_in_the_id_list_once(two_days: Round) -> None:
    from headwater.ledger.parse.ids import arxiv_ids

    for batch in (DAY1, DAY2):
        view = two_days.view(batch)
        text = render(view, "D", "md")
        listed = [i for c in view.citable for i in arxiv_ids(c.text)]
        carried = {i for c in view.carried for i in arxiv_ids(c.title)}
        assert len(listed) == len(set(listed))
        assert set(arxiv_ids(text)) == set(listed) | carried


@pytest.mark.parametrize("layout", ["D", "B"])
@pytest.mark.parametrize("language", ["zh", "en"])
def test_every_increment_is_printed_with_its_boundary_level_and_origin(two_days: Round, language: str, layout: str) -> None:
    view = two_days.view(DAY2, language)
    label = "evidence boundary" if language == "en" else "证据边界"
    origin = "author-reported" if language == "en" else "作者自报"
    for entry in parse_brief(render(view, layout, "md")).entries("increment"):
        assert len(entry.get("boundary")) == 1 and entry.first("boundary"), label
        assert origin in entry.text


def test_at_most_three_handles_and_the_repair_first(two_days: Round) -> None:
    for batch in (DAY1, DAY2):
        handles = two_days.view(batch).handles
        assert 1 <= len(handles) <= 3
        assert handles[0].repair and not any(h.repair for h in handles[1:])


def test_the_first_handle_names_the_sections_to_repair(two_days: Round) -> None:
    assert two_days.view(DAY1).handles[0].sections == ["1.1"]


@pytest.mark.parametrize("layout", ["D", "B"])
def test_the_sections_of_a_layout_are_complete_and_in_order(two_days: Round, layout: str) -> None:
    kinds = [s.kind for s in parse_brief(render(two_days.view(DAY1), layout, "md")).sections]
    wanted = {
        "D": ["status", "source", "increment", "adjacent", "contradiction", "citable", "summary", "source_total"],
        "B": ["increment", "contradiction", "citable", "rejection", "handle"],
    }[layout]
    assert [k for k in kinds if k in wanted][: len(wanted)] == wanted


def test_carry_over_has_first_seen_state_and_age(two_days: Round) -> None:
    (found,) = [c for c in two_days.view(DAY2).carried if "2610.90023" in c.title]
    assert (found.state, found.first_seen, found.age_days) == ("pending", "2026-10-06", 1)
    assert "2026-10-06" in render(two_days.view(DAY2), "D", "md")


def test_a_brief_is_compared_with_the_one_before(two_days: Round) -> None:
    assert DAY1 in render(two_days.view(DAY2, "en"), "D", "md")


def test_an_empty_batch_is_said_to_be_empty(work: Round, tmp_path: Path) -> None:
    work.note(tmp_path / "in", "inbox/a/n.md", "# Gardening\n\nRoses.\n")
    work.ingest(tmp_path / "in")
    work.digest()
    text = render(work.view(None, "en"), "D", "md")
    assert "nothing passed in this batch; no padding" in text


def test_json_carries_levels_and_the_counters_of_the_text(two_days: Round) -> None:
    body = json.loads(render(two_days.view(DAY1), "D", "json"))
    assert body["counts"]["increments"] == len(body["increments"]) > 0
    assert all(0 <= c["level"] <= 5 for c in body["claims"].values())


@pytest.mark.parametrize(("language", "layout", "form"), [*CASES, ("zh", "D", "json")])
def test_the_same_ledger_gives_the_same_bytes(tmp_path: Path, instance: Instance, language: str, layout: str, form: str) -> None:
    texts = []
    for name in "ab":
        with Ledger.create(tmp_path / name) as ledger:
            work = Round(ledger, instance)
            work.ingest(INBOX / "knowledge", INBOX / "day1")
            work.digest()
            texts.append(render(work.view(None, language), layout, form))
    assert texts[0] == texts[1]


def cli(*args: str) -> str:
    done = CliRunner().invoke(app, list(args), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def three_commands(home: Path) -> None:
    cli(
        "ledger",
        "ingest",
        str(INBOX / "knowledge"),
        str(INBOX / "day1"),
        "--instance",
        str(INBOX / "ledger.toml"),
        "-l",
        str(home),
        "--now",
        "2026-10-06T22:00",
        "-q",
    )
    cli("ledger", "digest", "-l", str(home), "--now", "2026-10-06T22:00", "-q")
    cli("brief", "-l", str(home))


def test_three_commands_lead_from_an_inbox_to_a_brief(tmp_path: Path) -> None:
    three_commands(tmp_path / "demo")
    assert (tmp_path / "demo" / "briefs" / "2026-10-06-inference.md").read_text("utf-8").startswith("# inference")


def test_the_brief_step_writes_exactly_one_file(tmp_path: Path) -> None:
    home = tmp_path / "demo"
    three_commands(home)
    before, material = tree(tmp_path), tree(INBOX)
    cli("brief", "-l", str(home), "--layout", "B", "--language", "en", "--out", str(tmp_path / "one.md"))
    after = tree(tmp_path)
    assert set(after) - set(before) == {"one.md"}
    assert {k: v for k, v in after.items() if k != "one.md"} == before
    assert tree(INBOX) == material


def test_nothing_in_the_chain_opens_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    three_commands(tmp_path / "demo")


def test_the_terminal_view_shows_increments_and_writes_nothing(tmp_path: Path) -> None:
    three_commands(tmp_path / "demo")
    before = tree(tmp_path)
    assert "LadderKV" in cli("brief", "-l", str(tmp_path / "demo"), "--show")
    assert tree(tmp_path) == before


def test_the_html_page_escapes_material_and_prints_boundaries(tmp_path: Path, instance: Instance) -> None:
    from headwater.ledger.page import pieces

    with Ledger.create(tmp_path / "l") as ledger:
        work = Round(ledger, instance)
        work.note(
            tmp_path / "in",
            "inbox/a/2026-10-06-note.md",
            "## TideTable\n\n<script>alert(1)</script> (arXiv:2610.90015): inference latency drops by 31%.\n",
        )
        work.ingest(tmp_path / "in")
        work.digest()
        page = "".join(pieces(ledger, "t", "en"))
    assert "<script>alert" not in page and "&lt;script&gt;alert" in page
    assert 'class="boundary small">' in page and "independent origin" in page


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("brief", "--layout", "X"), "layout: 'X' is none of D, B"),
        (("brief", "--batch", "nope"), "no batch 'nope'"),
        (("ledger", "init", "x"), "topic: missing"),
        (("claims", "show", "nope"), "none with id 'nope'"),
        (("ledger", "digest", "--now", "soon"), "no ISO date"),
    ],
)
def test_a_wrong_argument_is_one_clear_line(tmp_path: Path, args: tuple[str, ...], words: str) -> None:
    from headwater.core.errors import UserInputError

    home = tmp_path / "demo"
    three_commands(home)
    extra = () if "init" in args else ("-l", str(home))
    with pytest.raises(UserInputError, match="(?s)" + words.replace("(", "\\(")):
        CliRunner().invoke(app, [*args, *extra], catch_exceptions=False)


def test_find_batch_prefers_our_own_over_imported_ones(two_days: Round) -> None:
    assert find_batch(two_days.ledger, None).name == DAY2


@pytest.mark.parametrize("day", [DAY1, DAY2])
@pytest.mark.parametrize(("language", "layout"), [(lang, layout) for lang in ("zh", "en") for layout in "DB"])
def test_the_linter_is_silent_on_our_own_brief(two_days: Round, tmp_path: Path, day: str, language: str, layout: str) -> None:
    path = tmp_path / "brief.md"
    path.write_text(render(two_days.view(day, language), layout, "md"), "utf-8")
    done = CliRunner().invoke(app, ["lint", str(path)])
    assert done.exit_code == 0, done.output


def test_a_ledger_is_made_from_the_instance_above_the_notes(tmp_path: Path) -> None:
    home = str(tmp_path / "made")
    runner = CliRunner()
    for step in (["ledger", "ingest", str(INBOX / "day1"), "-q"], ["ledger", "digest", "-q"], ["brief"], ["lint", home]):
        done = runner.invoke(app, [*step, *([] if step[0] == "lint" else ["--ledger", home])])
        assert done.exit_code == 0, done.output


@pytest.mark.parametrize("command", [["brief", "--out"], ["claims", "page"], ["ledger", "html"]])
def test_a_folder_is_no_file_to_write(tmp_path: Path, command: list[str]) -> None:
    home, runner = str(tmp_path / "made"), CliRunner()
    for step in (["ingest", str(INBOX / "day1")], ["digest"]):
        assert runner.invoke(app, ["ledger", *step, "-q", "--ledger", home]).exit_code == 0
    done = runner.invoke(app, [*command, str(tmp_path), "--ledger", home])
    assert isinstance(done.exception, UserInputError) and str(done.exception).startswith(f"out: {tmp_path}")
