"""A tree of page summaries against Quest's flat scan of them at equal bytes: divergence from dense attention, document by document."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

EXPERIMENT = {
    "title": "Tree-structured indexer (our reconstruction) against Quest's flat scan at equal bytes",
    "family": "compression",
    "timeout": 3600.0,
    "needs": ["smollm2-135m-instruct"],
    "setting": {"model": "SmolLM2-135M-Instruct"},
}


def run(setting: dict[str, str]) -> dict[str, Any]:
    """One outcome; see experiments/README.md."""
    del setting
    sys.path.insert(0, str(Path(__file__).parent))
    from _attend import compared

    return compared(
        "tree",
        "quest",
        "quest at equal bytes",
        "our reconstruction of 2610.42112: anchored trees over positions, bounds per node, a beam of 32; nodes that are scored are charged",
    )
