"""Claims: predictions frozen before runs, verdicts by rule, companions owed, nothing overwritten."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledger_round import ROOT

from headwater.core.errors import FormatError, UserInputError
from headwater.ledger import claims, experiments
from headwater.ledger.evidence import level_of
from headwater.ledger.records import Claim, Prediction, Run
from headwater.ledger.store import Ledger
from headwater.ledger.verdict import COMPANIONS, Exactness, Outcome, required_companions, rule

FULL: dict[str, Any] = {c: "given" for family in COMPANIONS for c in required_companions(family)}
SAME = {"model": "Gemma-4-E4B", "hardware": "H100"}


def predicted(**change: Any) -> Prediction:
    body: dict[str, Any] = {
        "id": "p",
        "claim": "c",
        "direction": -1,
        "magnitude": -0.24,
        "setting": SAME,
        "companions": required_companions("speculation"),
    }
    return Prediction(**{**body, **change})


def seen(low: float, high: float, **change: Any) -> Outcome:
    body: dict[str, Any] = {"value": (low + high) / 2, "interval": (low, high), "n": 20, "setting": SAME, "companions": FULL}
    return Outcome(**{**body, **change})


CASES: list[tuple[str, Prediction, Outcome, str]] = [
    ("inside the tolerance in the same setting", predicted(), seen(-0.27, -0.21), "reproduced"),
    ("direction holds, magnitude does not", predicted(), seen(-0.12, -0.05), "partly"),
    ("direction holds in another setting", predicted(), seen(-0.27, -0.21, setting={"model": "SmolLM2"}), "partly"),
    ("opposite in the same setting", predicted(), seen(0.05, 0.1), "refuted"),
    ("opposite number in another setting", predicted(), seen(0.05, 0.1, setting={}), "inconclusive"),
    ("opposite mechanism in another setting", predicted(magnitude=None), seen(0.05, 0.1, setting={}), "refuted"),
    ("straddles zero", predicted(), seen(-0.1, 0.1), "inconclusive"),
    ("too few repetitions", predicted(), seen(-0.27, -0.21, n=3), "inconclusive"),
    ("opposite but underpowered", predicted(), seen(0.05, 0.1, n=3), "inconclusive"),
    ("companions missing", predicted(), seen(-0.27, -0.21, companions={}), "partly"),
    ("simulated", predicted(), seen(-0.27, -0.21, simulated=True), "partly"),
    ("no interval", predicted(), Outcome(value=-0.24, n=20, setting=SAME, companions=FULL), "inconclusive"),
    ("better than claimed", predicted(), seen(-0.5, -0.45), "reproduced"),
    ("hardware missing", predicted(), Outcome(missing=["H100"]), "not_testable_here"),
    ("direction only", predicted(magnitude=None), seen(-0.12, -0.05), "reproduced"),
    ("a gain", predicted(direction=1, magnitude=2.4), seen(2.2, 2.6), "reproduced"),
]


@pytest.mark.parametrize(("name", "prediction", "outcome", "verdict"), CASES, ids=[c[0] for c in CASES])
def test_the_verdict_follows_the_rules(name: str, prediction: Prediction, outcome: Outcome, verdict: str) -> None:
    assert rule(prediction, outcome).verdict == verdict


def exact(compared: int, violations: int, **change: Any) -> Outcome:
    return Outcome(
        exactness=Exactness(compared=compared, violations=violations, counter_example="row 3" if violations else ""), n=1, companions=FULL, **change
    )


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [
        (exact(640, 0, setting=SAME), "reproduced"),
        (exact(640, 0), "partly"),
        (exact(640, 1), "refuted"),
        (exact(0, 0, setting=SAME), "inconclusive"),
        (Outcome(companions=FULL, setting=SAME), "inconclusive"),
        (exact(640, 0, setting=SAME, simulated=True), "partly"),
    ],
)
def test_an_exactness_claim_falls_with_one_counter_example(outcome: Outcome, verdict: str) -> None:
    assert rule(predicted(exactness=True, direction=0, magnitude=None), outcome).verdict == verdict


def test_better_than_claimed_is_marked() -> None:
    found = rule(predicted(), seen(-0.5, -0.45))
    assert found.exceeded and "look at the baseline" in found.reasons[-1]


def test_differing_fields_are_named() -> None:
    found = rule(predicted(), seen(-0.27, -0.21, setting={"model": "SmolLM2"}))
    assert found.differs == ["model: claimed Gemma-4-E4B, here SmolLM2", "hardware: claimed H100, here not stated"]


NUMBER = st.floats(-2, 2, allow_nan=False)


@given(
    NUMBER,
    NUMBER,
    st.integers(0, 40),
    st.booleans(),
    st.dictionaries(st.sampled_from(sorted(FULL)), st.just("x")),
    st.sampled_from([SAME, {}, {"model": "other"}]),
)
def test_nothing_is_reproduced_without_companions_setting_and_a_real_run(
    a: float, b: float, n: int, simulated: bool, companions: dict[str, str], setting: dict[str, str]
) -> None:
    prediction = predicted()
    found = rule(prediction, seen(min(a, b), max(a, b), n=n, simulated=simulated, companions=companions, setting=setting))
    if found.verdict == "reproduced":
        assert not simulated and setting == SAME and n >= 5 and set(prediction.companions) <= set(companions)
    if found.verdict == "refuted":
        assert setting == SAME and n >= 5 and min(a, b) > 0


@pytest.fixture
def claim(ledger: Ledger) -> Claim:
    return claims.add_claim(
        ledger, "arxiv:2610.90011", "two ways give the same order", at="t0", by="ada", level=2, quote="abstract", kind="mechanism"
    )


def test_a_bound_command_is_run_and_stored_with_its_verdict(ledger: Ledger, claim: Claim) -> None:
    folder = ROOT / "experiments"
    claims.bind(ledger, claim, experiments.find(folder, "sort_identity"), at="t1", by="ada", exactness=True)
    run = claims.verify(ledger, claim, folder, at="t2", by="ada")
    assert (run.verdict, run.verdict_kind) == ("reproduced", "replication")
    assert run.environment["cores"] and run.outcome["exactness"]["compared"] == 20
    assert level_of(ledger, claim.id) == 2


def test_a_new_run_is_added_and_the_old_one_stays(ledger: Ledger, claim: Claim) -> None:
    folder = ROOT / "experiments"
    claims.bind(ledger, claim, experiments.find(folder, "sort_identity"), at="t1", by="ada", exactness=True)
    for at in ("t2", "t3"):
        claims.verify(ledger, claim, folder, at=at, by="ada")
    assert [r.at for r in ledger.by(Run, "claim", claim.id)] == ["t2", "t3"]


def test_the_prediction_is_frozen_before_the_run(ledger: Ledger, claim: Claim) -> None:
    binding = claims.bind(ledger, claim, experiments.find(ROOT / "experiments", "sort_identity"), at="t1", by="ada", exactness=True)
    run = claims.verify(ledger, claim, ROOT / "experiments", at="t2", by="ada")
    prediction = ledger.get(binding.prediction)
    assert run.prediction == prediction.id and prediction.at < run.at and len(prediction.id) == 64


def test_a_percentage_becomes_a_signed_fraction(ledger: Ledger) -> None:
    claim = claims.add_claim(
        ledger, "arxiv:2610.90011", "latency -24.1%", at="t", by="a", level=1, quote="q", metric="latency", value=-24.1, unit="%"
    )
    binding = claims.bind(ledger, claim, experiments.find(ROOT / "experiments", "sort_identity"), at="t", by="a")
    assert ledger.get(binding.prediction).magnitude == pytest.approx(-0.241)


def test_what_cannot_be_tested_here_says_what_is_missing(ledger: Ledger, claim: Claim) -> None:
    claims.bind_untestable(ledger, claim, ["eight H100", "weights"], at="t1", by="ada")
    run = claims.verify(ledger, claim, ROOT / "experiments", at="t2", by="ada")
    assert (run.verdict, run.missing) == ("not_testable_here", ["eight H100", "weights"])


def test_an_unbound_claim_cannot_be_verified(ledger: Ledger, claim: Claim) -> None:
    with pytest.raises(UserInputError, match="headwater claims bind"):
        claims.verify(ledger, claim, ROOT / "experiments", at="t", by="a")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.toml", "command = []", "command is missing"),
        ("a.toml", "x = 1\ncommand = ['true']", "x: Extra inputs"),
        ("a.toml", "= 1", "not valid TOML"),
        ("a.py", "EXPERIMENT = dict(a=1)", "literal dictionary"),
        ("a.py", "EXPERIMENT = {'family': 'odd'}", "family 'odd'"),
        ("a.py", "def (", "not readable as Python"),
    ],
)
def test_a_malformed_experiment_is_named(tmp_path: Path, name: str, text: str, words: str) -> None:
    (tmp_path / name).write_text(text, "utf-8")
    with pytest.raises(FormatError, match=words):
        experiments.registry(tmp_path)


def test_listing_runs_nothing(tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text("EXPERIMENT = {'title': 'x'}\nraise SystemExit('ran')\n", "utf-8")
    assert list(experiments.registry(tmp_path)) == ["loud"]


def test_a_python_experiment_gets_the_setting_and_returns_an_outcome(tmp_path: Path) -> None:
    (tmp_path / "echo.py").write_text(
        "EXPERIMENT = {'setting': {'batch': '1'}}\n\ndef run(setting):\n    return {'setting': setting, 'n': 1}\n", "utf-8"
    )
    done = experiments.run(experiments.find(tmp_path, "echo"), {"model": "m"})
    assert done.outcome.setting == {"batch": "1", "model": "m"}


@pytest.mark.parametrize(
    ("code", "words"),
    [("raise ValueError('no cache')", "no cache"), ("print('hello')", "no outcome"), ("import time; time.sleep(60)", "within 0.5 s")],
)
def test_a_failing_experiment_says_how(tmp_path: Path, code: str, words: str) -> None:
    (tmp_path / "bad.toml").write_text(f'command = ["{{python}}", "-c", "{code}"]\ntimeout = {0.5 if "sleep" in code else 30}\n', "utf-8")
    with pytest.raises(FormatError, match=words):
        experiments.run(experiments.find(tmp_path, "bad"), {})


def test_the_page_prints_level_boundary_verdict_and_command(ledger: Ledger, claim: Claim) -> None:
    claims.bind(ledger, claim, experiments.find(ROOT / "experiments", "sort_identity"), at="2026-10-06", by="ada", exactness=True)
    claims.verify(ledger, claim, ROOT / "experiments", at="2026-10-07", by="ada")
    page = claims.claims_page(list(claims.listed(ledger, bound=True)))
    assert "**reproduced**" in page and "boundary:" in page and f"headwater claims verify {claim.id}" in page and "body not read" in page


def test_an_experiment_imports_this_package_from_its_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "src")
    code = "EXPERIMENT = {'family': 'exactness'}\ndef run(setting):\n    import headwater\n    return {'note': headwater.__version__}\n"
    (tmp_path / "which.py").write_text(code, "utf-8")
    done = experiments.run(experiments.find(tmp_path, "which"), {})
    assert done.outcome.note == experiments.environment()["headwater"]


def test_our_own_claims_are_bound_to_experiments_that_exist_and_their_page_is_current(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "claims", tmp_path / "claims", ignore=shutil.ignore_patterns("index.sqlite*", "*lock"))
    with Ledger(tmp_path / "claims", lambda message: None) as ledger:
        ledger.catch_up()
        views = list(claims.listed(ledger, bound=True))
    assert {"fork_exactness", "chunked_greedy", "load_time"} <= {v.binding.experiment for v in views if v.binding}
    assert all(v.prediction and v.runs and v.prediction.at < v.runs[0].started for v in views)
    assert {v.binding.experiment for v in views if v.binding} <= set(experiments.registry(ROOT / "experiments"))
    assert claims.claims_page(views) == (ROOT / "docs" / "claims.md").read_text("utf-8")
