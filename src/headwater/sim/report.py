"""Reports as text, JSON and a picture."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headwater.core.errors import UserInputError, expect_writable
from headwater.sim.cache import CacheResult
from headwater.sim.record import RunReport


def text(report: RunReport) -> str:
    """A table of a run's figures for a terminal."""
    f = report.figures
    lines = [report.title, "  " + ", ".join(f"{k} {v}" for k, v in report.setting.items() if v not in ("", None)), ""]
    lines.append(f"  {'seconds':<8}" + "".join(f"{k:>10}" for k in ("p50", "p90", "p95", "p99", "max")))
    for name in ("ttft", "itl", "tpot", "e2e"):
        values: dict[str, float] = getattr(f, name)
        if values:
            lines.append(f"  {name:<8}" + "".join(f"{values[k]:>10.4g}" for k in ("p50", "p90", "p95", "p99", "max")))
    lines += ["",
              f"  requests {f.requests}: finished {f.finished}, left {f.aborted}, failed or refused {f.failed} (refused {report.refused})",
              f"  output {f.tokens_per_second:.1f} tokens/s over {f.seconds:.1f} s; goodput {f.goodput:.3f} requests/s ({f.met} met the objective)",
              f"  prompt tokens {f.prompt_tokens}, cached {f.cached_tokens} (hit rate {100 * f.hit_rate:.1f} %), recomputed {report.recomputed}",
              f"  preempted {report.preempted}, blocks evicted {report.evicted}, partial blocks copied {report.copies}",
              f"  {report.steps} steps, executor busy {100 * report.busy:.0f} %; simulated in {report.wall:.1f} s"]
    if report.setting.get("costs") == "fitted":
        lines.append("  error of the cost model on held-out steps: " + ", ".join(f"{k} {100 * v:.1f} %" for k, v in report.cost_error.items()))
    else:
        lines.append("  costs are built-in round numbers, not a fit of this machine: compare settings, do not quote seconds")
    return "\n".join(lines)


PICTURES = (".png", ".svg", ".pdf")


def check_outputs(json_file: Path | None, plot: Path | None, out: Path | None = None) -> None:
    """Before a long run: can its figures, its picture and its costs be written? Raises UserInputError naming the option."""
    for option, path in (("json", json_file), ("plot", plot), ("out", out)):
        expect_writable(option, path)
    if plot is not None:
        if plot.suffix.lower() not in PICTURES:
            raise UserInputError(f"--plot {plot}: a picture is a file that ends in {', '.join(PICTURES)}", field="plot")
        _pyplot()


def save_json(path: Path, body: object) -> None:
    path.write_text(json.dumps(body, indent=2, default=float) + "\n", encoding="utf-8")


def json_of(report: RunReport) -> dict[str, object]:
    return asdict(report)


def compare(reports: list[RunReport]) -> str:
    """One line per run: the figures that policies differ in."""
    width = max(len(r.title) for r in reports)
    head = f"{'':<{width}}" + "".join(f"{h:>11}" for h in ("TTFT p50", "TTFT p95", "ITL p50", "ITL p99", "goodput", "hit rate", "preempted"))
    rows = [head]
    for r in reports:
        f = r.figures
        values = (f.ttft.get("p50", 0), f.ttft.get("p95", 0), f.itl.get("p50", 0), f.itl.get("p99", 0), f.goodput, f.hit_rate)
        rows.append(f"{r.title:<{width}}" + "".join(f"{v:>11.4g}" for v in values) + f"{r.preempted:>11}")
    return "\n".join(rows)


def curve_text(trace: str, curves: dict[str, list[CacheResult]], distinct: int) -> str:
    """Hit rates (blocks) by rule and memory size."""
    sizes = [r.memory for r in next(iter(curves.values()))]
    lines = [f"{trace}: share of prompt blocks found, by memory ({distinct} distinct blocks)", f"  {'rule':<10}" + "".join(f"{m:>10}" for m in sizes)]
    lines += [f"  {rule:<10}" + "".join(f"{100 * r.rate:>9.1f}%" for r in results) for rule, results in curves.items()]
    return "\n".join(lines)


def picture(path: Path, reports: list[RunReport]) -> None:
    """Bars of TTFT and ITL percentiles per run. Needs matplotlib (extra `plots`)."""
    plt = _pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(11, 4))
    for axis, name in zip(axes, ("ttft", "itl"), strict=True):
        for i, report in enumerate(reports):
            values: dict[str, float] = getattr(report.figures, name)
            at = [x + i * 0.8 / len(reports) for x in range(len(values))]
            axis.bar(at, list(values.values()), width=0.8 / len(reports), label=report.title)
            axis.set_xticks(range(len(values)), list(values))
        axis.set_yscale("log")
        axis.set_ylabel("seconds")
        axis.set_title({"ttft": "time to first token", "itl": "gap between tokens"}[name])
    axes[0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def curve_picture(path: Path, trace: str, curves: dict[str, list[CacheResult]], unlimited: float) -> None:
    """Hit rate over memory size, one line per eviction rule, the unlimited cache as a ceiling. Needs matplotlib (extra `plots`)."""
    plt = _pyplot()
    figure, axis = plt.subplots(figsize=(7, 4.5))
    for rule, results in curves.items():
        axis.plot([r.memory for r in results], [100 * r.rate for r in results], marker="o", label=rule)
    axis.axhline(100 * unlimited, color="grey", linestyle="--", label="unlimited")
    axis.set_xscale("log")
    axis.set_xlabel("memory (trace blocks of 512 tokens)")
    axis.set_ylabel("prompt blocks found (%)")
    axis.set_title(trace)
    axis.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise UserInputError("--plot needs matplotlib: pip install 'headwater[plots]'", field="plot") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt
