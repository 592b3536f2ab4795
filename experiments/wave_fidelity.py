"""RetroInfer's zones against Quest's pages at equal bytes: divergence from dense attention, document by document."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

EXPERIMENT = {
    "title": "RetroInfer: clusters read and estimated against Quest's pages at equal bytes",
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
        "wave",
        "quest",
        "quest at equal bytes",
        "index scans and summaries are charged; clusters are made in anchored segments, not over the prompt; recall of top keys is not measured",
    )
