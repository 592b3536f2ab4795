"""Options that several verbs share, spelled once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Optional

import typer

Model = Annotated[str, typer.Option("--model", "-m", help="Known name (headwater models), .gguf file, folder, hf:ORG/REPO[:FILE], or echo.")]
Weights = Annotated[str, typer.Option(help="as-is, or quantise a float model at load: q8, q4.")]
KvMemory = Annotated[Optional[str], typer.Option(help="Memory for keys and values, such as 2G; default: what the machine allows.")]  # noqa: UP045
KvFormat = Annotated[str, typer.Option(help="Format of cached keys and values: f16, i16, q8, k8v4, int4, fp4; with r behind it rotated: int4r.")]
Context = Annotated[Optional[int], typer.Option(help="Context in tokens; default: the model's own.")]  # noqa: UP045
Threads = Annotated[Optional[int], typer.Option(help="Threads; default: the physical cores that we may use.")]  # noqa: UP045
ChatTemplate = Annotated[Optional[str], typer.Option(help="File with a chat template that replaces the model's own.")]  # noqa: UP045
Sched = Annotated[str, typer.Option(help="Who runs next: fcfs, priority, sjf, fair; with parameters: fcfs:seconds=0.1.")]
Evict = Annotated[str, typer.Option(help="Which cached block leaves: lru, slru, lfu, demand.")]
Draft = Annotated[str, typer.Option(help="Which tokens to guess ahead: none, ngram, suffix. Guesses change the speed, never the text.")]
Attend = Annotated[str, typer.Option(help="What generated tokens read: dense, or lossy: window, quest, wave, tree; wave:retrieve=0.1.")]
RopeScaling = Annotated[str, typer.Option(help="A longer context than the model's: yarn:factor=4, ntk, linear, none (with --attend dualchunk).")]
Backend = Annotated[str, typer.Option(help="auto, native, or reference (numpy, slow).")]
AcceptLicence = Annotated[bool, typer.Option("--accept-licence", help="You have read and accept the terms of a model that asks for it.")]

MaxTokens = Annotated[Optional[int], typer.Option(help="Most tokens to draw; default: the rest of the context.")]  # noqa: UP045
Temperature = Annotated[float, typer.Option(help="0 = always the most likely token.")]
TopP = Annotated[float, typer.Option(help="Draw from the smallest set of tokens with this share of the probability.")]
TopK = Annotated[int, typer.Option(help="Draw from the k most likely tokens; 0 = all.")]
Seed = Annotated[Optional[int], typer.Option(help="The same seed and prompt give the same text; default: a fresh one, printed at the end.")]  # noqa: UP045

def writable(param: typer.CallbackParam, value: Path | None) -> Path | None:
    """Callback of an option that names a file for results: told before the work that would be lost. Raises UserInputError naming the option."""
    from headwater.core.errors import expect_writable

    expect_writable(str(param.name), value)
    return value


DEFAULT_MODEL = "smollm2-135m-instruct"


def load_progress() -> Any:
    """A progress callback for loading: a bar on stderr where that is a terminal, else None. `.close()` it afterwards."""
    import sys

    return LoadBar() if sys.stderr.isatty() else None


class LoadBar:
    """Bytes loaded; drawn by hand, because importing a progress library takes longer than loading a small model."""

    WIDTH = 30

    def __init__(self) -> None:
        self._shown = -1

    def __call__(self, done: int, total: int, name: str) -> None:
        import sys

        filled = self.WIDTH * done // max(total, 1)
        if filled != self._shown:
            self._shown = filled
            print(f"\rloading [{'#' * filled}{' ' * (self.WIDTH - filled)}] {total / 2**20:,.0f} MiB", end="", file=sys.stderr, flush=True)
        if done >= total:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
