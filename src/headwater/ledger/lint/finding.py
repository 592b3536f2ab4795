"""What a rule reports: where, what, what was expected, and which other places show it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Needs = Literal["text", "facts", "calendar"]


@dataclass(frozen=True, slots=True)
class Place:
    """A quoted piece of one line. line: 1-based; span: the exact characters."""

    line: int
    span: str

    def as_json(self) -> dict[str, Any]:
        return {"line": self.line, "span": self.span}


@dataclass(frozen=True, slots=True)
class Finding:
    """One defect.

    rule: checklist number. place: where a reader should look first. message: what is wrong. expected: what would be right.
    related: the other side of a contradiction. needs: `text` when the file alone shows it, `facts` when a fact table does,
    `calendar` when dates have to be compared. file: filled in by the runner.
    """

    rule: int
    place: Place
    message: str
    expected: str
    related: tuple[Place, ...] = field(default=())
    needs: Needs = "text"
    file: str = ""

    @property
    def sort_key(self) -> tuple[str, int, int, str, str]:
        return self.file, self.place.line, self.rule, self.place.span, self.message

    def as_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "rule": self.rule,
            "line": self.place.line,
            "span": self.place.span,
            "message": self.message,
            "expected": self.expected,
            "related": [p.as_json() for p in self.related],
            "needs": self.needs,
        }
