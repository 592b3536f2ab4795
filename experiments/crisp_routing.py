"""CRISP's two parts apart: the floor instead of coverage, and the router by structural mass instead of divergence, by divergence from dense."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

EXPERIMENT = {
    "title": "CRISP: threshold and router, each alone",
    "family": "compression",
    "timeout": 3600.0,
    "needs": ["smollm2-135m-instruct"],
    "setting": {"model": "SmolLM2-135M-Instruct", "context": "2200", "batch": "1"},
}
LENGTH = 2200                              # blocks are small, so that the rules differ at this length
SMALL = "block=32,least=4"
POLICIES = {
    "both": f"crisp:{SMALL}", "floor alone": f"crisp:{SMALL},route=divergence,tau=0.1", "router alone": f"crisp:{SMALL},coverage=true",
    "neither": f"crisp:{SMALL},coverage=true,route=divergence,tau=0.1",
}


def run(setting: dict[str, str]) -> dict[str, Any]:
    """One outcome; see experiments/README.md."""
    del setting
    sys.path.insert(0, str(Path(__file__).parent))
    import numpy as np
    from _intervals import relative_change
    from _prefill import DOCUMENTS, companions, documents

    scores = documents(tuple(POLICIES.values()), LENGTH, mass=True)
    kl = {name: [float(np.mean(s[i].kl)) for s in scores] for i, name in enumerate(POLICIES, 1)}
    value, interval = relative_change(kl["router alone"], kl["neither"])
    parts = {}
    for name in ("both", "floor alone"):
        change, around = relative_change(kl[name], kl["neither"])
        parts[name] = [round(x, 4) for x in (change, *around)]
    return {
        "metric": "kl_to_dense", "value": round(value, 4), "interval": [round(x, 4) for x in interval], "n": DOCUMENTS,
        "setting": {"model": "SmolLM2-135M-Instruct", "context": str(LENGTH), "batch": "1", "baseline": "FlexPrefill's router and coverage"},
        "companions": companions(scores, 1, f"gamma 0.95, {SMALL}, steps of 512") | {"parts, change of KL with interval": parts},
        "note": "rules keep different amounts: `left_out` stands beside every KL; decided per tile of 512 from samples before it",
    }
