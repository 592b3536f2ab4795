"""headwater lint: find what a brief, a note or a ledger claims twice, counts wrongly or could not know."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer


def lint(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Briefs or notes (Markdown, text), folders of them, ledger folders, .jsonl files.", show_default=False),
    ] = None,
    form: Annotated[
        Literal["text", "json", "sarif"], typer.Option("--format", help="text for people, json for programs, sarif for code hosts.")
    ] = "text",
    rule: Annotated[
        list[int] | None, typer.Option("--rule", help="Only this rule of the checklist; may be given several times.")
    ] = None,
    explain: Annotated[
        int | None, typer.Option("--explain", metavar="RULE", help="Say what a rule checks, with an example, and stop.")
    ] = None,
    rules: Annotated[bool, typer.Option("--rules", help="List all rules and stop.")] = False,
) -> None:
    """Check FILE against the evidence checklist. Exit codes: 0 clean, 1 findings, 2 something could not be read."""
    from headwater.ledger.lint.catalogue import CATALOGUE
    from headwater.ledger.lint.catalogue import explain as told

    if rules:
        for r in CATALOGUE.values():
            typer.echo(f"{r.number:>3}  {r.name:<36} {','.join(r.needs)}")
        return
    for number in (*(rule or []), *([explain] if explain is not None else [])):
        if number not in CATALOGUE:
            _stop(f"no rule {number}; there are {', '.join(map(str, CATALOGUE))}")
    if explain is not None:
        typer.echo(told(CATALOGUE[explain]))
        return
    if not files:
        _stop("no file given; try `headwater lint brief.md`")
    raise typer.Exit(_run(files or [], form, rule))


def _run(files: list[Path], form: str, rule: list[int] | None) -> int:
    from headwater import __version__
    from headwater.core.errors import UserInputError
    from headwater.ledger.lint.finding import Finding
    from headwater.ledger.lint.render import as_json, as_sarif, as_text
    from headwater.ledger.lint.run import expand, lint_path

    found: list[Finding] = []
    unread = looked = 0
    for given in files:
        try:
            paths = expand([given])
        except UserInputError as e:
            print(f"headwater: {e}", file=sys.stderr)
            unread += 1
            continue
        for path in paths:
            try:
                found += lint_path(path, rule)
                looked += 1
            except UserInputError as e:  # one unreadable file does not hide the findings of the others
                print(f"headwater: {e}", file=sys.stderr)
                unread += 1
    if form == "json":
        typer.echo(as_json(found))
    elif form == "sarif":
        typer.echo(as_sarif(found, __version__))
    elif looked:
        typer.echo(as_text(found, looked))
    return 2 if unread else 1 if found else 0


def _stop(message: str) -> None:
    print(f"headwater: {message}", file=sys.stderr)
    raise typer.Exit(2)
