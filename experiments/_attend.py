"""Selective attention at equal bytes on a small model: what several experiments share."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

MODEL = "smollm2-135m-instruct"
LENGTH, DOCUMENTS, SEGMENT, BUDGETS = 2200, 5, 256, (0.2, 0.3, 0.5)
MODULES = (
    "argparse", "asyncio", "collections", "csv", "datetime", "decimal", "difflib", "doctest", "email", "fractions", "functools", "heapq", "inspect",
    "ipaddress", "itertools", "json", "logging", "mailbox", "optparse", "os", "pathlib", "pickle", "random", "re", "shutil", "smtplib", "sqlite3",
    "statistics", "string", "subprocess", "tarfile", "tempfile", "textwrap", "threading", "typing", "unittest", "urllib.request", "uuid", "zipfile",
)


def library_text() -> str:
    """A long English text that is on every machine: the documentation strings of the standard library."""
    parts: dict[str, None] = {}
    for name in MODULES:
        module = importlib.import_module(name)
        members = [m for _, m in sorted(vars(module).items()) if callable(m)]
        inner = [x for m in members if inspect.isclass(m) for _, x in sorted(vars(m).items()) if callable(x)]
        for member in (module, *members, *inner):
            doc = inspect.getdoc(member)
            if doc and len(doc) > 80:
                parts[doc] = None
    return "\n\n".join(parts)


def bench() -> Any:
    """The benchmark of `headwater bench longcontext`, over that text."""
    from headwater.bench.longcontext import Bench
    from headwater.engine.build import EngineSpec, load_text
    from headwater.model.catalog import resolve
    from headwater.model.load.loader import load_model

    return Bench(load_model(resolve(MODEL)), load_text(EngineSpec(MODEL)).tokenizer, library_text())


def per_document(names: tuple[str, ...]) -> dict[float, dict[str, list[dict[str, Any]]]]:
    """budget -> method -> one row per document (`longcontext.row`), all methods at the same bytes; quest selects in every layer."""
    from headwater.bench.longcontext import matched, row

    b = bench()
    out: dict[float, dict[str, list[dict[str, Any]]]] = {}
    policies = {f"{m} {f}": s for f in BUDGETS for m, s in matched(LENGTH, f, segment=SEGMENT).items() if m in names}
    for d in range(DOCUMENTS):
        scores = b.run(LENGTH, 1, policies, first=d, steps=0)
        for score in scores[1:]:
            method, budget = score.policy.split()
            out.setdefault(float(budget), {}).setdefault(method, []).append(row(score, scores[0], LENGTH))
    return out


def summary(rows: dict[float, dict[str, list[dict[str, Any]]]]) -> dict[str, Any]:
    """budget -> method -> mean KL, share of dense's bytes, share of equal first choices."""
    def mean(values: list[float]) -> float:
        return round(sum(values) / len(values), 5)

    return {
        str(budget): {m: {"kl": mean([r["kl"] for r in rs]), "bytes": mean([r["bytes"] for r in rs]), "top-1": mean([r["agree"] for r in rs])}
                      for m, rs in methods.items()}
        for budget, methods in rows.items()
    }


def compared(ours: str, theirs: str, title: str, note: str) -> dict[str, Any]:
    """One outcome: mean KL of `ours` over that of `theirs` at the middle budget, document by document."""
    from _intervals import relative_change

    from headwater import __version__

    rows = per_document((ours, theirs))
    middle = rows[BUDGETS[1]]
    value, interval = relative_change([r["kl"] for r in middle[ours]], [r["kl"] for r in middle[theirs]])
    mine = middle[ours]
    right = [r["points"] for r in mine if r["tasks"]]
    return {
        "metric": "kl_to_dense", "value": round(value, 4), "interval": [round(x, 4) for x in interval], "n": DOCUMENTS,
        "setting": {"model": "SmolLM2-135M-Instruct", "context": str(LENGTH), "batch": "1", "baseline": title},
        "companions": {
            "baseline_name": title, "baseline_version": __version__, "baseline_flags": f"equal bytes, {BUDGETS[1]} of dense, segments of {SEGMENT}",
            "baseline_generation": "same build", "quality_cost": round(sum(r["kl"] for r in mine) / len(mine), 5), "ablation": summary(rows),
            "output_error": {"mean KL, nats": round(sum(r["kl"] for r in mine) / len(mine), 5)},
            "task_accuracy": round(sum(right) / len(right) / 100, 4) if right else "dense solves no task in these documents",
            "bytes_per_step": {m: round(sum(r["bytes"] for r in rs) / len(rs), 4) for m, rs in middle.items()},
        },
        "note": note,
    }
