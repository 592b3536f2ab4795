"""Room `attend`: which cached positions a generated token attends to. A lossy room: at full budget a resident is dense, bit for bit.

Queries of a request's own prompt are dense; those from the first generated token on select. What they read is a function of absolute
positions, so that chunks, forks, preemption and the cache change nothing. Keys and values that they write are never shared.
"""

from __future__ import annotations

from typing import Protocol

from headwater.kernels.select import SelectSpec


class AttendPolicy(Protocol):
    def selection(self) -> SelectSpec | None:
        """What the kernels are asked for; None = everything is read."""


def share(name: str, value: float) -> float:
    """A share of clusters or pages. Raises UserInputError unless 0 ≤ value ≤ 1."""
    from headwater.core.errors import UserInputError

    if not 0 <= value <= 1:
        raise UserInputError(f"--attend: {name}={value:g}: a share between 0 and 1", field="attend")
    return value


def positions(name: str, value: int, least: int = 0, most: int = 1 << 24, multiple: int = 1) -> int:
    """A number of positions. Raises UserInputError naming the bounds."""
    from headwater.core.errors import UserInputError

    if not least <= value <= most or value % multiple:
        of = f"a multiple of {multiple} " if multiple > 1 else ""
        raise UserInputError(f"--attend: {name}={value}: {of}between {least:,} and {most:,}", field="attend")
    return value
