"""A brief as a list of neutral blocks, and their two spellings: Markdown and plain text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal


@dataclass(slots=True)
class Block:
    """kind: heading (depth 1..3), paragraph, bullet (depth 0..), number (a numbered item, label is the number), table, field (a labelled bullet)."""

    kind: Literal["heading", "paragraph", "bullet", "number", "table", "field"]
    text: str = ""
    depth: int = 0
    label: str = ""
    rows: list[list[str]] = field(default_factory=list)


@dataclass(slots=True)
class Page:
    """Blocks in order; the colon of labels depends on the language."""

    language: str
    blocks: list[Block] = field(default_factory=list)

    def heading(self, text: str, depth: int = 2) -> None:
        self.blocks.append(Block("heading", text, depth))

    def paragraph(self, text: str) -> None:
        self.blocks.append(Block("paragraph", text))

    def bullet(self, text: str, depth: int = 0) -> None:
        self.blocks.append(Block("bullet", text, depth))

    def number(self, label: str, text: str) -> None:
        self.blocks.append(Block("number", text, 0, label))

    def field(self, label: str, text: str, depth: int = 0) -> None:
        """A labelled bullet; without a label a plain one."""
        self.blocks.append(Block("field" if label else "bullet", text, depth, label))

    def table(self, rows: list[list[str]]) -> None:
        """rows[0] is the heading."""
        self.blocks.append(Block("table", rows=rows))

    @property
    def colon(self) -> str:
        return ": " if self.language == "en" else "："


def one_line(text: str) -> str:
    """Line breaks to single spaces: a block is one line, so that its structure survives."""
    return re.sub(r"\s*\n\s*", " ", text).strip()


def markdown(page: Page) -> str:
    """Markdown with one blank line between blocks of different kinds."""
    out: list[str] = []
    last = ""
    for b in page.blocks:
        group = "list" if b.kind in {"bullet", "field"} else b.kind
        if out and not (group == last == "list"):
            out.append("")
        out += _markdown(b, page.colon)
        last = group
    return "\n".join(out) + "\n"


def _markdown(b: Block, colon: str) -> list[str]:
    text = one_line(b.text)
    if b.kind == "heading":
        return [f"{'#' * b.depth} {text}"]
    if b.kind == "bullet":
        return [f"{'  ' * b.depth}- {text}"]
    if b.kind == "field":
        return [f"{'  ' * b.depth}- **{b.label}**{colon}{text}".rstrip()]
    if b.kind == "number":
        return [f"{b.label}. {text}"]
    if b.kind == "table":
        rows = [[_cell(c) for c in row] for row in b.rows]
        return [_row(rows[0]), _row(["---"] * len(rows[0])), *(_row(r) for r in rows[1:])]
    return [text]


def _cell(text: str) -> str:
    return one_line(text).replace("|", "｜")


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def plain(page: Page) -> str:
    """Plain text: headings stand alone, bullets are `•`, tables are lines of cells."""
    out: list[str] = []
    last = ""
    for b in page.blocks:
        group = "list" if b.kind in {"bullet", "field"} else b.kind
        if out and not (group == last == "list"):
            out.append("")
        text = one_line(b.text)
        if b.kind == "bullet":
            out.append(f"{'  ' * (b.depth + 1)}• {text}")
        elif b.kind == "field":
            out.append(f"{'  ' * (b.depth + 1)}• {b.label}{page.colon}{text}".rstrip())
        elif b.kind == "number":
            out.append(f"{b.label}. {text}")
        elif b.kind == "table":
            out += [" ".join(one_line(c) for c in row) for row in b.rows]
        else:
            out.append(text)
        last = group
    return "\n".join(out) + "\n"
