"""Quest's pages against sinks and a window at equal bytes: divergence from dense attention, document by document."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

EXPERIMENT = {
    "title": "Quest: pages by bounds against a window at equal bytes",
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
        "quest",
        "window",
        "sinks and window at equal bytes",
        "every layer selects; bounds are charged; recall of top keys is not measured",
    )
