"""headwater sim: the real scheduler, cache and policies in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from headwater.sim.traces import Trace

app = typer.Typer(no_args_is_help=True, help="Simulate: the real scheduler, cache and policies in virtual time. Needs neither weights nor kernels.")
TRACE = typer.Option(None, "--trace", help="Azure LLM 2023 (.csv) or Mooncake (.jsonl) trace.")
LONGEST = 10_000_000                                                # tokens of a text, requests of a run
LIMIT = typer.Option(None, "--limit", min=1, max=LONGEST, help="Only so many requests.")
JSON = typer.Option(None, "--json", help="Write the figures to this file.")
PLOT = typer.Option(None, "--plot", help="Draw a picture (.png, .svg, .pdf); needs the extra `plots`.")


def _progress(title: str) -> tuple[Callable[[int, int], None], Callable[[], None]]:
    """A bar on a terminal, nothing elsewhere: (update, close)."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    bar = Progress(TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console, disable=not console.is_terminal,
                   transient=True)
    task = bar.add_task(title)
    bar.start()
    return (lambda done, total: bar.update(task, completed=done, total=total)), bar.stop


@app.command("run")
def run(
    trace: Path = TRACE,
    generate: bool = typer.Option(False, "--generate", help="Made-up arrivals instead of a trace (see --rate, --prompt, --output, --shared)."),
    sched: list[str] = typer.Option(["fcfs"], "--sched", help="Who is next; repeat to compare."),
    evict: list[str] = typer.Option(["lru"], "--evict", help="Which cached block leaves; repeat to compare."),
    memory: int = typer.Option(65_536, "--memory", min=0, help="Tokens of KV memory; 0: enough for everything."),
    context: int = typer.Option(8192, "--context", min=16, help="Longest sequence in tokens."),
    cost: Path = typer.Option(None, "--cost", help="Costs fitted by `headwater sim fit`; without it, built-in round numbers."),
    speed: float = typer.Option(1.0, "--speed", min=1e-6, help="How many times faster than those costs the machine is."),
    scale: float = typer.Option(1.0, "--scale", min=1.0, help="Divide all lengths by this."),
    stretch: float = typer.Option(1.0, "--stretch", min=1e-6, help="Multiply all times between arrivals by this."),
    start: float = typer.Option(0.0, "--start", min=0.0, help="Second of the trace to begin at."),
    seconds: float = typer.Option(None, "--seconds", min=0.001, help="Seconds of the trace to take."),
    limit: int = LIMIT,
    block: int = typer.Option(16, "--block", min=1, help="Tokens per block (larger ones make long traces fast)."),
    rate: float = typer.Option(1.0, "--rate", help="--generate: requests per second."),
    prompt: int = typer.Option(200, "--prompt", help="--generate: median prompt tokens."),
    output: int = typer.Option(100, "--output", help="--generate: median output tokens."),
    shared: int = typer.Option(0, "--shared", min=0, help="--generate: prompt tokens that all requests share."),
    bursts: float = typer.Option(1.0, "--bursts", help="--generate: squared coefficient of variation of the gaps (1: Poisson)."),
    leavers: float = typer.Option(0.0, "--leavers", min=0.0, max=1.0, help="Share of clients that leave at a random time."),
    ttft: float = typer.Option(2.0, "--ttft", help="Objective: seconds to the first token."),
    tpot: float = typer.Option(0.2, "--tpot", help="Objective: mean seconds per further token."),
    seed: int = typer.Option(0, "--seed", min=0, help="For made-up arrivals and leavers."),
    check: bool = typer.Option(False, "--check", help="Recount every reference after every step."),
    json: Path = JSON,
    plot: Path = PLOT,
) -> None:
    """Percentiles of TTFT and ITL, goodput, hit rate and preemptions of a trace under given policies."""
    from headwater.sim import report
    from headwater.sim.fit import Fit
    from headwater.sim.record import Objective
    from headwater.sim.run import Machine, Run, check_fits
    from headwater.sim.traces import poisson

    report.check_outputs(json, plot)
    arrivals = poisson(limit or 1000, rate, prompt, output, seed, shared, bursts) if generate else _trace(trace)
    arrivals = arrivals.part(limit, start, seconds).scaled(scale, stretch)
    machine = Machine(memory, context, fit=Fit.load(cost) if cost else None, speed=speed, block=block)
    longer = check_fits(arrivals, machine)
    if longer:
        typer.echo(f"{longer} of {len(arrivals)} requests are longer than the machine's {min(context, memory or context)} tokens and will be refused")
    reports = []
    for s in sched:
        for e in evict:
            update, close = _progress(f"{s} {e}")
            try:
                one = Run(arrivals, machine, s, e, Objective(ttft, tpot), leavers, seed, check="full" if check else None, progress=update)
                reports.append(one.simulate())
            finally:
                close()
            typer.echo(report.text(reports[-1]) + "\n")
    if len(reports) > 1:
        typer.echo(report.compare(reports))
    if json:
        report.save_json(json, [report.json_of(r) for r in reports])
    if plot:
        report.picture(plot, reports)


