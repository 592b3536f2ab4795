"""Fact tables shipped with the ledger: TOML files, one kind each; every fact names its source and the day it was looked up.

Facts are data about the world, never about a brief. `load(kind)` returns the entries of `facts/<kind>.toml`.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any

from headwater.core.errors import FormatError

KINDS = ("hardware", "models", "software", "metrics", "venues", "works", "shortnames")


@cache
def load(kind: str) -> tuple[dict[str, Any], ...]:
    """Entries of one table, in file order. Raises FormatError naming the entry that lacks a source or a date."""
    name = f"{kind}.toml"
    try:
        table = tomllib.loads(resources.files(__package__).joinpath(name).read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as e:
        raise FormatError(f"facts/{name}: {e}", field=name) from None
    entries = table.get("fact", [])
    default = table.get("default", {})
    out = []
    for i, entry in enumerate(entries, 1):
        full = {**default, **entry}
        for key in ("name", "source", "date"):
            if not full.get(key):
                raise FormatError(f"facts/{name}: fact {i} ({entry.get('name', 'unnamed')}) has no '{key}'", field=name)
        out.append(full)
    return tuple(out)


def by_name(kind: str) -> dict[str, dict[str, Any]]:
    """Entries by lower-case name and alias."""
    return {key.lower(): entry for entry in load(kind) for key in (entry["name"], *entry.get("aliases", []))}


def cite(fact: dict[str, Any]) -> str:
    """`source, date` for a message."""
    return f"{fact['source']}, {fact['date']}"
