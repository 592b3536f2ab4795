"""Attention of a prompt under CRISP against dense attention, document by document: seconds in attention only, and from which length on it pays."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

EXPERIMENT = {
    "title": "CRISP: attention of a prompt in patterns against dense attention",
    "family": "compression",
    "timeout": 3600.0,
    "needs": ["smollm2-135m-instruct"],
    "setting": {"model": "SmolLM2-135M-Instruct", "context": "4096", "batch": "1"},
}
POLICIES = ("crisp:alpha=1", "crisp:alpha=1.5", "crisp:alpha=1,block=64,least=4")


def run(setting: dict[str, str]) -> dict[str, Any]:
    """One outcome; see experiments/README.md."""
    del setting
    sys.path.insert(0, str(Path(__file__).parent))
    from _intervals import relative_change
    from _prefill import DOCUMENTS, LENGTH, companions, documents, summary

    from headwater.bench.longprefill import MOST_KL

    scores = documents(POLICIES, mass=True)
    table = summary(scores)
    good = [i for i, p in enumerate(POLICIES, 1) if table[p]["kl"] <= MOST_KL]
    chosen = max(good, key=lambda i: table[POLICIES[i - 1]]["attend_faster"]) if good else 1
    value, interval = relative_change([sum(s[chosen].attend[0]) for s in scores], [sum(s[0].attend[0]) for s in scores])
    note = f"{POLICIES[chosen - 1]}: " + ("the fastest with" if good else "no setting keeps")
    return {
        "metric": "attention_latency", "value": round(value, 4), "interval": [round(x, 4) for x in interval], "n": DOCUMENTS,
        "setting": {"model": "SmolLM2-135M-Instruct", "context": str(LENGTH), "batch": "1", "baseline": "dense attention"},
        "companions": companions(scores, chosen, "--attend dense, f16 cache, steps of 512"),
        "note": f"{note} a mean KL of at most {MOST_KL}; decided per tile of 512 from samples before it, not from the prompt's last queries",
    }
