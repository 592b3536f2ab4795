"""Whole simulated runs: figures, agents, fits; the command line."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from headwater.cli.main import app
from headwater.core.cost import NAMES, LinearCost
from headwater.core.errors import FormatError
from headwater.sim import storm
from headwater.sim.agents import Habits, Session, play, total
from headwater.sim.fit import Fit, fit, read_log
from headwater.sim.record import Objective, Record
from headwater.sim.run import Machine, Run
from headwater.sim.storm import SPECS
from headwater.sim.traces import Trace, poisson


def sessions(spec: str, habits: Habits, count: int = 1, memory: int = 200_000) -> list[Session]:
    return play(habits, count, memory, SPECS[spec])


SMALL = Habits(turns=40, system=100, message=25, reasoning=20, answer=16, retokenised=0.2)


@pytest.mark.parametrize("drops", [True, False])
def test_a_40_turn_agent_computes_new_stripped_and_retokenised_tokens_and_no_other(drops: bool) -> None:
    (agent,) = sessions("full", Habits(40, 100, 25, 20, 16, 0.2, drops))
    assert len(agent.turns) == 40
    assert [t.computed for t in agent.turns] == [t.due.recomputed for t in agent.turns]
    due = total([agent])[0]
    assert due.new > 0 and due.retokenised > 0 and (due.stripped > 0) == drops


@pytest.mark.parametrize("spec", ["window", "hybrid", "recurrent"])
def test_models_with_checkpoints_compute_no_more_where_templates_drop_the_reasoning(spec: str) -> None:
    (agent,) = sessions(spec, SMALL)
    assert [t.computed for t in agent.turns] == [t.due.recomputed for t in agent.turns]


@pytest.mark.parametrize("spec", ["window", "hybrid"])
def test_models_with_checkpoints_fall_back_at_most_to_the_last_message_border(spec: str) -> None:
    (agent,) = sessions(spec, Habits(20, 100, 25, 20, 16, 0.5, drops_reasoning=False))
    assert all(t.due.recomputed <= t.computed <= t.due.recomputed + 36 for t in agent.turns)


def test_two_sessions_that_alternate_do_not_lose_each_other_in_memory_for_both() -> None:
    agents = sessions("full", SMALL, 2, memory=4600)
    assert all(t.computed == t.due.recomputed for a in agents for t in a.turns)


def test_a_simulated_run_finishes_everybody_and_says_what_they_felt() -> None:
    report = Run(poisson(60, 2.0, 100, 15, 3), check="full").simulate()
    f = report.figures
    assert (f.finished, f.failed) == (60, 0)
    assert 0 < f.ttft["p50"] <= f.ttft["p99"] and 0 < f.itl["p50"] <= f.itl["p99"]
    assert f.goodput > 0 and f.output_tokens > 60


def test_ttft_of_a_lone_request_is_the_cost_of_its_prompt() -> None:
    trace = poisson(1, 1.0, 100, 5, 0)
    report = Run(trace).simulate()
    n = int(trace.prompt[0])
    from headwater.core.plan import StepFeatures

    assert report.figures.ttft["p50"] == pytest.approx(LinearCost().step_seconds(StepFeatures(n, 1, 1, n * (n + 1) // 2, 0, n)))


def test_shared_prompts_raise_the_hit_rate() -> None:
    alone, shared = (Run(poisson(100, 2.0, 100, 10, 3, shared=s)).simulate().figures.hit_rate for s in (0, 512))
    assert alone < 0.02 and shared > 0.6


def test_short_prompts_overtake_long_ones_under_sjf() -> None:
    long_short = poisson(120, 8.0, 60, 10, 5)
    long_short.prompt[::40] = 6000
    first = {s: Run(long_short, Machine(context=9000), sched=s).simulate().figures.ttft["p50"] for s in ("fcfs", "sjf")}
    assert first["sjf"] < 0.7 * first["fcfs"]


def test_goodput_counts_only_who_met_the_objective() -> None:
    trace = poisson(50, 2.0, 100, 20, 1)
    assert Run(trace, objective=Objective(1e-9, 1e-9)).simulate().figures.met == 0
    assert Run(trace, objective=Objective(1e9, 1e9)).simulate().figures.met == 50


def test_a_record_of_nothing_has_no_percentiles() -> None:
    assert Record().figures().ttft == {}


def log_lines(n: int = 300) -> list[str]:
    rng = np.random.default_rng(0)
    out = []
    for i in range(n):
        rows = int(rng.integers(1, 9))
        tokens = rows + int(rng.choice([0, 0, 100, 400]))
        kv = tokens * int(rng.integers(10, 900))
        held = rows * int(rng.integers(10, 900))
        seconds = 2e-3 + 5e-4 * tokens + 1e-5 * rows + 2e-8 * kv + 1e-7 * held
        out.append(json.dumps({"step": i, "tokens": tokens, "rows": rows, "reads": rows, "kv_positions": kv, "guesses": 0, "kv_held": held,
                               "plan_seconds": 1e-4 + 2e-6 * rows, "step_seconds": seconds, "apply_seconds": 5e-5}))
    return out


def test_a_fit_recovers_costs_and_own_share_of_a_log(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("\n".join(log_lines()))
    found = fit(*read_log(tmp_path / "log"))
    assert found.error["p90"] < 0.01
    assert found.overhead == (pytest.approx(1.5e-4, rel=0.05), pytest.approx(2e-6, rel=0.05))
    found.save(tmp_path / "cost.json")
    assert Fit.load(tmp_path / "cost.json").cost == found.cost


def cost_file(**terms) -> str:
    return json.dumps({"terms": dict.fromkeys(NAMES, 1e-4) | terms, "overhead": {"step": 0, "row": 0}})


@pytest.mark.parametrize("text", ["{", "{}", '{"terms": 3}', '{"terms": {"step": "x"}}', "null", "[" * 50_000, cost_file(step=float("nan")),
                                  cost_file(row=-1.0), cost_file(token=float("inf")), cost_file(token=10**400), cost_file(token_beyond_knee=-2e-4)])
def test_a_malformed_cost_file_is_one_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "c.json").write_text(text)
    result = run("sim", "run", "--generate", "--cost", str(tmp_path / "c.json"))
    assert result.exit_code != 0 and "cost model" in str(result.exception)


def test_a_run_with_fitted_costs_says_so_even_without_their_errors(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(cost_file(token_beyond_knee=-1e-4))
    out = run("sim", "run", "--generate", "--limit", "3", "--prompt", "20", "--output", "3", "--cost", str(tmp_path / "c.json")).output
    assert "built-in" not in out and "cost model" in out


@pytest.mark.parametrize("changes", [
    {"tokens": 3.7}, {"tokens": -4}, {"tokens": float("inf")}, {"kv_positions": 10**30}, {"reads": True}, {"step_seconds": float("nan")},
    {"step_seconds": float("inf")}, {"step_seconds": -1}, {"plan_seconds": float("nan")}, {"apply_seconds": "0.1"},
])
def test_a_step_that_cannot_be_is_one_error_that_names_its_line(tmp_path: Path, changes: dict) -> None:
    lines = log_lines(30)
    (tmp_path / "log").write_text("\n".join([*lines, json.dumps(json.loads(lines[0]) | changes)]))
    with pytest.raises(FormatError, match=f"log: line 31: not a step .*{next(iter(changes))}"):
        read_log(tmp_path / "log")


def test_a_step_log_nested_too_deeply_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("[" * 50_000)
    with pytest.raises(FormatError, match="line 1"):
        read_log(tmp_path / "log")


def test_a_storm_that_breaks_says_how_to_replay_that_storm(monkeypatch) -> None:
    begun = []

    class Broken(storm.Storm):
        def run(self) -> storm.StormReport:
            begun.append((self.seed, self.n))
            if len(begun) == 3:
                raise storm.StormError("no luck")
            return super().run()

    monkeypatch.setattr(storm, "Storm", Broken)
    result = run("sim", "storm", "--requests", "25", "--per", "10", "--seed", "7", "--sched", "sjf", "--shape", "hybrid")
    assert result.exit_code == 1
    assert "replay: headwater sim storm --seed 9 --requests 5 --per 5 --sched sjf --shape hybrid" in result.output
    assert begun == [(7, 10), (8, 10), (9, 5)]


def run(*args: str):
    return CliRunner().invoke(app, list(args))


def test_the_command_line_runs_compares_and_saves(tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    rooms = ["--sched", "fcfs", "--sched", "fair", "--evict", "slru:protected=0.5"]
    result = run("sim", "run", "--generate", "--limit", "15", *rooms, "--json", str(out))
    assert result.exit_code == 0, result.output
    assert "goodput" in result.output and "preempted" in result.output
    assert [r["setting"]["sched"] for r in json.loads(out.read_text())] == ["fcfs", "fair"]


def test_the_command_line_draws_a_picture(tmp_path: Path, shared: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra `plots`")
    trace = str(shared / "data/traces/mooncake_synthetic.jsonl")
    assert run("sim", "cache", "--trace", trace, "--limit", "80", "--evict", "lru", "--plot", str(tmp_path / "c.png")).exit_code == 0
    assert run("sim", "run", "--generate", "--limit", "20", "--plot", str(tmp_path / "r.png")).exit_code == 0
    assert all((tmp_path / n).read_bytes()[:4] == b"\x89PNG" for n in ("c.png", "r.png"))


@pytest.mark.parametrize(("args", "word"), [
    (["sim", "run"], "--trace"), (["sim", "run", "--trace", "nowhere.csv"], "nowhere.csv"),
    (["sim", "run", "--generate", "--sched", "nobody"], "nobody"), (["sim", "cache", "--trace", "x.jsonl", "--shares", "2"], "shares"),
    (["sim", "storm", "--shape", "round"], "round"), (["policies", "attic"], "attic"),
    (["sim", "run", "--generate", "--memory", "16", "--context", "16"], "--memory"),
    (["sim", "run", "--generate", "--rate", "nan"], "rate"), (["sim", "run", "--generate", "--bursts", "inf"], "bursts"),
    (["sim", "run", "--generate", "--prompt", "100000000"], "prompt"), (["sim", "run", "--generate", "--shared", "1000000000"], "shared"),
    (["sim", "run", "--generate", "--ttft", "inf", "--leavers", "0.5"], "--ttft"), (["sim", "run", "--generate", "--tpot", "-1"], "--tpot"),
    (["sim", "run", "--generate", "--speed", "inf"], "--speed"), (["sim", "run", "--generate", "--stretch", "inf"], "--stretch"),
    (["sim", "run", "--generate", "--scale", "inf"], "--scale"), (["sim", "run", "--generate", "--start", "1e9"], "--start"),
    (["sim", "run", "--generate", "--block", "1000000"], "--block"), (["sim", "run", "--generate", "--json", "/nowhere/x.json"], "--json"),
    (["sim", "run", "--generate", "--plot", "x.xyz"], ".png"), (["sim", "run", "--generate", "--plot", "."], "is a folder"),
    (["sim", "agents", "--turns", "3", "--memory", "1000"], "--memory"), (["sim", "agents", "--system", "1000000", "--turns", "1"], "--memory"),
])
def test_wrong_arguments_are_one_line_that_names_them(args: list[str], word: str) -> None:
    result = run(*args)
    assert result.exit_code != 0 and word in str(result.exception) and "\n" not in str(result.exception)


def test_policies_lists_every_resident() -> None:
    output = run("policies").output
    assert all(name in output for name in ("fcfs", "priority", "sjf", "fair", "lru", "slru", "lfu", "demand", "protected=0.8"))


def test_the_simulator_needs_no_native_module_no_model_and_no_server() -> None:
    heavy = ("headwater._native", "headwater.kernels", "headwater.worker", "headwater.serve", "torch")
    code = f"import sys, headwater.sim.run, headwater.sim.storm, headwater.sim.cache; print([m for m in sys.modules if m.startswith({heavy})])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_a_7500_token_prompt_stretches_no_gap_of_four_streams_beyond_the_budget() -> None:
    prompts, outputs = np.array([20, 20, 20, 20, 7500], np.int32), np.array([400, 400, 400, 400, 5], np.int32)
    trace = Trace("streams", np.array([0.0, 0.0, 0.0, 0.0, 0.5]), prompts, outputs)
    figures = Run(trace, sched="fcfs:seconds=0.1").simulate().figures
    assert figures.finished == 5
    assert 0.09 < figures.itl["max"] <= 0.1
