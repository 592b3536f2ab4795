"""The linter for briefs, notes and ledgers: rules named by the numbers of the evidence checklist, one family per file.

`lint_text(text)` and `lint_paths(paths)` return findings; `CATALOGUE` holds what every rule means. No model, no network, no clock.
"""

from headwater.ledger.lint.catalogue import CATALOGUE, Rule
from headwater.ledger.lint.finding import Finding, Place
from headwater.ledger.lint.run import lint_paths, lint_text

__all__ = ["CATALOGUE", "Finding", "Place", "Rule", "lint_paths", "lint_text"]
