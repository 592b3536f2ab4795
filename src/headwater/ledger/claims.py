"""Claims and what we ran of them: list, bind to an experiment with a frozen prediction, verify, and the generated page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headwater.core.errors import UserInputError
from headwater.ledger import experiments
from headwater.ledger.digest.gaps import boundary_sentence
from headwater.ledger.digest.identity import view_work
from headwater.ledger.evidence import level_of, opening
from headwater.ledger.records import Amount, Binding, Claim, Prediction, Reading, Run, Setting, Work, fingerprint
from headwater.ledger.store import Ledger
from headwater.ledger.verdict import required_companions, rule
from headwater.ledger.vocabulary import LEVELS, ORIGINS, word


@dataclass(slots=True)
class ClaimView:
    """A claim with its two kinds of support, which never mix: readings (level) and runs (verdict)."""

    claim: Claim
    title: str
    level: int
    boundary: str
    readings: list[Reading] = field(default_factory=list)
    binding: Binding | None = None
    prediction: Prediction | None = None
    runs: list[Run] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """Verdict of the latest run; `planned` when bound and not run, `not_testable_here` when bound to nothing, else `untested`."""
        if self.runs:
            return self.runs[-1].verdict
        if self.binding is None:
            return "untested"
        return "planned" if self.binding.experiment else "not_testable_here"


def view(ledger: Ledger, claim: Claim, language: str = "en") -> ClaimView:
    """Load everything about a claim."""
    level = level_of(ledger, claim.id)
    binding = ledger.one(Binding, "claim", claim.id)
    prediction = ledger.get(binding.prediction) if binding and binding.prediction else None
    return ClaimView(
        claim,
        view_work(ledger, claim.work).title,
        level,
        claim.boundary or boundary_sentence(level, [claim.origin], claim.missing, 1, language),
        list(ledger.by(Reading, "claim", claim.id)),
        binding,
        prediction,
        list(ledger.by(Run, "claim", claim.id)),
    )


def find_claim(ledger: Ledger, text: str) -> Claim:
    """A claim by its id or an unambiguous beginning of it (at least four characters).

    Raises:
        UserInputError: none or several.
    """
    found = ledger.get(text)
    if isinstance(found, Claim):
        return found
    if len(text) >= 4:
        hits = [c for c in ledger.all(Claim) if c.id.startswith(text)]
        if len(hits) == 1:
            return hits[0]
        if hits:
            raise UserInputError(f"claim: {text!r} fits {len(hits)} claims; give more characters", "claim")
    raise UserInputError(f"claim: none with id {text!r}; `headwater claims list` shows them", "claim")


def listed(ledger: Ledger, work: str = "", bound: bool = False, verdict: str = "") -> Iterator[ClaimView]:
    """Claims in the order of writing, filtered by work (id or key), by being bound, by verdict."""
    if work:
        from headwater.ledger.parse.ids import parse_arxiv

        ident = parse_arxiv(work)
        source: Iterator[Claim] = ledger.by(Claim, "work", ident.key if ident else work)
    else:
        source = ledger.all(Claim)
    for claim in source:
        if bound and not ledger.count(Binding, "claim", claim.id):
            continue
        shown = view(ledger, claim)
        if not verdict or shown.verdict == verdict:
            yield shown


def add_claim(
    ledger: Ledger,
    work: str,
    statement: str,
    *,
    at: str,
    by: str,
    level: int,
    quote: str,
    metric: str = "",
    value: float | None = None,
    unit: str = "",
    kind: str = "performance",
    origin: str = "author",
    setting: dict[str, str] | None = None,
    boundary: str = "",
    title: str = "",
) -> Claim:
    """Enter a claim by hand, with the reading it rests on. title: the work's, as it will be shown.

    Raises:
        UserInputError: an unknown origin or setting field, an empty statement or quote, a level outside 0..5.
    """
    if origin not in ORIGINS:
        raise UserInputError(f"origin: {origin!r} is none of {', '.join(ORIGINS)}", "origin")
    if not statement.strip() or not quote.strip():
        raise UserInputError("statement and quote: both are needed; a claim rests on words that somebody read", "quote")
    if level not in LEVELS:
        raise UserInputError(f"level: {level} is outside 0..5", "level")
    unknown = set(setting or {}) - set(Setting.model_fields)
    if unknown:
        raise UserInputError(f"setting: {', '.join(sorted(unknown))} is none of {', '.join(Setting.model_fields)}", "setting")
    amount = None
    if value is not None:
        amount = Amount(
            raw=f"{value:g}{unit}", low=abs(value), high=abs(value), unit=unit, direction=(value > 0) - (value < 0), metric=metric
        )
    claim = Claim(
        id=fingerprint("claim", work, statement, metric, value, unit),
        at=at,
        by=by,
        work=work,
        statement=statement,
        claim_kind=kind,
        amount=amount,
        setting=Setting(**(setting or {})),
        origin=origin,
        boundary=boundary,
    )
    titled = [Work(id=fingerprint("work", work, by, title), at=at, by=by, key=work, title=title)] if title else []
    ledger.append([*titled, claim, opening(claim, level, by, quote)])
    return claim


def bind(
    ledger: Ledger,
    claim: Claim,
    experiment: experiments.Experiment,
    *,
    at: str,
    by: str,
    mechanism: str = "",
    direction: int | None = None,
    magnitude: float | None = None,
    tolerance: float = 0.25,
    exactness: bool = False,
) -> Binding:
    """Freeze a prediction and bind the claim to an experiment. The setting is the claim's own; companions are those of the family.

    direction and magnitude default to the claim's typed number (a percentage becomes a fraction with its sign).
    """
    amount = claim.amount
    if amount and direction is None:
        direction = amount.direction
    if amount and magnitude is None and not exactness:
        magnitude = (amount.direction or 1) * amount.low / 100 if amount.unit == "%" else amount.low
    body: dict[str, Any] = {
        "claim": claim.id,
        "mechanism": mechanism or claim.statement,
        "metric": amount.metric if amount else "",
        "direction": direction or 0,
        "magnitude": magnitude,
        "tolerance": tolerance,
        "exactness": exactness,
        "setting": {k: v for k, v in claim.setting.model_dump().items() if v},
        "companions": required_companions(experiment.spec.family),
    }
    prediction = Prediction(id=fingerprint("prediction", body, size=64), at=at, by=by, **body)
    binding = Binding(
        id=fingerprint("binding", claim.id, experiment.name, prediction.id, at),
        at=at,
        by=by,
        claim=claim.id,
        experiment=experiment.name,
        prediction=prediction.id,
    )
    ledger.append([prediction, binding])
    return binding


def bind_untestable(ledger: Ledger, claim: Claim, missing: list[str], *, at: str, by: str) -> Binding:
    """Record that a claim cannot be tested here, with the exact list of what is missing.

    Raises:
        UserInputError: the list is empty.
    """
    if not missing:
        raise UserInputError("missing: name what is missing (hardware, weights, data, code, cluster)", "missing")
    binding = Binding(
        id=fingerprint("binding", claim.id, "", missing, at), at=at, by=by, claim=claim.id, experiment="", prediction="", missing=missing
    )
    ledger.append([binding])
    return binding


def verify(ledger: Ledger, claim: Claim, folder: Path, *, at: str, by: str) -> Run:
    """Run the experiment a claim is bound to and store run, companions, environment and verdict. Earlier runs stay.

    Raises:
        UserInputError: the claim is not bound, or its prediction was made after a run it should have preceded.
        FormatError: the experiment failed.
    """
    binding = ledger.one(Binding, "claim", claim.id)
    if binding is None:
        raise UserInputError(f"claim: {claim.id} is bound to no experiment; use `headwater claims bind {claim.id} EXPERIMENT`", "claim")
    if not binding.experiment:
        run = Run(
            id=fingerprint("run", claim.id, binding.id, at),
            at=at,
            by=by,
            claim=claim.id,
            experiment="",
            prediction="",
            verdict="not_testable_here",
            missing=binding.missing,
            environment=experiments.environment(),
        )
        ledger.append([run])
        return run
    prediction = ledger.get(binding.prediction)
    assert isinstance(prediction, Prediction)
    done = experiments.run(experiments.find(folder, binding.experiment), prediction.setting)
    companions = {**done.outcome.companions}
    companions.setdefault("environment", done.environment)
    outcome = done.outcome.model_copy(update={"companions": companions})
    ruling = rule(prediction, outcome)
    started = datetime.fromtimestamp(done.started, UTC).isoformat(timespec="milliseconds")
    run = Run(
        id=fingerprint("run", claim.id, prediction.id, started, outcome.model_dump(mode="json")),
        at=at,
        by=by,
        claim=claim.id,
        experiment=binding.experiment,
        prediction=prediction.id,
        started=started,
        seconds=round(done.seconds, 3),
        environment=done.environment,
        outcome=outcome.model_dump(mode="json"),
        verdict=ruling.verdict,
        verdict_kind=ruling.kind,
        exceeded=ruling.exceeded,
        differs=ruling.differs,
        missing=ruling.missing,
        reasons=ruling.reasons,
    )
    ledger.append([run])
    return run


def _measured(outcome: dict[str, Any]) -> list[str]:
    """Lines of a run's number and of its companions, the environment and raw series left out."""
    out = []
    if outcome.get("value") is not None:
        low, high = outcome.get("interval") or (None, None)
        interval = f" [{low:g}, {high:g}]" if low is not None and high is not None else ""
        out.append(f"{outcome.get('metric') or 'value'} {outcome['value']:g}{interval}, n = {outcome.get('n')}")
    for name, value in (outcome.get("companions") or {}).items():
        if name in {"environment", "seconds"}:
            continue
        shown = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else value
        out.append(f"{name.replace('_', ' ')}: {shown}")
    return [*out, *([f"note: {outcome['note']}"] if outcome.get("note") else [])]


