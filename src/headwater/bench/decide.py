"""What decisions are worth: accuracy, Brier, ECE with its floor, label mass and order consistency on closed-answer tasks, beside honest controls."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headwater.core.errors import UserInputError
from headwater.decisions import formulas
from headwater.decisions.types import DecisionRequest, Option, Question

_LETTERED = re.compile(r"^\(([A-Z])\)\s*(.*)$")


@dataclass(frozen=True, slots=True)
class Item:
    """One example: the text, its allowed answers, which one is right."""

    text: str
    options: tuple[str, ...]
    truth: int


def load_task(path: Path, count: int) -> list[Item]:
    """A BIG-Bench-Hard file (`examples[].input`, `.target`). Options are those of the example, or all targets of the task."""
    try:
        examples = json.loads(path.read_text("utf-8"))["examples"]
        targets = sorted({e["target"] for e in examples})
        items = [_item(e["input"], e["target"], targets) for e in examples[:count]]
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise UserInputError(f"{path}: not a task with examples[].input and .target ({e!r})", field=str(path)) from None
    return [i for i in items if i is not None]


def _item(text: str, target: str, targets: Sequence[str]) -> Item | None:
    head, _, tail = text.partition("\nOptions:\n")
    lines = [x for x in tail.splitlines() if x.strip()]
    lettered = [m for x in lines if (m := _LETTERED.match(x))]
    if lettered:
        letters = [f"({m[1]})" for m in lettered]
        return Item(head, tuple(m[2] for m in lettered), letters.index(target)) if target in letters else None
    return Item(head, tuple(targets), targets.index(target)) if target in targets else None


@dataclass(slots=True)
class Scores:
    """What came out for one arm."""

    accuracy: float
    brier: float
    ece: float
    ece_floor: float
    label_mass: float | None = None


def score(p: Sequence[np.ndarray], truth: Sequence[int], mass: Sequence[float] | None = None) -> Scores:
    """Accuracy counts ties as the lower index, as the engine does."""
    correct = np.array([int(x.argmax()) == t for x, t in zip(p, truth, strict=True)])
    top = np.array([float(x.max()) for x in p])
    briers = [formulas.brier(x, t) for x, t in zip(p, truth, strict=True)]
    return Scores(
        float(correct.mean()), float(np.mean(briers)), formulas.ece(top, correct), formulas.ece_floor(top), float(np.mean(mass)) if mass else None
    )


def _request(item: Item, state: str, order: Sequence[int]) -> DecisionRequest:
    options = tuple(Option(item.options[i], item.options[i]) for i in order)
    question = Question("answer", "choice", "What is the right answer?", options, "answer")
    return DecisionRequest(state, [question], label_mass=True)


def evaluate(ask: Callable[[list[DecisionRequest]], list[Any]], items: Sequence[Item]) -> dict[str, Any]:
    """One task. ask: requests -> DecisionResults. Arms: as given, without the state, options reversed; controls need no model."""
    truth = [i.truth for i in items]
    given = ask([_request(i, i.text, range(len(i.options))) for i in items])
    blind = ask([_request(i, "(nothing is known)", range(len(i.options))) for i in items])
    turned = ask([_request(i, i.text, range(len(i.options))[::-1]) for i in items])
    p = [r.answers[0].probabilities for r in given]
    q = [r.answers[0].probabilities[::-1] for r in turned]
    prior = Counter(truth).most_common(1)[0][0]
    out: dict[str, Any] = {
        "n": len(items),
        "decisions": score(p, truth, [r.answers[0].label_mass for r in given]),
        "no state": score([r.answers[0].probabilities for r in blind], truth),
        "reversed options": score(q, truth),
        "both orders averaged": score([(a + b) / 2 for a, b in zip(p, q, strict=True)], truth),
        "order consistency": float(np.mean([int(a.argmax()) == int(b.argmax()) for a, b in zip(p, q, strict=True)])),
        "first option": float(np.mean([t == 0 for t in truth])),
        "most frequent place": float(np.mean([t == prior for t in truth])),
        "chance": float(np.mean([1 / len(i.options) for i in items])),
    }
    out["points"] = [(float(x.max()), bool(int(x.argmax()) == t)) for x, t in zip(p, truth, strict=True)]
    return out


def reliability_plot(points: Sequence[tuple[float, bool]], path: Path, title: str) -> None:
    """Confidence against accuracy in ten bins, with the number of decisions in each. Needs matplotlib (headwater[plots])."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    confidence, correct = np.array([c for c, _ in points]), np.array([k for _, k in points])
    which = np.minimum((confidence * 10).astype(int), 9)
    counts = np.bincount(which, minlength=10)
    kept = counts > 0
    x = np.bincount(which, confidence, 10)[kept] / counts[kept]
    y = np.bincount(which, correct.astype(float), 10)[kept] / counts[kept]
    figure, axis = plt.subplots(figsize=(5, 5))
    axis.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    axis.scatter(x, y, s=20 + 3 * np.sqrt(counts[kept]) * 5)
    for a, b, n in zip(x, y, counts[kept], strict=True):
        axis.annotate(str(n), (a, b), textcoords="offset points", xytext=(6, 6), fontsize=8)
    axis.set(xlim=(0, 1), ylim=(0, 1), xlabel="probability of the chosen answer", ylabel="share that was right", title=title)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)
