"""Verdicts computed by code from a frozen prediction and a run's outcome. No model, no taste, no history edited.

A number can only be confirmed or refuted in the setting it was claimed for; another setting says something about the mechanism at
most. Without its companion metrics nothing is reproduced. A simulator never gets above `partly`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from headwater.ledger.records import Prediction

# what a run has to report beside its number, by family of technique; `all` holds for every one
COMPANIONS: dict[str, tuple[str, ...]] = {
    "all": ("baseline_name", "baseline_version", "baseline_flags", "baseline_generation", "quality_cost", "ablation", "environment"),
    "speculation": ("alpha", "tau", "draft_length_histogram", "verify_cost", "greedy_identity"),
    "compression": ("attention_recall", "output_error", "task_accuracy", "bytes_per_step"),
    "scheduling": ("goodput", "slo_violations", "fairness", "trace", "policy_baseline"),
    "decisions": ("max_delta_p", "accuracy", "calibration_error", "order_invariance"),
    "loading": ("bytes_per_second", "cold_cache"),
    "exactness": (),
}
ADEQUATE = 5
Verdict = Literal["reproduced", "partly", "refuted", "inconclusive", "not_testable_here"]


class Exactness(BaseModel):
    """Result of an exact comparison: how many were compared, how many differed, the first that did."""

    model_config = ConfigDict(extra="forbid")

    compared: int = Field(ge=0)
    violations: int = Field(ge=0)
    counter_example: str = ""


class Outcome(BaseModel):
    """What an experiment reports, as JSON.

    value, interval: in the prediction's unit (a relative change is a fraction: -0.241 for 24.1 % less). n: independent repetitions.
    setting: the fields of `records.Setting` as they were in the run. companions: by the names in `COMPANIONS`. simulated: the number
    comes from a simulator. authors_artefacts: the authors' own code was used. missing: what the machine lacks; then nothing was run.
    """

    model_config = ConfigDict(extra="forbid")

    metric: str = ""
    value: float | None = None
    interval: tuple[float, float] | None = None
    n: int = Field(default=0, ge=0)
    seed: int | None = None
    setting: dict[str, str] = {}
    exactness: Exactness | None = None
    companions: dict[str, Any] = {}
    simulated: bool = False
    authors_artefacts: bool = False
    missing: list[str] = []
    note: str = ""


@dataclass(slots=True)
class Ruling:
    """A verdict with its reasons. differs: setting fields that are not as claimed; missing: companions or means that lack."""

    verdict: Verdict
    kind: Literal["reproduction", "replication", "simulation"]
    exceeded: bool = False
    differs: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


def required_companions(family: str) -> list[str]:
    """Companion metrics a run of a family owes."""
    return [*COMPANIONS["all"], *COMPANIONS.get(family, ())]


def rule(prediction: Prediction, outcome: Outcome) -> Ruling:
    """The verdict on a prediction.

    An outcome with `missing` is not testable here. An exactness claim falls with one counter-example in any setting. Otherwise the
    interval decides on the direction, the tolerance on the magnitude, the setting on how far that reaches.
    """
    kind: Literal["reproduction", "replication", "simulation"] = (
        "simulation" if outcome.simulated else "reproduction" if outcome.authors_artefacts else "replication"
    )
    out = Ruling("inconclusive", kind)
    if outcome.missing:
        out.verdict, out.missing = "not_testable_here", list(outcome.missing)
        return out
    out.differs = differing(prediction.setting, outcome.setting)
    out.missing = [c for c in prediction.companions if _absent(outcome.companions.get(c))]
    if prediction.exactness:
        if outcome.exactness is None or outcome.exactness.compared == 0:
            out.reasons.append("an exactness claim needs an exact comparison; none was reported")
            return out
        if outcome.exactness.violations:
            out.verdict = "refuted"
            out.reasons.append(
                f"{outcome.exactness.violations} of {outcome.exactness.compared} comparisons differ: {outcome.exactness.counter_example}"
            )
            return out
        out.reasons.append(f"all {outcome.exactness.compared} comparisons are exact")
    if prediction.direction == 0 and prediction.magnitude is None:
        if prediction.exactness:
            _holds(out)
        else:
            out.reasons.append("the prediction names neither a direction nor exactness")
        return _topped(out)
    return _topped(_measured(prediction, outcome, out))


def differing(claimed: dict[str, str], actual: dict[str, str]) -> list[str]:
    """`hardware: claimed H100, here Xeon` for each field the claim fixes and the run does not meet."""
    return [
        f"{k}: claimed {v}, here {actual.get(k) or 'not stated'}" for k, v in claimed.items() if v and actual.get(k, "").casefold() != v.casefold()
    ]


def _absent(value: object) -> bool:
    return value is None or (isinstance(value, str | dict | list) and not value)


def _holds(out: Ruling) -> None:
    out.verdict = "partly" if out.differs or out.missing else "reproduced"


def _topped(out: Ruling) -> Ruling:
    """Nothing simulated, and nothing without its companions, is reproduced."""
    if out.verdict == "reproduced" and (out.kind == "simulation" or out.missing):
        out.verdict = "partly"
    if out.kind == "simulation":
        out.reasons.append("simulated: tops out at partly")
    if out.missing and out.verdict in {"reproduced", "partly"}:
        out.reasons.append("companion metrics missing: " + ", ".join(out.missing))
    out.exceeded = out.exceeded and out.verdict == "reproduced"
    return out


def _measured(prediction: Prediction, outcome: Outcome, out: Ruling) -> Ruling:
    if outcome.value is None or outcome.interval is None:
        out.reasons.append("no value with an interval was reported")
        return out
    low, high = sorted(outcome.interval)
    sign = prediction.direction or (1 if (prediction.magnitude or 0) > 0 else -1)
    near, far = (low, high) if sign > 0 else (-high, -low)  # in the claimed direction: near is the pessimistic end
    if far < 0:
        return _opposite(prediction, outcome, out)
    if near <= 0:
        out.reasons.append(f"the interval [{low:g}, {high:g}] contains no change")
        return out
    if outcome.n < ADEQUATE:
        out.reasons.append(f"n = {outcome.n} is below {ADEQUATE}")
        return out
    if prediction.magnitude is None:
        _holds(out)
        out.reasons.append(f"the direction holds, interval [{low:g}, {high:g}], n = {outcome.n}")
        return out
    size = abs(prediction.magnitude)
    floor, ceiling = size * (1 - prediction.tolerance), size * (1 + prediction.tolerance)
    if near >= floor and far <= ceiling:
        _holds(out)
        out.reasons.append(f"the interval [{low:g}, {high:g}] lies within {prediction.tolerance:.0%} of {prediction.magnitude:g}")
    elif near > ceiling:
        _holds(out)
        out.exceeded = True
        out.reasons.append(f"better than claimed ([{low:g}, {high:g}] against {prediction.magnitude:g}): look at the baseline")
    else:
        out.verdict = "partly"
        out.reasons.append(f"the direction holds, the magnitude does not: [{low:g}, {high:g}] against {prediction.magnitude:g}")
    return out


def _opposite(prediction: Prediction, outcome: Outcome, out: Ruling) -> Ruling:
    low, high = sorted(outcome.interval or (0.0, 0.0))
    text = f"the interval [{low:g}, {high:g}] excludes the claimed direction"
    if outcome.n < ADEQUATE:
        out.reasons.append(f"{text}, but n = {outcome.n} is below {ADEQUATE}")
    elif out.differs and prediction.magnitude is not None:
        out.reasons.append(f"{text}, but in another setting, which can refute a mechanism and never a number")
    else:
        out.verdict = "refuted"
        out.reasons.append(text + (" (the mechanism, in another setting)" if out.differs else ""))
    return out
