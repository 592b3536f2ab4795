"""Findings as text, JSON and SARIF 2.1.0; equal findings give equal bytes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from headwater.ledger.lint.catalogue import CATALOGUE
from headwater.ledger.lint.finding import Finding, Place

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def as_json(findings: Sequence[Finding]) -> str:
    """`{"findings": [...]}`, UTF-8, two spaces."""
    return json.dumps({"findings": [f.as_json() for f in findings]}, ensure_ascii=False, indent=2)


def as_text(findings: Sequence[Finding], files: int, width: int = 120) -> str:
    """One block per finding, then a line of totals."""
    out = []
    for f in findings:
        out.append(f"{f.file or '-'}:{f.place.line}: rule {f.rule} ({CATALOGUE[f.rule].name}, needs {f.needs}): {f.message}")
        out.append(f"    {_short(f.place.span, width)}")
        out.append(f"    expected: {f.expected}")
        out += [f"    see line {p.line}: {_short(p.span, width)}" for p in f.related]
    noun = "file" if files == 1 else "files"
    out.append(
        f"{len(findings)} finding{'' if len(findings) == 1 else 's'} in {files} {noun}" if findings else f"clean: {files} {noun}"
    )
    return "\n".join(out)


def _short(span: str, width: int) -> str:
    flat = " ".join(span.split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def _location(file: str, place: Place) -> dict[str, Any]:
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": file.replace("\\", "/")},
            "region": {"startLine": place.line, "snippet": {"text": place.span}},
        }
    }


def as_sarif(findings: Sequence[Finding], version: str) -> str:
    """A SARIF 2.1.0 log with one run; rules are those of the catalogue that were found."""
    numbers = sorted({f.rule for f in findings})
    rules = [
        {
            "id": f"HW{n}",
            "name": CATALOGUE[n].name,
            "shortDescription": {"text": CATALOGUE[n].what},
            "help": {"text": CATALOGUE[n].example},
            "properties": {"checklist": n, "needs": list(CATALOGUE[n].needs)},
        }
        for n in numbers
    ]
    results = [
        {
            "ruleId": f"HW{f.rule}",
            "ruleIndex": numbers.index(f.rule),
            "level": "warning",
            "message": {"text": f"{f.message}. Expected: {f.expected}"},
            "locations": [_location(f.file, f.place)],
            "relatedLocations": [{"id": i, **_location(f.file, p)} for i, p in enumerate(f.related, 1)],
            "properties": {"needs": f.needs},
        }
        for f in findings
    ]
    driver = {"name": "headwater lint", "version": version, "rules": rules}
    log = {
        "$schema": SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}],
    }
    return json.dumps(log, ensure_ascii=False, indent=2)
