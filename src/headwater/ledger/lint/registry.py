"""Which checks exist: `@check(47)` above a function that takes a `Brief` and yields findings of that rule.

A rule may have several checks; a check belongs to one rule. Families register when their module is imported by `all_checks`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator

from headwater.ledger.lint.brief import Brief
from headwater.ledger.lint.catalogue import CATALOGUE
from headwater.ledger.lint.finding import Finding

Check = Callable[[Brief], Iterator[Finding]]
FAMILIES = (
    "hardware",
    "models",
    "software",
    "works",
    "changes",
    "conflicts",
    "conduct",
    "metrics",
    "phrases",
    "origins",
    "dates",
    "levels",
    "grades",
    "states",
    "counts",
    "tallies",
    "lists",
    "dispositions",
    "sources",
    "batch",
    "identity",
)
_CHECKS: dict[int, list[Check]] = {}


def check(rule: int) -> Callable[[Check], Check]:
    """Register a check under a rule of the catalogue."""
    if rule not in CATALOGUE:
        raise ValueError(f"rule {rule} is not in the catalogue")

    def add(function: Check) -> Check:
        checks = _CHECKS.setdefault(rule, [])
        if function not in checks:
            checks.append(function)
        return function

    return add


def all_checks() -> dict[int, tuple[Check, ...]]:
    """Checks by rule number, every family imported."""
    for family in FAMILIES:
        importlib.import_module(f"headwater.ledger.lint.{family}")
    return {number: tuple(_CHECKS[number]) for number in sorted(_CHECKS)}
