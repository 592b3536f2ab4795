"""Decoding under RetroInfer's zones against dense attention at 7,500 tokens: the smallest budget that keeps the divergence, and how much sooner."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

EXPERIMENT = {
    "title": "RetroInfer: a decoding step over an index against a dense one",
    "family": "compression",
    "timeout": 5400.0,
    "needs": ["smollm2-135m-instruct"],
    "setting": {"model": "SmolLM2-135M-Instruct", "context": "7500", "batch": "1"},
}
LENGTH, BUDGETS, MOST_KL, ROUNDS = 7500, (0.2, 0.3, 0.5), 0.01, 14


def run(setting: dict[str, str]) -> dict[str, Any]:
    """One outcome; see experiments/README.md."""
    del setting
    sys.path.insert(0, str(Path(__file__).parent))
    from _attend import bench
    from _intervals import relative_change

    from headwater import __version__
    from headwater.bench.longcontext import matched, row

    b = bench()
    policies = {str(f): matched(LENGTH, f)["wave"] for f in BUDGETS}
    scores = b.run(LENGTH, 1, policies)
    rows = {s.policy: row(s, scores[0], LENGTH) for s in scores[1:]}
    good = [f for f in policies if rows[f]["kl"] <= MOST_KL]
    chosen = min(good, key=float) if good else str(BUDGETS[-1])
    seconds = b.timed(LENGTH, policies, ROUNDS)
    value, interval = relative_change(seconds[chosen], seconds["dense"])
    changes = {f: relative_change(seconds[f], seconds["dense"]) for f in policies}
    solved = bool(rows[chosen]["tasks"])
    return {
        "metric": "step_latency", "value": round(value, 4), "interval": [round(x, 4) for x in interval], "n": ROUNDS,
        "setting": {"model": "SmolLM2-135M-Instruct", "context": str(LENGTH), "batch": "1", "baseline": "dense attention"},
        "companions": {
            "baseline_name": "our own dense attention", "baseline_version": __version__, "baseline_flags": "--attend dense, f16 cache",
            "baseline_generation": "same build", "quality_cost": round(rows[chosen]["kl"], 5),
            "ablation": {f: {"kl": round(r["kl"], 5), "bytes": round(r["bytes"], 4), "index share of prefill": round(r["index_share"], 4),
                             "change": [round(changes[f][0], 4), *(round(x, 4) for x in changes[f][1])]}
                         for f, r in rows.items()},
            "output_error": {"mean KL, nats": round(rows[chosen]["kl"], 5)},
            "task_accuracy": round(rows[chosen]["points"] / 100, 4) if solved else "dense solves no task at this length",
            "bytes_per_step": {f: round(r["bytes"], 4) for f, r in rows.items()},
        },
        "note": f"budget {chosen}: " + (f"the smallest with a mean KL of at most {MOST_KL}" if good else
                                        f"no budget up to {BUDGETS[-1]} keeps a mean KL of {MOST_KL}; recall of top keys is not measured"),
    }
