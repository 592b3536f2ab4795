"""Prompts in patterns against dense prompts on a small model: what several experiments share."""

from __future__ import annotations

from typing import Any

MODEL, LENGTH, DOCUMENTS = "smollm2-135m-instruct", 4096, 5


def documents(policies: tuple[str, ...], length: int = LENGTH, mass: bool = False) -> list[list[Any]]:
    """Per document the scores of dense and of every policy (`headwater.bench.longprefill`); chunks take turns. mass: of the first document."""
    from _attend import library_text

    from headwater.bench.longprefill import Bench
    from headwater.engine.build import EngineSpec, load_text
    from headwater.model.catalog import resolve
    from headwater.model.load.loader import load_model

    bench = Bench(load_model(resolve(MODEL)), load_text(EngineSpec(MODEL)).tokenizer, library_text())
    return [bench.run(length, 1, policies, mass=mass and d == 0, first=d) for d in range(DOCUMENTS)]


def summary(scores: list[list[Any]]) -> dict[str, dict[str, Any]]:
    """policy -> means over documents."""
    from headwater.bench.longprefill import row

    out: dict[str, dict[str, Any]] = {}
    for of_policy in zip(*scores, strict=True):
        rows = [row(s, of_document[0]) for s, of_document in zip(of_policy, scores, strict=True)]
        names = ("kl", "left_out", "agree", "faster", "attend_faster", "cpu_faster", "allowed")
        out[rows[0]["policy"]] = {n: round(sum(r[n] for r in rows) / len(rows), 5) for n in names} | {
            "captured mass": rows[0]["mass"], "pays from": [r["crossover"] for r in rows],
        }
    return out


def companions(scores: list[list[Any]], policy: int, flags: str) -> dict[str, Any]:
    """What a run of this family owes; policy: its place among the scores."""
    from headwater import __version__

    table = summary(scores)
    mine = table[scores[0][policy].policy]
    return {
        "baseline_name": "our own dense attention", "baseline_version": __version__, "baseline_flags": flags, "baseline_generation": "same build",
        "quality_cost": mine["kl"], "ablation": table, "output_error": {"mean KL, nats": mine["kl"]},
        "attention_recall": {"captured share of the soft-max, first document": mine["captured mass"]},
        "task_accuracy": {"share of positions with dense's first choice": mine["agree"]},
        "bytes_per_step": {"share of (query, head, block) left out": mine["left_out"]},
    }
