"""headwater claims: what is claimed, what was read of it, what we ran."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from headwater.cli.ledger import LEDGER, NOW, open_ledger

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=__doc__)
EXPERIMENTS = typer.Option(Path("experiments"), "--experiments", help="Folder with the experiments.")
BY = typer.Option("cli", "--by", help="Who does it.")


@app.command("list")
def list_(
    work: str = typer.Option("", help="Only this work (arXiv id or key)."),
    bound: bool = typer.Option(False, help="Only claims bound to an experiment."),
    verdict: str = typer.Option("", help="Only with this verdict."),
    as_json: bool = typer.Option(False, "--json"),
    home: Path = LEDGER,
) -> None:
    """Claims with level, verdict and boundary."""
    from headwater.ledger.claims import listed

    ledger, _ = open_ledger(home)
    with ledger:
        ledger.catch_up()
        shown = listed(ledger, work, bound, verdict)
        if as_json:
            rows = [
                {
                    "id": v.claim.id,
                    "work": v.claim.work,
                    "statement": v.claim.statement,
                    "level": v.level,
                    "boundary": v.boundary,
                    "verdict": v.verdict,
                }
                for v in shown
            ]
            typer.echo(json.dumps({"claims": rows}, ensure_ascii=False, indent=2))
            return
        for v in shown:
            typer.echo(f"{v.claim.id}  level {v.level}  {v.verdict:12}  {v.claim.work}  {v.claim.statement[:80]}")
            typer.echo(f"{'':18}boundary: {v.boundary}")


@app.command()
def show(claim: str, home: Path = LEDGER) -> None:
    """Everything about one claim: readings, prediction, runs."""
    from headwater.ledger.claims import find_claim, view

    ledger, _ = open_ledger(home)
    with ledger:
        ledger.catch_up()
        v = view(ledger, find_claim(ledger, claim))
        body = {
            "claim": v.claim.model_dump(mode="json"),
            "title": v.title,
            "level": v.level,
            "boundary": v.boundary,
            "verdict": v.verdict,
            "readings": [r.model_dump(mode="json") for r in v.readings],
            "prediction": v.prediction.model_dump(mode="json") if v.prediction else None,
            "binding": v.binding.model_dump(mode="json") if v.binding else None,
            "runs": [r.model_dump(mode="json") for r in v.runs],
        }
        typer.echo(json.dumps(body, ensure_ascii=False, indent=2))


@app.command()
def add(
    work: str = typer.Option(..., help="arXiv id, DOI, link or title."),
    statement: str = typer.Option(..., help="The claim, as reported."),
    level: int = typer.Option(..., help="0..5, what was read."),
    quote: str = typer.Option(..., help="The exact words relied on."),
    metric: str = "",
    value: float | None = None,
    unit: str = "",
    kind: str = "performance",
    origin: str = "author",
    setting: list[str] = typer.Option([], help="field=value, e.g. model=Qwen3-4B; may be repeated."),
    boundary: str = "",
    title: str = typer.Option("", help="Title of the work, where --work is an id or link."),
    by: str = BY,
    home: Path = LEDGER,
    now: str | None = NOW,
) -> None:
    """Enter a claim by hand."""
    from headwater.ledger.claims import add_claim
    from headwater.ledger.instance import clock
    from headwater.ledger.intake.items import title_work, work_keys

    ledger, config = open_ledger(home)
    with ledger:
        key = next(iter(work_keys(work)), "")
        title = title or ("" if key else work)
        key = key or title_work(work)
        claim = add_claim(
            ledger,
            key,
            statement,
            at=clock(now, config.zone).isoformat(),
            by=by,
            level=level,
            quote=quote,
            metric=metric,
            value=value,
            unit=unit,
            kind=kind,
            origin=origin,
            setting=_pairs(setting),
            boundary=boundary,
            title=title,
        )
        typer.echo(claim.id)


def _pairs(texts: list[str]) -> dict[str, str]:
    from headwater.core.errors import UserInputError

    out = {}
    for text in texts:
        name, sep, value = text.partition("=")
        if not sep or not name:
            raise UserInputError(f"setting: {text!r} is not field=value", "setting")
        out[name.strip()] = value.strip()
    return out


@app.command()
def bind(
    claim: str,
    experiment: str = typer.Argument("", help="Name in the experiments folder; leave out with --missing."),
    mechanism: str = typer.Option("", help="What must be seen, in words."),
    direction: int | None = typer.Option(None, help="-1, 0 or 1."),
    magnitude: float | None = typer.Option(None, help="Predicted value; a relative change as a fraction."),
    tolerance: float = typer.Option(0.25, min=0.0),
    exactness: bool = typer.Option(False, help="The claim is that outputs are identical."),
    missing: list[str] = typer.Option([], help="Not testable here: what is missing; may be repeated."),
    by: str = BY,
    folder: Path = EXPERIMENTS,
    home: Path = LEDGER,
    now: str | None = NOW,
) -> None:
    """Freeze a prediction and bind a claim to an experiment, or record exactly what is missing to test it."""
    from headwater.core.errors import UserInputError
    from headwater.ledger import claims, experiments
    from headwater.ledger.instance import clock

    ledger, config = open_ledger(home)
    at = clock(now, config.zone).isoformat()
    with ledger:
        found = claims.find_claim(ledger, claim)
        if missing:
            claims.bind_untestable(ledger, found, missing, at=at, by=by)
            typer.echo(f"{found.id}: not testable here ({', '.join(missing)})")
            return
        if not experiment:
            raise UserInputError("experiment: name one, or say with --missing what is missing", "experiment")
        binding = claims.bind(
            ledger,
            found,
            experiments.find(folder, experiment),
            at=at,
            by=by,
            mechanism=mechanism,
            direction=direction,
            magnitude=magnitude,
            tolerance=tolerance,
            exactness=exactness,
        )
        typer.echo(f"{found.id}: bound to {experiment}, prediction {binding.prediction[:12]} frozen")


@app.command()
def verify(claims: list[str], by: str = BY, folder: Path = EXPERIMENTS, home: Path = LEDGER, now: str | None = NOW) -> None:
    """Run the bound experiments and store run, companions, environment and verdict."""
    from headwater.ledger.claims import find_claim
    from headwater.ledger.claims import verify as run
    from headwater.ledger.instance import clock

    ledger, config = open_ledger(home)
    with ledger:
        for text in claims:
            found = find_claim(ledger, text)
            done = run(ledger, found, folder, at=clock(now, config.zone).isoformat(), by=by)
            typer.echo(f"{found.id}: {done.verdict}{' (exceeded)' if done.exceeded else ''} [{done.verdict_kind}] {done.seconds:g} s")
            for line in (*done.reasons, *done.differs, *(f"missing: {m}" for m in done.missing)):
                typer.echo(f"  {line}")


@app.command()
def experiments(folder: Path = EXPERIMENTS) -> None:
    """The experiments there are."""
    from headwater.ledger.experiments import registry

    for name, e in registry(folder).items():
        typer.echo(f"{name:28} {e.spec.family:12} {e.spec.title}")


@app.command()
def page(out: Path = typer.Argument(..., help="File to write, e.g. docs/claims.md."), home: Path = LEDGER, language: str = "en") -> None:
    """Generate the page of bound claims."""
    from headwater.ledger.brief.write import write_once
    from headwater.ledger.claims import claims_page, listed

    ledger, _ = open_ledger(home)
    with ledger:
        ledger.catch_up()
        write_once(out, claims_page(list(listed(ledger, bound=True)), language))
    typer.echo(str(out))
