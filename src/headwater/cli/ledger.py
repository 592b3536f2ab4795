"""headwater ledger: keep notes, readings and claims in an append-only ledger."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from headwater.ledger.instance import Instance
    from headwater.ledger.store import Ledger

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=__doc__)
LEDGER = typer.Option(Path("ledger"), "--ledger", "-l", envvar="HEADWATER_LEDGER", help="Folder of the ledger.")
NOW = typer.Option(None, "--now", help="The moment the step calls now, e.g. 2026-09-03T22:20 (instance zone). Default: the clock.")


def warn(message: str) -> None:
    """A one-line message on stderr."""
    typer.echo(f"headwater: {message}", err=True)


def open_ledger(home: Path, read_only: bool = False) -> tuple[Ledger, Instance]:
    """A ledger with its instance."""
    from headwater.ledger.instance import read_instance
    from headwater.ledger.store import Ledger

    return Ledger(home, warn, read_only), read_instance(home)


def bar(title: str, quiet: bool) -> Any:
    """A progress bar on stderr; `update(done, total)` on what it returns moves it."""
    from headwater.cli.progress import Bar

    return Bar(title, quiet)


@app.command()
def init(
    home: Path = typer.Argument(Path("ledger"), help="Folder to make."),
    topic: str = typer.Option("", help="Topic of the living document."),
    instance: Path | None = typer.Option(None, help="A ledger.toml to start from."),
    owner: str = typer.Option("", help="Whose document it is."),
    language: str = typer.Option("zh", help="zh or en."),
    zone: str = typer.Option("UTC", help="Time zone, e.g. Asia/Shanghai."),
    document: str = typer.Option("", help="Path of the living document as it will be ingested."),
) -> None:
    """Make a ledger."""
    make(home, instance, topic=topic, owner=owner, language=language, zone=zone, document=document)
    typer.echo(f"{home}: ready; next: headwater ledger ingest FOLDER --ledger {home}")


def make(home: Path, source: Path | None, **values: str) -> None:
    """Create a ledger folder from a file or from values.

    Raises:
        UserInputError: no topic, or a wrong field.
    """
    from pydantic import ValidationError

    from headwater.core.errors import UserInputError
    from headwater.ledger.instance import Instance, read_instance_file, write_instance
    from headwater.ledger.store import Ledger

    if source is not None:
        config = read_instance_file(source / "ledger.toml" if source.is_dir() else source)
    else:
        if not values.get("topic"):
            raise UserInputError("topic: missing; give --topic TOPIC or --instance FILE", "topic")
        try:
            config = Instance(**values)  # type: ignore[arg-type]
        except ValidationError as e:
            first = e.errors()[0]
            raise UserInputError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}", str(first["loc"][0])) from None
    Ledger.create(home, warn).close()
    write_instance(home, config)


def _instance_beside(folders: list[Path]) -> Path | None:
    """The ledger.toml in one of the folders to read, or directly above one; None when there is none."""
    places = [p for f in folders for p in (f, f.resolve().parent)]
    return next((p / "ledger.toml" for p in places if (p / "ledger.toml").is_file() and not (p / "records").is_dir()), None)


@app.command()
def ingest(
    folders: list[Path] = typer.Argument(..., help="Folders or files: notes, feeds, BibTeX, cards, queues, briefs, the document."),
    home: Path = LEDGER,
    instance: Path | None = typer.Option(
        None, help="Make the ledger from this ledger.toml if it does not exist yet (default: the one in or above FOLDERS)."
    ),
    now: str | None = NOW,
    quiet: bool = typer.Option(False, "--quiet", "-q"),
) -> None:
    """Read new and changed files into the ledger; unchanged ones are skipped by hash."""
    from headwater.ledger.instance import clock
    from headwater.ledger.intake.ingest import ingest as run

    if not (home / "records").is_dir() and (found := instance or _instance_beside(folders)) is not None:
        make(home, found)
        if instance is None:
            warn(f"{home}: made from {found}")
    ledger, config = open_ledger(home)
    with ledger, bar("ingest", quiet) as progress:
        report = run(ledger, config, folders, clock(now, config.zone).isoformat(), progress.update)
    for message in report.messages:
        warn(message)
    kinds = ", ".join(f"{k} {n}" for k, n in sorted(report.kinds.items()))
    typer.echo(
        f"{report.seen} files: {report.new} new ({kinds or '-'}), {report.unchanged} unchanged, {report.skipped} skipped; {report.items} items, "
        f"{report.flagged} instruction-like passages flagged"
    )


@app.command()
def digest(home: Path = LEDGER, now: str | None = NOW, quiet: bool = typer.Option(False, "--quiet", "-q")) -> None:
    """Works, claims, duplicates, contradictions and one disposition per work, for everything new."""
    from headwater.ledger.digest.run import Digest
    from headwater.ledger.instance import clock

    ledger, config = open_ledger(home)
    with ledger, bar("digest", quiet) as progress:
        done = Digest(ledger, config, clock(now, config.zone), progress.stage).run()
    if not done.batch:
        typer.echo("nothing new since the last digest")
        return
    statuses = ", ".join(f"{k} {n}" for k, n in sorted(done.statuses.items()))
    typer.echo(
        f"batch {done.batch}{' (resumed)' if done.resumed else ''}: {done.sources} sources, {done.items} items, "
        f"{done.works} works ({statuses or '-'}), "
        f"{done.claims} claims, {done.retold} retold"
    )


@app.command()
def read(
    claim: str,
    level: int = typer.Option(..., help="0..5, what was read now."),
    quote: str = typer.Option(..., help="The exact words relied on."),
    by: str = typer.Option(..., help="Who read."),
    form: str = typer.Option("", help="abs v3, PDF v1, code, …"),
    home: Path = LEDGER,
    now: str | None = NOW,
) -> None:
    """Record that somebody read more of a work: the only thing that raises an evidence level."""
    from headwater.ledger.claims import find_claim
    from headwater.ledger.evidence import add_reading, level_of
    from headwater.ledger.instance import clock

    ledger, config = open_ledger(home)
    with ledger:
        found = find_claim(ledger, claim)
        before = level_of(ledger, found.id)
        add_reading(ledger, found.id, level, by, quote, clock(now, config.zone).isoformat(), form)
        typer.echo(f"{found.id}: level {before} → {level_of(ledger, found.id)}")


@app.command()
def reindex(home: Path = LEDGER) -> None:
    """Rebuild the derived index from the records."""
    ledger, _ = open_ledger(home)
    with ledger:
        typer.echo(f"{ledger.reindex():,} records indexed")


@app.command()
def check(home: Path = LEDGER) -> None:
    """Read every record; exit 1 when a line is no record, 0 when all are well."""
    ledger, _ = open_ledger(home)
    with ledger:
        found = ledger.check()
        for message in found:
            typer.echo(message)
        typer.echo(f"{len(found)} lines are not records" if found else f"{ledger.index.size():,} records, all well")
    raise typer.Exit(1 if found else 0)


@app.command()
def search(text: str, home: Path = LEDGER, limit: int = typer.Option(20, min=1)) -> None:
    """Find text in items, works, claims, sections and briefs; Chinese and English."""
    ledger, _ = open_ledger(home)
    with ledger:
        ledger.catch_up()
        for record in ledger.search(text, limit):
            words = " ".join(record.words().split())
            at = max(words.casefold().find(text.casefold()) - 30, 0)
            typer.echo(f"{record.kind:14} {record.id[:16]}  {words[at : at + 110]}")


@app.command()
def status(home: Path = LEDGER) -> None:
    """Batches, record counts, proposals that wait for a person."""
    from headwater.ledger.brief.view import batches
    from headwater.ledger.records import Claim, Done, Flag, Item, Source

    ledger, config = open_ledger(home)
    with ledger:
        ledger.catch_up()
        typer.echo(f"{config.topic}: {ledger.count(Source):,} sources, {ledger.count(Item):,} items, {ledger.count(Claim):,} claims")
        for b in batches(ledger):
            state = "imported" if b.imported else "done" if ledger.count(Done, "batch", b.name) else "interrupted; digest resumes it"
            typer.echo(f"  {b.name}: {state}")
        for f in ledger.by(Flag, "flag", "reading_proposed"):
            typer.echo(f"  to confirm with `headwater ledger read {f.subject}`: {f.text}")


@app.command()
def html(out: Path = typer.Argument(..., help="File to write."), home: Path = LEDGER, language: str = typer.Option("", help="zh or en.")) -> None:
    """A static, searchable page of the ledger."""
    from headwater.core.errors import UserInputError
    from headwater.ledger.page import pieces

    ledger, config = open_ledger(home, read_only=True)
    try:
        page = out.open("w", encoding="utf-8")
    except OSError as e:
        raise UserInputError(f"out: {out} cannot be written ({e.strerror or e})", "out") from None
    with ledger, page as f:
        for piece in pieces(ledger, f"{config.topic} · ledger", language or config.language):
            f.write(piece)
    typer.echo(f"{out}: {out.stat().st_size:,} bytes")


@app.command()
def recall(files: list[Path]) -> None:
    """How much of a brief the rules can type, and what the round trip keeps; printed, not promised."""
    from headwater.ledger.recall import measure

    for path in files:
        typer.echo(f"{path.name}:")
        for line in measure(path):
            typer.echo(f"  {line}")


@app.command()
def bench(
    notes: int = typer.Option(2000, min=1),
    works: int = typer.Option(800, min=1),
    seed: int = 1,
    keep: Path | None = typer.Option(None, help="Keep the files here."),
    json_out: Path | None = typer.Option(None, "--json", help="Write the figures as JSON."),
    quiet: bool = typer.Option(False, "--quiet", "-q"),
) -> None:
    """Ingest and digest generated notes; time, memory and the second run."""
    import json

    from headwater.ledger.bench import measure

    figures = measure(notes, works, seed, keep, lambda title: bar(title, quiet))
    for name, value in figures.items():
        typer.echo(f"{name}: {value:,}" if isinstance(value, int | float) else f"{name}: {value}")
    if json_out:
        json_out.write_text(json.dumps(figures, indent=2) + "\n", "utf-8")
