"""headwater bench: measure, beside peers where they are given; every verb writes JSON with --json."""

from __future__ import annotations

from pathlib import Path

import typer

app = typer.Typer(no_args_is_help=True, help="Measurements as ratios in one run: latency, throughput, startup, decisions, kernels, peers.")
MODEL = typer.Option("smollm2-135m-instruct", "--model", help="A known name, a .gguf file, a folder or hf:ORG/REPO.")
JSON = typer.Option(None, "--json", help="Write figures and environment to this file.")
PEER = typer.Option([], "--peer", help="NAME=PYTHON[,ARG…]: llama-cpp, ik-llama-cpp, transformers, openvino or onnx in an environment of yours.")
ROUNDS = typer.Option(0, "--rounds", min=0, help="Repeats of every task; 0: each task's own.")


def _run(title: str, tasks: list, model: str, peer: list[str], json: Path | None, rounds: int) -> None:
    from dataclasses import replace

    from headwater.bench.install import parse_peer
    from headwater.bench.peer import Peer, ours
    from headwater.bench.report import Report
    from headwater.bench.tasks import measure

    report = Report(title)
    specs = [ours(model), *(parse_peer(p, model) for p in peer)]
    peers: list[Peer] = []
    try:
        peers.extend(Peer(spec) for spec in specs)
        measure(report, peers, [replace(t, rounds=rounds or t.rounds) for t in tasks])
    finally:
        for p in peers:
            p.close()
    report.print(baseline=None if len(specs) == 1 else specs[1].name)
    if json:
        report.save(json)


@app.command("latency")
def latency(model: str = MODEL, peer: list[str] = PEER, json: Path = JSON, rounds: int = ROUNDS) -> None:
    """Decode and prefill speed of one stream at several context lengths."""
    from headwater.bench.tasks import LATENCY

    _run("latency", LATENCY, model, peer, json, rounds)


@app.command("throughput")
def throughput(model: str = MODEL, peer: list[str] = PEER, json: Path = JSON, rounds: int = ROUNDS) -> None:
    """8 and 16 streams decoding together."""
    from headwater.bench.tasks import THROUGHPUT

    _run("throughput", THROUGHPUT, model, peer, json, rounds)


@app.command("decisions")
def decisions(model: str = MODEL, peer: list[str] = PEER, json: Path = JSON, rounds: int = ROUNDS) -> None:
    """32 questions of 20 tokens over a state of 2,000 tokens, cold and with the state kept."""
    from headwater.bench.tasks import DECISIONS

    _run("decisions", DECISIONS, model, peer, json, rounds)
