"""What every benchmark prints and keeps: the environment, medians with their spread, ratios pair by pair."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(slots=True)
class Figure:
    """One measured quantity. values: one per repeat; better: which direction is good."""

    name: str
    unit: str
    values: list[float]
    better: str = "higher"
    note: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def spread(self) -> str:
        return f"{min(self.values):.4g}-{max(self.values):.4g}"


@dataclass(slots=True)
class Report:
    """A benchmark's result: figures by runner and task."""

    title: str
    command: str = field(default_factory=lambda: "headwater " + " ".join(sys.argv[1:]))
    environment: dict[str, Any] = field(default_factory=lambda: environment())  # noqa: PLW0108  (defined below)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, task: str, runner: str, figure: Figure, **more: Any) -> None:
        self.rows.append({"task": task, "runner": runner, **asdict(figure), "median": figure.median, **more})

    def save(self, path: Path) -> None:
        """JSON with everything; other tools draw from it."""
        path.write_text(json.dumps(asdict(self), indent=1, default=str) + "\n", "utf-8")

    def print(self, baseline: str | None = None) -> None:
        """A table; with `baseline`, each figure's ratio to that runner's in the same task, pair by pair where repeats match."""
        from rich.console import Console
        from rich.table import Table

        console = Console()
        console.print(f"[bold]{self.title}[/]  {environment_line(self.environment)}")
        table = Table("task", "runner", "median", "min-max", "unit", *([f"x {baseline}"] if baseline else []), "note")
        for row in self.rows:
            values = row["values"]
            cells = [row["task"], row["runner"], f"{row['median']:.4g}", f"{min(values):.4g}-{max(values):.4g}", row["unit"]]
            if baseline:
                cells.append(self._ratio(row, baseline))
            table.add_row(*cells, row["note"])
        console.print(table)

    def _ratio(self, row: dict[str, Any], baseline: str) -> str:
        other = next((r for r in self.rows if r["task"] == row["task"] and r["runner"] == baseline), None)
        if other is None or other is row:
            return ""
        low, mid, high = ratio(row["values"], other["values"], row["better"])
        return f"{mid:.2f} ({low:.2f}-{high:.2f})"


def ratio(a: list[float], b: list[float], better: str = "higher") -> tuple[float, float, float]:
    """How much better a is than b -> (min, median, max): pair by pair when both have as many repeats, else of the medians."""
    pairs = list(zip(a, b, strict=True)) if len(a) == len(b) else [(statistics.median(a), statistics.median(b))]
    ratios = [x / y if better == "higher" else y / x for x, y in pairs]
    return min(ratios), statistics.median(ratios), max(ratios)


def environment() -> dict[str, Any]:
    """What a reader needs to judge a figure."""
    from headwater import __version__

    out: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d %H:%M %Z"), "headwater": __version__, "python": platform.python_version(), "system": platform.platform(),
        "cores": len(os.sched_getaffinity(0)), "cpu": _cpu(), "commit": _commit(),
    }
    try:
        from headwater.kernels import native

        out["kernels"] = native.signature()
    except (ImportError, AttributeError):
        out["kernels"] = "reference"
    return out


def environment_line(e: dict[str, Any]) -> str:
    return f"{e['cpu']}, {e['cores']} cores, kernels {e['kernels']}, headwater {e['headwater']} {e['commit']}, {e['date']}"


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        return next(x.split(":", 1)[1].strip() for x in lines if x.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


def _commit() -> str:
    here = Path(__file__).parent
    done = subprocess.run(["git", "-C", str(here), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip()