def _trace(path: Path | None) -> Trace:
    from headwater.core.errors import UserInputError
    from headwater.sim.traces import load

    if path is None:
        raise UserInputError("sim: give --trace FILE (or --generate for made-up arrivals)", field="trace")
    return load(path)


@app.command("cache")
def cache(
    trace: Path = TRACE,
    evict: list[str] = typer.Option(["lru", "slru", "lfu", "demand"], "--evict", help="Rules to compare."),
    shares: str = typer.Option("0.02,0.05,0.1,0.2,0.5", "--shares", help="Memory sizes as shares of the trace's distinct blocks."),
    limit: int = LIMIT,
    json: Path = JSON,
    plot: Path = PLOT,
) -> None:
    """Hit rate of the prefix index over memory size and eviction rule, and without a limit, for a trace with hash ids."""
    from headwater.core.errors import UserInputError
    from headwater.sim import report
    from headwater.sim.cache import curve, distinct_blocks, replay

    report.check_outputs(json, plot)
    try:
        parts = [float(x) for x in shares.split(",")]
    except ValueError:
        parts = []
    if not parts or any(not 0 < x <= 1 for x in parts):
        raise UserInputError(f"--shares {shares}: numbers above 0 and up to 1, separated by commas", field="shares")
    arrivals = _trace(trace).part(limit)
    if arrivals.blocks is None:
        raise UserInputError(f"{trace}: has no hash ids; use a Mooncake trace", field="trace")
    unlimited = replay(arrivals)
    typer.echo(f"{arrivals.name}: {len(arrivals)} requests, {unlimited.blocks} blocks of {arrivals.hash_block} tokens; unlimited cache finds "
               f"{100 * unlimited.rate:.1f} % of the blocks")
    curves = {rule: curve(arrivals, [rule], parts)[rule] for rule in evict}
    typer.echo(report.curve_text(arrivals.name, curves, distinct_blocks(arrivals)))
    if json:
        from dataclasses import asdict

        report.save_json(json, {"unlimited": asdict(unlimited), "curves": {k: [asdict(r) for r in v] for k, v in curves.items()}})
    if plot:
        report.curve_picture(plot, arrivals.name, curves, unlimited.rate)


@app.command("fit")
def fit(
    log: Path = typer.Argument(..., help="Step log of a real engine (JSON lines)."),
    out: Path = typer.Option(Path("cost.json"), "--out", help="Where the fitted costs go."),
) -> None:
    """Fit step costs to a step log; prints the error on held-out steps."""
    from headwater.core.cost import NAMES
    from headwater.sim.fit import fit as fit_steps
    from headwater.sim.fit import read_log

    steps, seconds, own = read_log(log)
    found = fit_steps(steps, seconds, own)
    found.save(out)
    for name, value in zip(NAMES, found.cost.coefficients, strict=True):
        typer.echo(f"  {name:<20}{value:>12.3e} s")
    typer.echo(f"  own share           {found.overhead[0]:>12.3e} s + {found.overhead[1]:.3e} s per row")
    errors = ", ".join(f"{k} {100 * v:.1f} %" for k, v in found.error.items())
    typer.echo(f"{found.steps} steps; held-out relative error: {errors}; written to {out}")


