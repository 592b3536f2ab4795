"""Writing a brief: one file, the same bytes for the same ledger, language, layout and format."""

from __future__ import annotations

import json
import os
from pathlib import Path

from headwater.core.errors import UserInputError
from headwater.ledger.brief.blocks import markdown, plain
from headwater.ledger.brief.layouts import lay_out
from headwater.ledger.brief.view import View

SUFFIX = {"md": ".md", "text": ".txt", "json": ".json"}


def render(view: View, layout: str, form: str) -> str:
    """The brief as text. form: `md`, `text` or `json`."""
    if form == "json":
        return as_json(view)
    page = lay_out(view, layout)
    return markdown(page) if form == "md" else plain(page)


def as_json(view: View) -> str:
    """All parts with levels and claims, keys sorted."""

    def dump(parts: list) -> list[dict]:
        return [p.model_dump(mode="json", exclude={"v", "at", "by", "order", "brief"}) for p in parts]

    body = {
        "schema": 1,
        "batch": view.batch.model_dump(mode="json"),
        "language": view.language,
        "counts": {
            "increments": len(view.increments),
            "adjacent": len(view.adjacent),
            "contradictions": len(view.contradictions),
            "ids": len(view.ids()),
            "included": len(view.totals("included")),
            "not_included": len(view.totals("not_included")),
        },
        "increments": dump(view.increments),
        "adjacent": dump(view.adjacent),
        "contradictions": dump(view.contradictions),
        "citable": dump(view.citable),
        "carried_over": dump(view.carried),
        "rejections": dump(view.rejections),
        "handles": dump(view.handles[:3]),
        "sources": dump(view.sources),
        "summary_rows": dump(view.rows),
        "statements": dump(view.statements),
        "claims": {k: {**c.model_dump(mode="json", exclude={"v", "at", "by"}), "level": view.levels[k]} for k, c in view.claims.items()},
    }
    return json.dumps(body, ensure_ascii=False, indent=2, sort_keys=True) + "\n"


def file_name(view: View, form: str) -> str:
    """`2026-10-06-inference.md`."""
    topic = "".join(c if c.isalnum() or c in "-_" else "-" for c in view.batch.topic)
    return f"{view.date or 'undated'}-{topic}{SUFFIX[form]}"


def write_once(path: Path, text: str) -> None:
    """Write a whole file or nothing; an interrupted write leaves the old one.

    Raises:
        UserInputError: the path is a folder, or cannot be written.
    """
    if path.is_dir():
        raise UserInputError(f"out: {path} is a folder; name a file in it, e.g. {path / 'brief.md'}", "out")
    part = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, "utf-8", newline="\n")
        os.replace(part, path)
    except OSError as e:
        raise UserInputError(f"out: {path} cannot be written ({e.strerror or e})", "out") from None
