"""Room `attend`: which cached positions a generated token attends to. A lossy room: at full budget a resident is dense, bit for bit.

Most residents select for what a request generates: queries of its own prompt are dense; those from the first generated token on select. Patterns
are for prompts: these are read in part, what is generated reads everything. What is read is a function of absolute positions, so that chunks,
forks, preemption and the cache change nothing. Keys and values of generated tokens are never shared, those of prompts under the policy's name.
"""

from __future__ import annotations

from typing import Any, Protocol

from headwater.core.registry import require
from headwater.kernels.pattern import PatternSpec
from headwater.kernels.select import SelectSpec


class AttendPolicy(Protocol):
    def selection(self) -> SelectSpec | PatternSpec | None:
        """What the kernels are asked for: of generated tokens, or (PatternSpec) of prompts; None = everything is read."""


def share(name: str, value: float) -> float:
    """A share of clusters or pages. Raises UserInputError unless 0 ≤ value ≤ 1."""
    return require("attend", name, value, 0 <= value <= 1, "a share between 0 and 1")


def positions(name: str, value: int, least: int = 0, most: int = 1 << 24, multiple: int = 1) -> int:
    """A number of positions. Raises UserInputError naming the bounds."""
    of = f"a multiple of {multiple} " if multiple > 1 else ""
    return require("attend", name, value, least <= value <= most and value % multiple == 0, f"{of}between {least:,} and {most:,}")


def number(name: str, value: float) -> float:
    """A finite number of at least 0. Raises UserInputError otherwise."""
    return require("attend", name, value, 0 <= value < float("inf"), "a finite number of at least 0")


def frame(tile: int, block: int, queries: int, sinks: int, local: int, dense_layers: int, whole_prompt: bool = False) -> dict[str, Any]:
    """Fields of a PatternSpec: what all residents for prompts have. whole_prompt: a prompt's last 128 queries decide for all of it, as published.

    Raises UserInputError naming the parameter and its bounds.
    """
    positions("tile", tile, 256, 4096, 256)
    positions("queries", queries, 1, min(64, tile // 16))
    positions("block", block, 16, 256, 16)
    rows = max(block, 64)
    require("attend", "block", block, tile % rows == 0, f"a divisor of tile={tile}")
    return {
        "tile": tile, "block": block, "rows": rows, "queries": 128 if whole_prompt else queries, "sinks": positions("sinks", sinks),
        "local": positions("local", local), "dense_layers": positions("dense_layers", dense_layers), "whole": whole_prompt,
    }
