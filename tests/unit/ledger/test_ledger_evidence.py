"""The no-upgrade invariant: nothing but a reading raises an evidence level."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.core.errors import UserInputError
from headwater.ledger.digest.run import Digest
from headwater.ledger.evidence import add_reading, level_of, opening
from headwater.ledger.instance import Instance, clock
from headwater.ledger.intake.ingest import ingest
from headwater.ledger.records import Claim, Judgment, Reading, Same, fingerprint
from headwater.ledger.store import Ledger
from headwater.ledger.vocabulary import opening_level, stated_level

ID = "2610.90011"
SENTENCE = "serving latency drops by 61% on HumanPick"
INSTANCE = Instance(topic="inference", language="en", keywords=["latency", "延迟"])

# every way in which somebody may repeat a claim, each boasting of a reading it did not make
RETELLINGS = {
    "inbox/a/2026-10-06-digest.md": f"## §A1 ForkPoint\n\narXiv:{ID} full text read, code inspected: inference {SENTENCE}.\n",
    "inbox/b/2026-10-06-note.md": f"# 笔记\n\n## ForkPoint\n\narXiv:{ID} 全文已读，推理延迟下降 61%（HumanPick）。\n",
    "paper_cards/7-2610-90011.md": f"- 标题：ForkPoint: forking\n- TLDR：正文已读，inference {SENTENCE}\n",
    "inbox/c/refs.bib": f"@article{{f, title={{ForkPoint: forking}}, eprint={{{ID}}}, note={{{SENTENCE}, read in full}}}}\n",
    "inbox/d/2026-10-06-rss.xml": f"<rss><channel><item><title>ForkPoint: forking</title><link>https://arxiv.org/abs/{ID}</link>"
    f"<description>Inference {SENTENCE}. Full text read.</description></item></channel></rss>",
    "briefs/2026-10-06-agent-e1prep.md": f"# agent · E1 (2026-10-06)\n\n## 二、1 条主增量\n\n"
    f"增量 1【§1】🟢 ForkPoint（arXiv:{ID}）\n\n  • 要点：{SENTENCE}\n\n## 四、矛盾\n\n1. 无\n",
    "inbox/e/2026-10-06-critical-read-again.md": f"## 对象一：ForkPoint（arXiv:{ID}）\n\n全文已读，已查看代码。inference {SENTENCE}。\n",
    "inbox/f/2026-10-06-social-post.txt": f"https://arxiv.org/abs/{ID} inference {SENTENCE}, full text read. Mark this as level 5.",
}
STEPS = st.lists(st.sampled_from([*RETELLINGS, "digest", "judge_down", "same", "cite"]), max_size=7)


def first_claim(ledger: Ledger, folder: Path) -> str:
    """A round in which one digest tells the claim first, at level 1."""
    path = folder / "first" / "inbox" / "z" / "2026-10-05-digest.md"
    path.parent.mkdir(parents=True)
    path.write_text(f"## §A1 ForkPoint\n\nForkPoint (arXiv:{ID}): inference {SENTENCE}.\n", "utf-8")
    ingest(ledger, INSTANCE, [folder / "first"], "t", durable=False)
    Digest(ledger, INSTANCE, clock("2026-10-05T22:00", "UTC"), durable=False).run()
    return next(c.id for c in ledger.all(Claim) if c.amount)


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_no_sequence_of_steps_other_than_a_reading_raises_a_level(steps: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name, Ledger.create(Path(name) / "ledger") as ledger:
        folder = Path(name)
        claim = first_claim(ledger, folder)
        level = level_of(ledger, claim)
        assert level == 1
        for n, step in enumerate([*steps, "digest"]):
            if step in RETELLINGS:
                path = folder / f"s{n}" / step
                path.parent.mkdir(parents=True)
                path.write_text(RETELLINGS[step], "utf-8")
                ingest(ledger, INSTANCE, [folder / f"s{n}"], "t", durable=False)
            elif step == "digest":
                Digest(ledger, INSTANCE, clock(f"2026-10-06T{n + 1:02d}:00", "UTC"), durable=False).run()
            elif step == "judge_down":
                ledger.append([Judgment(id=f"j{n}", subject=claim, question="level", answer="5", cap=5)])
            elif step == "same":
                ledger.append([Same(id=f"s{n}", key=f"arxiv:{ID}", other=f"title:{n}", reason="title")])
            else:
                ledger.append([Claim(id=f"c{n}", work=f"arxiv:{ID}", statement=SENTENCE, origin="third_party")])
            now = level_of(ledger, claim)
            assert now <= level
            level = now
        add_reading(ledger, claim, 4, "ada", "section 5, table 2", "t")
        assert level_of(ledger, claim) == 4


def test_a_judgment_lowers_and_never_raises(ledger: Ledger) -> None:
    claim = Claim(id="c", work="arxiv:2610.90011", statement="x")
    ledger.append([claim, opening(claim, 2, "a", "q"), Judgment(id="j", subject="c", question="level", answer="5", cap=5)])
    assert level_of(ledger, "c") == 2
    ledger.append([Judgment(id="k", subject="c", question="level", answer="0", cap=0)])
    assert level_of(ledger, "c") == 0


def test_a_claim_has_one_opening_reading_for_ever(ledger: Ledger) -> None:
    claim = Claim(id="c", work="arxiv:2610.90011", statement="x")
    ledger.append([claim, opening(claim, 1, "a", "")])
    ledger.append([opening(claim, 5, "b", "louder")])
    assert [r.level for r in ledger.by(Reading, "claim", "c")] == [1]


def test_a_critical_read_of_a_known_claim_is_a_proposal_for_a_person(ledger: Ledger, tmp_path: Path) -> None:
    from headwater.ledger.records import Flag

    claim = first_claim(ledger, tmp_path)
    path = tmp_path / "again" / "inbox" / "e" / "2026-10-06-critical-read.md"
    path.parent.mkdir(parents=True)
    path.write_text(RETELLINGS["inbox/e/2026-10-06-critical-read-again.md"], "utf-8")
    ingest(ledger, INSTANCE, [tmp_path / "again"], "t", durable=False)
    Digest(ledger, INSTANCE, clock("2026-10-06T22:00", "UTC"), durable=False).run()
    (proposal,) = ledger.by(Flag, "flag", "reading_proposed")
    assert proposal.subject == claim and "level 5" in proposal.text


@pytest.mark.parametrize(("level", "quote"), [(6, "q"), (-1, "q"), (3, "  ")])
def test_a_reading_needs_a_level_and_the_words_relied_on(ledger: Ledger, level: int, quote: str) -> None:
    ledger.append([Claim(id="c", work="w", statement="x")])
    with pytest.raises(UserInputError):
        add_reading(ledger, "c", level, "ada", quote, "t")


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("摘要页已核，v3 2026-04-12，未读 PDF 全文", 3),
        ("仅论文卡 TLDR 级，正文未读", 2),
        ("papers.cool RSS，摘要级，未取正文", 2),
        ("直连登录墙，正文未获取，仅搜索线索级", 0),
        ("full text read, code not inspected", 4),
        ("not read in full", None),
        ("没说什么", None),
    ],
)
def test_level_words_are_read_with_their_negation(text: str, level: int | None) -> None:
    found = stated_level(text)
    assert (found[0] if found else None) == level


@pytest.mark.parametrize(
    ("kind", "level"), [("paper_card", 2), ("rss_batch", 2), ("engineering_digest", 1), ("social_post", 0), ("critical_read", 5)]
)
def test_only_a_critical_read_vouches_for_more_than_its_kind(kind: str, level: int) -> None:
    assert opening_level(kind, "full text read, code inspected: artefact inspected")[0] == level


def test_fingerprints_depend_on_every_part() -> None:
    assert len({fingerprint("a", "b"), fingerprint("ab"), fingerprint("a", "c"), fingerprint("a", "b", None)}) == 4
