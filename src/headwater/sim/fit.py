"""Fit a cost model to the step log of a real engine: piecewise linear, relative least squares, error on held-out steps beside it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headwater.core.cost import NAMES, LinearCost, columns, non_negative, settle
from headwater.core.errors import FormatError, UserInputError
from headwater.core.jsonlines import numbered
from headwater.core.plan import StepFeatures

FEATURES = ("tokens", "rows", "reads", "kv_positions", "guesses", "kv_held")
LEAST_STEPS = 20                  # to fit costs to
_PASSES = 4


@dataclass(frozen=True, slots=True)
class Fit:
    """cost: seconds of a step; overhead: (seconds per step, seconds per row) of the engine's own share; error: relative errors of held-out steps
    (`median`, `p90`, `mean`, and `total`: the relative error of their summed time)."""

    cost: LinearCost
    overhead: tuple[float, float]
    steps: int
    error: dict[str, float]

    def save(self, path: Path) -> None:
        body = {"terms": dict(zip(NAMES, self.cost.coefficients, strict=True)), "overhead": {"step": self.overhead[0], "row": self.overhead[1]},
                "steps": self.steps, "error": self.error}
        path.write_text(json.dumps(body, indent=2) + "\n", encoding="utf-8")

    @staticmethod
    def load(path: Path) -> Fit:
        """Read what `save` wrote; FormatError names what is missing."""
        try:
            body = json.loads(path.read_text(encoding="utf-8"))
            terms = tuple(float(body["terms"][name]) for name in NAMES)
            overhead = (float(body["overhead"]["step"]), float(body["overhead"]["row"]))
            least = dict.fromkeys(NAMES, 0.0) | {"token_beyond_knee": -terms[NAMES.index("token")]}     # more tokens never cost less
            for name, value in [*zip(NAMES, terms, strict=True), ("overhead.step", overhead[0]), ("overhead.row", overhead[1])]:
                if not least.get(name, 0.0) <= value < math.inf:
                    raise ValueError(f"{name} is {value:g} seconds, it must be a number of at least {least.get(name, 0.0):g}")
            return Fit(LinearCost(terms), overhead, int(body.get("steps", 0)), {k: float(v) for k, v in body.get("error", {}).items()})
        except OSError as e:
            raise UserInputError(f"{path}: {e.strerror or e}", field="cost") from None
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as e:
            raise FormatError(f"{path}: not a fitted cost model ({type(e).__name__}: {e}); `headwater sim fit LOG` writes one", "cost") from None


def read_log(path: Path) -> tuple[list[StepFeatures], np.ndarray, np.ndarray]:
    """Features, seconds of the step and seconds of plan + apply for each line of a step log (JSON lines). Steps that took no time are left out."""
    steps: list[StepFeatures] = []
    seconds: list[float] = []
    own: list[float] = []
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as e:
        raise UserInputError(f"{path}: {e.strerror or e}", field="log") from None
    for number, line in numbered(text):
        try:
            entry = json.loads(line)
            f = StepFeatures(*(_count(entry, name) for name in FEATURES))
            run = _duration(entry, "step_seconds", None)
            share = _duration(entry, "plan_seconds", 0.0) + _duration(entry, "apply_seconds", 0.0)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as e:
            raise FormatError(f"{path.name}: line {number}: not a step ({type(e).__name__}: {e})", field="log") from None
        if run > 0 and f.tokens > 0:
            steps.append(f)
            seconds.append(run)
            own.append(share)
    return steps, np.array(seconds), np.array(own)


def _count(entry: dict[str, object], name: str) -> int:
    value = entry[name]
    if type(value) is not int or not 0 <= value < 2**53:            # what float64 can hold exactly
        raise ValueError(f"{name} is {value!r}, not a count")
    return value


def _duration(entry: dict[str, object], name: str, absent: float | None) -> float:
    value = entry[name] if absent is None else entry.get(name, absent)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ValueError(f"{name} is {value!r}, not a number of seconds")
    return float(value)


def fit(steps: list[StepFeatures], seconds: np.ndarray, own: np.ndarray | None = None, seed: int = 0) -> Fit:
    """Fit on four steps in five, judge on the fifth, then report both. Errors are relative to the last pass's fit: relative to what was seen, slow
    steps would weigh little and the mean come out too low. Steps that took more than five times their fit (a paused machine) are left out."""
    if len(steps) < LEAST_STEPS:
        raise UserInputError(f"log: {len(steps)} steps are too few to fit a cost model ({LEAST_STEPS} at least)", field="log")
    x = np.array([columns(f) for f in steps])
    held = np.random.default_rng(seed).random(len(steps)) < 0.2
    train, scale = ~held, seconds
    for _ in range(_PASSES):
        a = x[train] / scale[train, None]
        cost = LinearCost(settle(non_negative(a.T @ a, a.T @ (seconds / scale)[train])))
        predicted = np.maximum(x @ np.array(cost.coefficients), 1e-9)
        train = ~held & (seconds < 5 * predicted)
        scale = np.clip(predicted, seconds / 5, 5 * seconds)
    judged = held if held.any() else np.ones(len(steps), bool)
    relative = np.abs(predicted[judged] - seconds[judged]) / seconds[judged]
    error = {"median": float(np.median(relative)), "mean": float(relative.mean()), "p90": float(np.percentile(relative, 90)),
             "total": float(abs(predicted[judged].sum() / seconds[judged].sum() - 1.0))}
    return Fit(cost, _overhead(x[:, NAMES.index("row")], own), len(steps), error)


def _overhead(rows: np.ndarray, own: np.ndarray | None) -> tuple[float, float]:
    if own is None or not own.any():
        return 0.0, 0.0
    slope = 0.0 if np.ptp(rows) == 0 else max(float(np.polyfit(rows, own, 1)[0]), 0.0)
    return max(float(np.median(own - slope * rows)), 0.0), slope
