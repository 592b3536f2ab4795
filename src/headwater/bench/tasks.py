"""The measured tasks, in tokens per second or seconds, for ourselves alone or beside peers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headwater.bench.peer import Peer, alternate
from headwater.bench.report import Figure, Report


@dataclass(frozen=True, slots=True)
class Task:
    """One row of the table. scale: tokens per run (figures are tokens/s), 0 = seconds."""

    name: str
    kind: str
    fields: tuple[tuple[str, Any], ...]
    scale: int
    rounds: int = 5


def decode(n: int, tokens: int = 64, rounds: int = 5) -> Task:
    return Task(f"decode at {n:,}", "decode", (("n", n), ("tokens", tokens)), tokens, rounds)


def prefill(n: int, rounds: int = 5) -> Task:
    return Task(f"prefill {n:,}", "prefill", (("n", n),), n, rounds)


def batch(streams: int, n: int = 128, tokens: int = 128, rounds: int = 3) -> Task:
    return Task(f"{streams} streams", "batch", (("streams", streams), ("n", n), ("tokens", tokens)), streams * tokens, rounds)


def decisions(*, warm: bool, state: int = 2000, questions: int = 32, length: int = 20, rounds: int = 3) -> Task:
    name = f"{questions} questions, state {'kept' if warm else 'new'}"
    fields = (("state", state), ("questions", questions), ("length", length), ("warm", warm))
    return Task(name, "decisions", fields, 0, rounds)


LATENCY = [decode(128), decode(2048), decode(7500, 32, 3), prefill(512), prefill(2048), prefill(7500, 2)]
THROUGHPUT = [batch(8), batch(16)]
DECISIONS = [decisions(warm=False), decisions(warm=True)]


def measure(report: Report, peers: Sequence[Peer], tasks: Sequence[Task]) -> None:
    """Run every task on every runner, alternately, and add the figures."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        whole = bar.add_task("bench", total=len(tasks))
        for task in tasks:
            bar.update(whole, description=task.name)
            seconds = alternate(list(peers), task.rounds, task.kind, **dict(task.fields))
            for p in peers:
                values = seconds.get(p.spec.name)
                if values:
                    figure = (
                        Figure("rate", "tokens/s", [task.scale / s for s in values])
                        if task.scale
                        else Figure("time", "s", values, better="lower")
                    )
                    report.add(task.name, p.spec.name, figure, version=p.version)
                else:
                    report.rows.append({"task": task.name, "runner": p.spec.name, "failed": True, "values": [], "version": p.version})
            bar.advance(whole)
    report.rows = [r for r in report.rows if r["values"]]
