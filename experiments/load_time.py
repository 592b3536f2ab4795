"""Seconds from a file to an engine that can take its first request, beside a plain read of the same file; warm, and with the pages dropped."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

EXPERIMENT = {
    "title": "Loading SmolLM2-135M-Instruct against one second, and against a plain read of the file",
    "family": "loading",
    "timeout": 900.0,
    "needs": ["smollm2-135m-instruct"],
    "setting": {"model": "SmolLM2-135M-Instruct"},
}

REPETITIONS, BUDGET, PIECE = 7, 1.0, 1 << 20


def _drop(path: Path) -> bool:
    """Ask the system to forget the file's pages; False where it cannot be asked."""
    if not hasattr(os, "posix_fadvise"):
        return False
    with path.open("rb") as f:
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return True


def _read(path: Path) -> float:
    started = time.perf_counter()
    with path.open("rb", buffering=0) as f:
        while f.read(PIECE):
            pass
    return time.perf_counter() - started


def _load() -> float:
    from headwater.engine.build import EngineSpec, load

    started = time.perf_counter()
    engine, _ = load(EngineSpec())
    took = time.perf_counter() - started
    engine.close()
    return took


def run(setting: dict[str, str]) -> dict[str, Any]:
    """One outcome; see experiments/README.md."""
    del setting
    sys.path.insert(0, str(Path(__file__).parent))
    from _intervals import relative_change

    from headwater import __version__
    from headwater.model.catalog import resolve

    path = resolve("smollm2-135m-instruct")[0]
    size = path.stat().st_size
    cold = _drop(path)
    first_read = _read(path)
    cold = _drop(path) and cold
    first_load = _load()                       # imports included
    reads = [_read(path) for _ in range(REPETITIONS)]
    loads = [_load() for _ in range(REPETITIONS)]
    value, interval = relative_change(loads, [BUDGET] * REPETITIONS)
    ratio, ratio_interval = relative_change(loads, reads)
    mean_load, mean_read = sum(loads) / REPETITIONS, sum(reads) / REPETITIONS
    return {
        "metric": "load_time",
        "value": round(value, 4),
        "interval": [round(x, 4) for x in interval],
        "n": REPETITIONS,
        "setting": {"model": "SmolLM2-135M-Instruct", "task": "load", "baseline": "one second"},
        "companions": {
            "baseline_name": "one second; plain read of the file", "baseline_version": __version__,
            "baseline_flags": f"read in pieces of {PIECE} bytes, warm", "baseline_generation": "same machine", "quality_cost": 0.0,
            "ablation": {"load over plain read": [round(1 + ratio, 3), *(round(1 + x, 3) for x in ratio_interval)]},
            "bytes_per_second": {"load": round(size / mean_load), "plain read": round(size / mean_read)},
            "cold_cache": {"pages dropped": cold, "read_seconds": round(first_read, 4), "load_seconds": round(first_load, 4)},
            "seconds": {"load": [round(x, 4) for x in loads], "plain read": [round(x, 4) for x in reads]},
        },
        "note": f"{size} bytes; loading maps, checks and lays out the weights, builds tokenizer and KV pool; the first load includes imports",
    }
