"""The command line: one file per verb group. A verb's own file is imported when it is asked for, heavy imports happen inside the verbs, so that
both --help and a first token come fast."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from headwater import __version__
from headwater.core.errors import HeadwaterError

if TYPE_CHECKING:
    import typer

    app: typer.Typer

HELP = "Headwater: language models on CPU servers, and a ledger for what is claimed of them."
VERBS = {                                  # verb -> file in headwater.cli and what it holds: a command, or `app` with verbs of its own
    "serve": "serve.serve", "chat": "chat.chat", "complete": "complete.complete", "decide": "decide.app", "run-batch": "batch.run_batch",
    "top": "top.top", "doctor": "doctor.doctor", "models": "models.models", "policies": "policies.policies", "sim": "sim.app", "bench": "bench.app",
    "ledger": "ledger.app", "brief": "brief.brief", "lint": "lint.lint", "claims": "claims.app",
}


def build(verb: str | None = None) -> typer.Typer:
    """The command line with one verb, or with all where it is none that we know (help and errors name them all)."""
    import typer

    def print_version(value: bool) -> None:
        if value:
            typer.echo(f"headwater {__version__}")
            raise typer.Exit

    # rich_markup_mode None: drawing the help with rich would import it, which takes longer than everything else together
    made = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, help=HELP)

    @made.callback(help=HELP)
    def root(version: bool = typer.Option(False, "--version", callback=print_version, is_eager=True, help="Print the version and stop.")) -> None:
        pass

    for name in [verb] if verb in VERBS else VERBS:
        file, attribute = VERBS[name].split(".")
        value = getattr(importlib.import_module(f"headwater.cli.{file}"), attribute)
        if attribute == "app":
            made.add_typer(value, name=name)
        else:
            made.command(name)(value)
    return made


def __getattr__(name: str) -> Any:
    """`app`: the whole command line, made when somebody asks for it."""
    if name != "app":
        raise AttributeError(f"module 'headwater.cli.main' has no attribute '{name}'")
    globals()["app"] = build()
    return globals()["app"]


def main() -> None:
    """Entry point: user errors are one line and exit 2, ours exit 1."""
    try:
        build(next((a for a in sys.argv[1:] if not a.startswith("-")), None))()
    except HeadwaterError as e:
        print(f"headwater: {e}", file=sys.stderr)
        sys.exit(e.exit_code)
    except OSError as e:
        if e.filename is None:
            raise
        print(f"headwater: {e.filename}: {e.strerror}", file=sys.stderr)      # a file that was named and cannot be read or written
        sys.exit(2)
    except MemoryError as e:
        print(f"headwater: more memory was asked for than there is ({e}); smaller sizes would be right", file=sys.stderr)
        sys.exit(2)
    except RuntimeError as e:
        if type(e).__name__ != "NativeError":                       # what the environment asks of the kernels; they know nothing of our errors
            raise
        print(f"headwater: {e}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
