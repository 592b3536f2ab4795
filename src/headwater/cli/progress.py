"""A progress bar on stderr for long steps; silent when stderr is no terminal."""

from __future__ import annotations

import sys
from typing import Any


class Bar:
    """Context manager. `update(done, total)` moves one bar; `stage(name, done, total)` keeps one bar per stage."""

    def __init__(self, title: str, quiet: bool) -> None:
        self.title = title
        self.quiet = quiet or not sys.stderr.isatty()
        self._tasks: dict[str, Any] = {}
        self._bar: Any = None

    def __enter__(self) -> Bar:
        if not self.quiet:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=Console(stderr=True))
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, done: int, total: int) -> None:
        """Move the bar."""
        self.stage(self.title, done, total)

    def stage(self, name: str, done: int, total: int) -> None:
        """Move the bar of a stage, making it on first use."""
        if self._bar is None:
            return
        if name not in self._tasks:
            self._tasks[name] = self._bar.add_task(name, total=total)
        self._bar.update(self._tasks[name], completed=done, total=total)
