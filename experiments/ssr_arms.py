"""SSR in six arms: does an answer drafted from a cut-off chain of thought make the whole request faster, and what of it is the suffix lookup?"""

from __future__ import annotations

import statistics
from typing import Any

EXPERIMENT = {
    "title": "Self-speculation (SSR): end-to-end seconds of six arms, plain decoding to prefix and suffix reuse",
    "family": "speculation",
    "timeout": 3600.0,
    "needs": ["smollm2-135m-instruct"],
    "setting": {"model": "SmolLM2-135M-Instruct", "think": "48", "answer": "64", "draft_at": "12", "tasks": "8"},
}

QUESTIONS = (
    "Write a Python class Stack with push, pop, peek, size and is_empty, each with a docstring.",
    "Write a Python function that counts how often each word occurs in a text, with a docstring and two asserts.",
    "List the numbers from 1 to 30 with their squares, one per line, as `n: square`.",
    "Copy this list and sort it by name: Tom 31, Anna 25, Zoe 44, Ben 19, Mia 38, Leo 27.",
    "Write a Python class Queue with enqueue, dequeue, front, size and is_empty, each with a docstring.",
    "Write a SQL table for books with title, author, year and price, and five INSERT statements.",
    "A train travels 60 km in the first hour and 80 km in the second. How far does it come in all? Show each step.",
    "Write an HTML page with a heading, a paragraph, and a table of three rows and three columns.",
)


def run(setting: dict[str, str]) -> dict[str, Any]:
    """One outcome; see experiments/README.md."""
    from headwater import __version__
    from headwater.bench.intervals import paired
    from headwater.bench.speculate import Plan, run_arms
    from headwater.bench.speculate_cost import Bench, company_curve, verify_curve
    from headwater.core.drafting import DraftCounts
    from headwater.engine.build import calibrate
    from headwater.llm import LLM

    plan = Plan(think=int(setting["think"]), answer=int(setting["answer"]), draft_at=int(setting["draft_at"]))
    llm = LLM("smollm2-135m-instruct", context=2048)
    calibrate(llm.engine)
    bench = Bench(llm)
    try:
        cost = {g: round(statistics.median(v), 3) for g, v in verify_curve(bench, 256, [1, 4, 8], 3).items()}
        company = round(statistics.median(company_curve(bench, 256, [2], 3)[2]), 3)
        results = run_arms(bench, list(QUESTIONS[: int(setting["tasks"])]), plan, lambda _: None)
    finally:
        llm.close()
    plain, both = results["A plain"], results["F ssr both"]

    def end(r: Any) -> list[float]:
        return [p + s for p, s in zip(plain.prefill, r.seconds, strict=True)]

    change = {name: paired(end(r), end(plain)) for name, r in results.items() if name != "A plain"}
    counts = DraftCounts.total(both.counts) or DraftCounts()
    tasks = len(plain.seconds)
    differ = sum(tasks - r.identical for r in results.values())
    ours = change["F ssr both"]
    ratios = {
        name: {"mean of ratios": round(statistics.fmean(a / x for a, x in zip(end(plain), end(r), strict=True)), 4),
               "ratio of means": round(sum(end(plain)) / sum(end(r)), 4),
               "accepted": {s: a for s, (_, a) in (DraftCounts.total(r.counts) or DraftCounts()).by_source.items()}}
        for name, r in results.items()
    }
    return {
        "metric": "e2e_latency", "value": round(ours.mean - 1, 4), "interval": [round(ours.low - 1, 4), round(ours.high - 1, 4)], "n": tasks,
        "setting": {"model": "SmolLM2-135M-Instruct", "task": "code and lists", "batch": "1", "baseline": "plain decoding, same engine"},
        "exactness": {"compared": tasks * len(results), "violations": differ, "counter_example": "" if not differ else "see `ablation`"},
        "companions": {
            "baseline_name": "plain autoregressive decoding", "baseline_version": __version__, "baseline_flags": "--draft none",
            "baseline_generation": "same build", "quality_cost": 0.0 if not differ else None,
            "ablation": {name: [round(c.mean - 1, 4), round(c.low - 1, 4), round(c.high - 1, 4)] for name, c in change.items()},
            "alpha": round(counts.alpha, 4), "tau": round(counts.tau, 4), "draft_length_histogram": counts.summary()["draft_lengths"] or {"0": 0},
            "verify_cost": {f"v({g})": v for g, v in cost.items()}, "greedy_identity": f"{tasks * len(results) - differ}/{tasks * len(results)}",
            "acceptance_by_position": counts.summary()["acceptance_by_position"], "two_rows_over_one": company, "both_means": ratios,
            "draft_seconds": {"hidden (priced)": round(both.hidden, 3), "exposed": 0.0, "tokens drawn beside": both.drawn_beside},
        },
        "note": f"two-stage prompts: {plan.think} thinking tokens, a cue, at most {plan.answer} answer tokens; forked at {plan.draft_at}; the model "
                "was not trained to reason, so its thoughts say little about its answers",
    }