def claims_page(views: list[ClaimView], language: str = "en") -> str:
    """`docs/claims.md`: bound claims with level, boundary, prediction, latest verdict and the command that repeats it."""
    out = [
        "# Claims",
        "",
        "Generated by `headwater claims page`; do not edit. What was read (level) and what was run (verdict) are separate columns.",
        "",
    ]
    for v in views:
        c = v.claim
        out += [f"## {v.title or c.work}", "", f"> {c.statement}", ""]
        out.append(f"- claim `{c.id}` · {c.work} · {word(ORIGINS, c.origin, language)} · evidence: {word(LEVELS, v.level, language)}")
        out.append(f"- boundary: {v.boundary}")
        setting = ", ".join(f"{k} {x}" for k, x in c.setting.model_dump().items() if x)
        out.append(f"- setting: {setting or 'not stated'}")
        if v.prediction:
            p = v.prediction
            parts = ["exact"] if p.exactness else []
            if p.direction or p.magnitude is not None or not parts:
                parts.append(f"direction {p.direction:+d}" + (f", magnitude {p.magnitude:g} ± {p.tolerance:.0%}" if p.magnitude is not None else ""))
            said = ", ".join(parts)
            out.append(f"- prediction `{p.id[:12]}` (frozen {p.at[:10]}): {said}")
        if v.binding and not v.binding.experiment:
            out.append(f"- missing here: {', '.join(v.binding.missing)}")
        mark = ", exceeded" if v.runs and v.runs[-1].exceeded else ""
        out.append(f"- verdict: **{v.verdict}{mark}**" + (f" ({v.runs[-1].verdict_kind}, {v.runs[-1].at[:10]})" if v.runs else ""))
        for r in v.runs[-1:]:
            out += [f"  - {text}" for text in (*r.reasons, *r.differs)]
            out += [f"  - {text}" for text in _measured(r.outcome)]
            out.append(
                f"  - run with {r.environment.get('cpu', '?')}, {r.environment.get('cores', '?')} cores, "
                f"headwater {r.environment.get('headwater', '?')}"
            )
        if v.binding and v.binding.experiment:
            out.append(f"- repeat: `headwater claims verify {c.id}` (experiment `{v.binding.experiment}`)")
        out.append("")
    return "\n".join(out).rstrip() + "\n"
