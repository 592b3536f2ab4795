"""headwater brief: render a batch of the ledger; writes exactly one file."""

from __future__ import annotations

from pathlib import Path

import typer

from headwater.cli.ledger import LEDGER, open_ledger


def brief(
    home: Path = LEDGER,
    batch: str | None = typer.Option(None, help="Name of a batch or of an imported brief; default: the latest of our own."),
    layout: str = typer.Option("", help="D (daily) or B (batch); default: the instance's."),
    language: str = typer.Option("", help="zh or en; default: the batch's."),
    form: str = typer.Option("md", "--format", help="md, text or json."),
    out: str = typer.Option("", help="File to write, or - for stdout; default: LEDGER/briefs/DATE-TOPIC.md."),
    show: bool = typer.Option(False, "--show", help="Show it on the terminal and write nothing."),
) -> None:
    """Render a brief from the ledger: one file, the same bytes for the same ledger; nothing else is touched."""
    from headwater.core.errors import UserInputError
    from headwater.ledger.brief import write
    from headwater.ledger.brief.view import find_batch, load_view

    for name, value, allowed in (("layout", layout, ("", "D", "B")), ("language", language, ("", "zh", "en")), ("format", form, tuple(write.SUFFIX))):
        if value not in allowed:
            raise UserInputError(f"{name}: {value!r} is none of {', '.join(a for a in allowed if a)}", name)
    ledger, config = open_ledger(home, read_only=True)
    with ledger:
        found = find_batch(ledger, batch)
        view = load_view(ledger, found, language or None)
        if show:
            from headwater.ledger.brief.terminal import show as on_terminal

            on_terminal(view)
            return
        text = write.render(view, layout or (found.layout if found.imported else config.layout), form)
        if out == "-":
            typer.echo(text, nl=False)
            return
        path = Path(out) if out else home / "briefs" / write.file_name(view, form)
        write.write_once(path, text)
    typer.echo(f"{path}: {len(view.increments)} increments, {len(view.adjacent)} adjacent, {len(view.contradictions)} contradictions")