@app.command("storm")
def storm(
    requests: int = typer.Option(5000, "--requests", min=1, help="Requests in all."),
    per: int = typer.Option(500, "--per", min=1, help="Requests per seed."),
    seed: int = typer.Option(None, "--seed", min=0, help="First seed; without it a new one."),
    sched: str = typer.Option(None, "--sched", help="Only this resident (default: drawn from the seed)."),
    evict: str = typer.Option(None, "--evict", help="Only this resident."),
    shape: str = typer.Option(None, "--shape", help="Only this cache shape: full, two-full, window, window-only, hybrid, recurrent, all-kinds."),
    json: Path = JSON,
) -> None:
    """Random workloads with leavers and faults; every request must end right or with a reason, and all blocks must come back."""
    import secrets
    from collections import Counter
    from dataclasses import asdict

    from headwater.core.errors import UserInputError
    from headwater.sim import report
    from headwater.sim.storm import SPECS, Storm, StormError

    report.check_outputs(json, None)
    if shape is not None and shape not in SPECS:
        raise UserInputError(f"--shape {shape}: one of {', '.join(SPECS)}", field="shape")
    first = secrets.randbits(40) if seed is None else seed
    total = -(-requests // per)
    update, close = _progress("storm")
    done = []
    try:
        for i in range(total):
            done.append(Storm(first + i, min(per, requests - i * per), sched=sched, evict=evict, spec=shape).run())
            update(i + 1, total)
    except StormError as e:
        close()
        size = min(per, requests - len(done) * per)                 # a storm is its seed, its size and what was fixed
        fixed = "".join(f" --{name} {value}" for name, value in (("sched", sched), ("evict", evict), ("shape", shape)) if value is not None)
        again = f"headwater sim storm --seed {first + len(done)} --requests {size} --per {size}{fixed}"
        typer.echo(f"storm broke after {len(done)} seeds: {e}\nreplay: {again}", err=True)
        raise typer.Exit(1) from None
    finally:
        close()
    faults = sum((Counter(r.faults) for r in done), Counter())
    totals = {name: sum(getattr(r, name) for r in done) for name in ("finished", "aborted", "failed", "steps", "preempted")}
    typer.echo(f"{requests} requests over {total} seeds from {first}: {totals['finished']} finished right, {totals['aborted']} left, "
               f"{totals['failed']} failed with a reason; {totals['steps']} steps checked, {totals['preempted']} preemptions; "
               f"faults: {', '.join(f'{n} {k}' for k, n in sorted(faults.items()))}")
    if json:
        report.save_json(json, [asdict(r) for r in done])


@app.command("agents")
def agents(
    sessions: int = typer.Option(4, "--sessions", min=1, max=1000, help="Agents that run side by side."),
    turns: int = typer.Option(40, "--turns", min=1, max=100_000, help="Turns of each."),
    system: int = typer.Option(600, "--system", min=1, max=LONGEST, help="Tokens of the system prompt."),
    message: int = typer.Option(120, "--message", min=1, max=LONGEST, help="New tokens per turn."),
    reasoning: int = typer.Option(200, "--reasoning", min=0, max=LONGEST, help="Reasoning tokens of an answer."),
    answer: int = typer.Option(150, "--answer", min=1, max=LONGEST, help="Answer tokens."),
    keep: bool = typer.Option(False, "--keep-reasoning", help="The template keeps earlier reasoning."),
    retokenised: float = typer.Option(0.1, "--retokenised", min=0.0, max=1.0, help="Chance that an answer, rendered again, tokenises differently."),
    memory: int = typer.Option(200_000, "--memory", min=1000, help="Tokens of KV memory."),
    shape: str = typer.Option("full", "--shape", help="Cache shape: full, two-full, window, window-only, hybrid, recurrent, all-kinds."),
    evict: str = typer.Option("lru", "--evict", help="Which cached block leaves."),
    seed: int = typer.Option(0, "--seed", min=0, help="For the sessions."),
) -> None:
    """Agent sessions over the toy memory: what each turn had to compute again, and why, beside what was computed."""
    from headwater.core.errors import UserInputError
    from headwater.sim.agents import Habits, play, total
    from headwater.sim.storm import SPECS

    if shape not in SPECS:
        raise UserInputError(f"--shape {shape}: one of {', '.join(SPECS)}", field="shape")
    habits = Habits(turns, system, message, reasoning, answer, retokenised, not keep)
    played = play(habits, sessions, memory, SPECS[shape], evict, seed)
    due, cached, computed = total(played)
    typer.echo(f"{sessions} sessions of {turns} turns, {due.kept + due.recomputed} prompt tokens; {due.recomputed} of them had to be computed:")
    typer.echo(f"  new {due.new}, behind dropped reasoning {due.stripped}, behind a re-tokenised answer {due.retokenised}; {due.kept} were known")
    typer.echo(f"computed {computed}, found {cached}: {computed - due.recomputed} more than had to be "
               f"({100 * (computed - due.recomputed) / max(due.recomputed, 1):.2f} %)")


@app.command("overhead")
def overhead(rows: str = typer.Option("1,8,32,64,128,256", "--rows", help="Row counts, separated by commas."), json: Path = JSON) -> None:
    """The scheduler's own share of a decode step (plan + apply), measured with an executor that computes nothing."""
    from dataclasses import asdict

    from headwater.core.errors import UserInputError
    from headwater.sim import report
    from headwater.sim.overhead import measure

    report.check_outputs(json, None)
    try:
        counts = [int(r) for r in rows.split(",")]
    except ValueError:
        counts = []
    if not counts or any(not 1 <= n <= 4096 for n in counts):
        raise UserInputError(f"--rows {rows}: numbers from 1 to 4096, separated by commas", field="rows")
    typer.echo(f"{'rows':>6}{'plan µs':>10}{'apply µs':>10}{'total':>10}{'400 + 6 per row':>18}")
    found = [measure(n) for n in counts]
    for o in found:
        typer.echo(f"{o.rows:>6}{o.plan_us:>10.0f}{o.apply_us:>10.0f}{o.total_us:>10.0f}{400 + 6 * o.rows:>18}")
    if json:
        report.save_json(json, [asdict(o) for o in found])


@app.command("truth")
def truth(
    trace: Path = TRACE,
    model: str = typer.Option("smollm2-135m-instruct", "--model", help="A known name, a .gguf file, a folder, hf:ORG/REPO or echo."),
    limit: int = typer.Option(150, "--limit", min=10, help="Requests of the trace."),
    start: float = typer.Option(0.0, "--start", min=0.0, help="Second of the trace to begin at."),
    scale: float = typer.Option(8.0, "--scale", min=1.0, help="Divide all lengths by this."),
    loads: str = typer.Option("0.3,0.6,0.9", "--loads", help="Shares of the measured capacity."),
    replays: int = typer.Option(3, "--replays", min=1, help="Real replays per load (their spread is the machine's own)."),
    threads: int = typer.Option(None, "--threads", min=1, help="Compute threads."),
    out: Path = typer.Option(None, "--out", help="Save the fitted costs (for `sim run --cost`)."),
    json: Path = JSON,
) -> None:
    """Replay a trace on the real engine and in virtual time; print TTFT and ITL of both, the error, and the machine's own spread."""
    from headwater.core.errors import UserInputError
    from headwater.engine.build import EngineSpec, load
    from headwater.sim import report
    from headwater.sim import truth as check

    report.check_outputs(json, None, out)
    try:
        shares = [float(x) for x in loads.split(",")]
    except ValueError:
        shares = []
    if not shares or any(not 0 < x <= 2 for x in shares):
        raise UserInputError(f"--loads {loads}: numbers above 0 and up to 2, separated by commas", field="loads")
    spec = EngineSpec(model=model, threads=threads)
    arrivals = _trace(trace).part(limit, start).scaled(scale, 1.0)
    engine, _ = load(spec)
    try:
        longer = int((arrivals.prompt + arrivals.output > engine.scheduler.longest).sum())
        if longer:
            longest = engine.scheduler.longest
            raise UserInputError(f"--scale {scale:g}: {longer} requests are longer than the {longest} tokens that {model} holds", "scale")
        update, close = _progress("replay")
        try:
            found, lines = check.compare(engine, arrivals, shares, replays, spec.sched, spec.evict,
                                         progress=lambda _, done, total: update(done, total))
        finally:
            close()
    finally:
        engine.close()
    typer.echo(check.text(found, lines))
    if out:
        found.save(out)
    if json:
        report.save_json(json, [x.json() for x in lines])
