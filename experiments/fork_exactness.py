"""N questions over one state: forks of the state against N independent prompts. The same bits, and how much sooner.

Exactness: at several state lengths (around block boundaries) and several N, the label logits of every fork are compared bitwise with
those of the same tokens sent alone, and greedy continuations token by token with their log-probabilities. Independent prompts carry a
cache salt of their own, so that nothing is shared behind our back; the ablation lets the prefix cache share, without forks.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

EXPERIMENT = {
    "title": "Flide: forks of one state against independent prompts, bits and time",
    "family": "decisions",
    "timeout": 1800.0,
    "needs": ["smollm2-135m-instruct"],
    "setting": {"model": "SmolLM2-135M-Instruct"},
}

LENGTHS = (15, 16, 17, 63, 64, 65, 130)     # tokens of the state
COUNTS = (1, 3, 8)                          # questions asked of it at once
STATE, QUESTIONS, REPETITIONS = 256, 16, 7  # the timed part
COLOURS = ("red", "green", "blue", "white")
THINGS = ("cup", "chair", "lamp", "book", "door", "box", "shirt", "car", "hat", "clock", "pen", "bag", "wall", "plate", "ring", "boat")


def _state_text() -> str:
    facts = " ".join(f"The {thing} is {COLOURS[i % 4]}." for i, thing in enumerate(THINGS))
    return f"Read the facts and answer every question with yes or no.\n{facts}\n"


def _questions(reverse: bool = False) -> list[tuple[str, bool]]:
    """(question, gold answer): half of them true. reverse: the two allowed answers named in the other order."""
    allowed = "no or yes" if reverse else "yes or no"
    out = []
    for i, thing in enumerate(THINGS):
        gold = i % 2 == 0
        colour = COLOURS[(i + (0 if gold else 1)) % 4]
        out.append((f"Question: is the {thing} {colour}, {allowed}?\nAnswer:", gold))
    return out


class _Bench:
    """An engine, and the three ways to ask."""

    def __init__(self) -> None:
        from headwater.engine.build import EngineSpec, load
        from headwater.engine.offline import Offline

        engine, self.text = load(EngineSpec())
        self.offline = Offline(engine, self.text)
        self.labels = [self._ids(" yes")[0], self._ids(" no")[0]]
        self._salt = 0

    def _ids(self, text: str) -> list[int]:
        return self.text.tokenizer.encode(text, add_special=False)

    def salt(self) -> str:
        """A cache salt nobody used before."""
        self._salt += 1
        return f"alone-{self._salt}"

    def hold(self, ids: list[int]) -> Any:
        from headwater.state import State

        return State(self.offline, ids, self.offline.hold(ids))

    def alone(self, prompts: list[list[int]], salts: list[str]) -> Any:
        """Label logits of whole prompts, one request each."""
        import numpy as np

        from headwater.core.request import ReadSpec
        from headwater.engine.expand import GenerateRequest

        reads = ReadSpec(labels=np.array(self.labels, np.int32))
        answers = self.offline.run([GenerateRequest(p, reads=reads, read_only=True, cache_salt=s) for p, s in zip(prompts, salts, strict=True)])
        return np.stack([a.choices[0].reads.labels for a in answers])


def _exactness(bench: _Bench, long: list[int], asked: list[list[int]]) -> dict[str, Any]:
    from headwater.core.params import SamplingParams
    from headwater.engine.expand import GenerateRequest

    compared, violations, example = 0, 0, ""
    for length in LENGTHS:
        with bench.hold(long[:length]) as state:
            for count in COUNTS:
                forked = state.label_logits(asked[:count], bench.labels)
                linear = bench.alone([long[:length] + q for q in asked[:count]], [bench.salt() for _ in range(count)])
                for i in range(count):
                    compared += 1
                    if forked[i].tobytes() != linear[i].tobytes():
                        violations += 1
                        both = f"{forked[i].tolist()} against {linear[i].tolist()}"
                        example = example or f"state of {length} tokens, {count} questions, no. {i}: {both}"
            greedy = SamplingParams(temperature=0.0, max_tokens=12, logprobs=0)
            a = state.generate(greedy, asked[0]).choices[0]
            b = bench.offline.run([GenerateRequest(long[:length] + asked[0], greedy, cache_salt=bench.salt())])[0].choices[0]
            compared += 1
            if a.token_ids != b.token_ids or [e.logprob for e in a.logprobs] != [e.logprob for e in b.logprobs]:
                violations += 1
                example = example or f"continuation of {length} tokens: {a.token_ids} against {b.token_ids}"
    return {"compared": compared, "violations": violations, "counter_example": example}


def _times(bench: _Bench, long: list[int], asked: list[list[int]]) -> dict[str, list[float]]:
    """Seconds per repetition by arm; the fork arm pays for its state every time."""
    prompts = [long[:STATE] + q for q in asked]
    took: dict[str, list[float]] = {"fork": [], "prefix cache": [], "alone": []}
    for repetition in range(REPETITIONS + 1):
        state_ids = [*long[: STATE - 1], 100 + repetition]     # another state every time, so that no earlier repetition helps
        prompts = [state_ids + q for q in asked]
        started = time.perf_counter()
        with bench.hold(state_ids) as state:
            state.label_logits(asked, bench.labels)
        forked = time.perf_counter() - started
        shared = bench.salt()
        started = time.perf_counter()
        bench.alone(prompts, [shared] * len(prompts))
        cached = time.perf_counter() - started
        started = time.perf_counter()
        bench.alone(prompts, [bench.salt() for _ in prompts])
        alone = time.perf_counter() - started
        if repetition:                                         # the first one touches memory for the first time
            for name, seconds in zip(took, (forked, cached, alone), strict=True):
                took[name].append(seconds)
    return took


def _quality(bench: _Bench, state_ids: list[int]) -> dict[str, float]:
    """Accuracy, expected calibration error (5 bins) and share of answers that keep when the two answers are named in the other order."""
    import numpy as np

    def ask(reverse: bool) -> tuple[Any, list[bool]]:
        questions = _questions(reverse)
        with bench.hold(state_ids) as state:
            logits = state.label_logits([bench._ids(q) for q, _ in questions], bench.labels).astype(np.float64)
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return (weights / weights.sum(axis=1, keepdims=True))[:, 0], [gold for _, gold in questions]

    yes, gold = ask(False)
    other, _ = ask(True)
    confidence, right = np.maximum(yes, 1 - yes), (yes > 0.5) == np.array(gold)
    bins = np.clip(((confidence - 0.5) * 10).astype(int), 0, 4)
    error = sum(abs(confidence[bins == b].mean() - right[bins == b].mean()) * (bins == b).mean() for b in set(bins.tolist()))
    kept = float(((yes > 0.5) == (other > 0.5)).mean())
    return {"accuracy": float(right.mean()), "calibration_error": round(float(error), 4), "order_invariance": kept}


def run(setting: dict[str, str]) -> dict[str, Any]:
    """One outcome; see experiments/README.md."""
    del setting
    sys.path.insert(0, str(Path(__file__).parent))
    from _intervals import relative_change

    from headwater import __version__

    bench = _Bench()
    facts = bench._ids(_state_text())
    long = (facts * (STATE // len(facts) + 1))[:STATE]
    asked = [bench._ids(q) for q, _ in _questions()][:QUESTIONS]
    exact = _exactness(bench, long, asked)
    took = _times(bench, long, asked)
    value, interval = relative_change(took["fork"], took["alone"])
    cached, cached_interval = relative_change(took["prefix cache"], took["alone"])
    same = exact["violations"] == 0
    return {
        "metric": "e2e_latency",
        "value": round(value, 4),
        "interval": [round(x, 4) for x in interval],
        "n": REPETITIONS,
        "setting": {"model": "SmolLM2-135M-Instruct", "task": "yes/no questions", "context": str(STATE), "batch": str(QUESTIONS),
                    "baseline": "independent prompts"},
        "exactness": exact,
        "companions": {
            "baseline_name": "independent prompts, nothing shared", "baseline_version": __version__, "baseline_flags": "a cache salt per prompt",
            "baseline_generation": "same build", "quality_cost": 0.0 if same else None,
            "ablation": {"fork": round(value, 4), "prefix cache without forks": [round(cached, 4), *(round(x, 4) for x in cached_interval)]},
            "max_delta_p": 0.0 if same else None, **_quality(bench, facts),
            "seconds": {k: [round(x, 4) for x in v] for k, v in took.items()},
        },
        "note": f"{QUESTIONS} questions over {STATE} tokens; forking includes computing the state; quality is that of a 135M model, not of forking",
    }
