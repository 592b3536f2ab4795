"""The command line: one file per verb group; heavy imports happen inside the verbs so that --help stays fast."""

from __future__ import annotations

import sys

import typer

from headwater import __version__
from headwater.cli import batch, bench, brief, chat, claims, complete, decide, doctor, ledger, lint, models, policies, serve, sim, top
from headwater.core.errors import HeadwaterError

HELP = "Headwater: language models on CPU servers, and a ledger for what is claimed of them."
# rich_markup_mode None: drawing the help with rich would import it, which takes longer than everything else together
app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, help=HELP)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"headwater {__version__}")
        raise typer.Exit


@app.callback()
def root(version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version and stop.")) -> None:
    """Headwater: language models on CPU servers, and a ledger for what is claimed of them."""


app.command()(serve.serve)
app.command()(chat.chat)
app.command()(complete.complete)
app.add_typer(decide.app, name="decide")
app.command("run-batch")(batch.run_batch)
app.command()(top.top)
app.command()(doctor.doctor)
app.command()(models.models)
app.command()(policies.policies)
app.add_typer(sim.app, name="sim")
app.add_typer(bench.app, name="bench")
app.add_typer(ledger.app, name="ledger")
app.command()(brief.brief)
app.command()(lint.lint)
app.add_typer(claims.app, name="claims")


def main() -> None:
    """Entry point: user errors are one line and exit 2, ours exit 1."""
    try:
        app()
    except HeadwaterError as e:
        print(f"headwater: {e}", file=sys.stderr)
        sys.exit(e.exit_code)
    except OSError as e:
        if e.filename is None:
            raise
        print(f"headwater: {e.filename}: {e.strerror}", file=sys.stderr)      # a file that was named and cannot be read or written
        sys.exit(2)


if __name__ == "__main__":
    main()
