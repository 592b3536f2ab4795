"""headwater bench longprefill: prompts read in patterns against dense prompts."""

from __future__ import annotations

from pathlib import Path

import typer

from headwater.cli.options import writable


def longprefill(
    model: str = typer.Option("smollm2-135m-instruct", "--model", help="A known name, a .gguf file, a folder or hf:ORG/REPO."),
    length: list[int] = typer.Option([2048, 7500], "--length", min=1200, help="Tokens of a document; may be given several times."),
    documents: int = typer.Option(3, min=1, help="Documents per length."),
    policy: list[str] = typer.Option([], "--policy", help="Residents of attend for prompts: crisp:alpha=1.5; default: a set of all."),
    ablation: bool = typer.Option(False, "--ablation", help="Instead: CRISP's router and threshold, each on and off."),
    mass: bool = typer.Option(True, "--mass/--no-mass", help="Also measure the soft-max mass that is read (another pass per policy)."),
    text: Path = typer.Option(None, "--text", help="Plain text to cut documents from; default: that of the package aiperf."),
    quick: bool = typer.Option(False, "--quick", help="One document per length, four policies."),
    json: Path = typer.Option(None, "--json", callback=writable, help="Write figures and environment to this file."),
    picture: Path = typer.Option(
        None, "--picture", callback=writable, help="Write KL over what is left out, and speed over length (needs headwater[plots])."
    ),
) -> None:
    """Prompts read in patterns against dense: KL, captured mass, what is left out, seconds, where it starts to pay."""
    from rich.console import Console

    from headwater.bench.longcontext import find_text
    from headwater.bench.longprefill import ABLATION, POLICIES, QUICK, Bench, check, draw, row, table_of, verdict
    from headwater.cli.bench import _save
    from headwater.engine.build import EngineSpec, load_text
    from headwater.model.catalog import resolve
    from headwater.model.load.loader import load_model

    body = find_text(text)
    chosen = check(policy) or (tuple(ABLATION.values()) if ablation else QUICK if quick else POLICIES)
    loaded = load_model(resolve(model))
    rows = []
    with Console(stderr=True).status("longprefill") as status:
        bench = Bench(loaded, load_text(EngineSpec(model)).tokenizer, body, status.update)
        for n in length:
            scores = bench.run(n, 1 if quick else documents, chosen, mass=mass)
            rows += [row(s, scores[0]) for s in scores]
    console = Console()
    console.print(table_of(rows, model))
    for n, sentence in verdict(rows).items():
        console.print(f"{n:,} tokens: {sentence}")
    _save(json, rows=rows, verdict=verdict(rows))
    if picture:
        draw(rows, picture)
