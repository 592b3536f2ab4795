"""Storms against the real engine: leavers, forks, holds, tiny memory, failing rows and steps. Every request ends once, right or with a reason."""

import secrets
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from echo_engine import KINDS, echo_offline

from headwater.core.events import Arrive, Cancel, Release
from headwater.core.params import SamplingParams
from headwater.core.plan import Ragged, StepPlan, StepResult
from headwater.core.request import Output, Request
from headwater.engine.engine import Engine
from headwater.kernels import native
from headwater.llm import LLM

NEW = 40                                                            # most new tokens of a request


@dataclass
class Fate:
    request: Request
    ids: list[int] = field(default_factory=list)
    finish: Output | None = None


class Faulty:
    """An executor that fails rows and, now and then, a whole step."""

    def __init__(self, inner, rng: np.random.Generator) -> None:
        self.inner, self.rng, self.active, self.steps_lost, self.rows_lost = inner, rng, True, 0, 0

    def __getattr__(self, name: str):
        return getattr(self.inner, name)

    def submit(self, plan: StepPlan) -> None:
        self.inner.submit(plan)
        if self.active and self.rng.random() < 0.003:
            self.steps_lost += 1
            self.inner.collect()
            raise RuntimeError("injected step error")

    def collect(self, timeout: float | None = None) -> StepResult:
        result = self.inner.collect(timeout)
        bad = np.flatnonzero(self.rng.random(len(result.n_ok)) < 0.002).tolist() if self.active else []
        if bad:
            self.rows_lost += len(bad)
            none = np.zeros(0, np.int32)
            result.tokens = Ragged.of([none if i in bad else result.tokens.row(i) for i in range(len(result.n_ok))])
            result.n_ok[bad] = 0
            result.failed.update(dict.fromkeys(bad, "injected row error"))
        return result


def workload(rng: np.random.Generator, n: int, vocabulary: int) -> list[Request]:
    """Fresh prompts, continuations and forks of earlier ones, some held."""
    made: list[Request] = []
    for i in range(n):
        parent, pos = None, 0
        prompt = rng.integers(0, vocabulary, int(rng.integers(1, 60))).astype(np.int32)
        if made and rng.random() < 0.5:
            old = made[-1 - int(rng.integers(min(len(made), 15)))]
            pos = int(rng.integers(1, len(old.prompt) + 1))
            prompt = np.concatenate([old.prompt[:pos], prompt])[:200]
            parent, pos = (old.request_id, min(pos, len(prompt))) if rng.random() < 0.5 else (None, 0)
        params = SamplingParams(temperature=float(rng.choice([0.0, 1.0])), max_tokens=NEW)
        made.append(Request(
            f"s{i}", prompt, params, int(rng.integers(0, NEW)), seed=int(rng.integers(2**62)), owner=f"o{i % 3}", priority=i % 2, parent=parent,
            parent_pos=pos, hold=bool(rng.random() < 0.05), cache_salt="other" if rng.random() < 0.1 else "",
        ))
    return made


def storm(engine: Engine, requests: list[Request], rng: np.random.Generator, faulty: Faulty) -> dict[str, Fate]:
    fates = {r.request_id: Fate(r) for r in requests}
    waiting, idle = list(requests), 0
    while waiting or idle < 3:
        for _ in range(min(len(waiting), int(rng.poisson(1.5)))):
            r = waiting.pop(0)
            engine.post(Arrive(r))
        started = [f.request.request_id for f in list(fates.values())[: len(requests) - len(waiting)] if f.finish is None]
        if started and rng.random() < 0.3:
            engine.post(Cancel(started[int(rng.integers(len(started)))], keep=bool(rng.random() < 0.5)))
        if rng.random() < 0.1:
            engine.post(*(Release(f.request.request_id) for f in fates.values() if f.request.hold and f.finish is not None))
        faulty.active = len(waiting) > len(requests) // 10
        outputs = engine.run_once()
        idle = idle + 1 if outputs is None and not waiting else 0
        for out in outputs or ():
            fate = fates[out.request_id]
            assert fate.finish is None, f"{out.request_id} goes on after its end"
            fate.ids += out.ids.tolist()
            if out.finish is not None:
                fate.finish = out
    engine.post(*(Release(r.request_id) for r in requests if r.hold))
    while engine.run_once() is not None:
        pass
    return fates


def judge(fates: dict[str, Fate], engine: Engine, alone: Engine, sample: int) -> None:
    done = [f for f in fates.values() if f.finish is not None]
    assert len(done) == len(fates), [f.request.request_id for f in fates.values() if f.finish is None][:5]
    for f in done:
        assert f.finish is not None
        assert f.finish.finish in ("length", "abort") or (f.finish.finish == "error" and f.finish.error), f
    full = [f for f in done if f.finish and f.finish.finish == "length" and f.request.max_new]
    assert full
    for f in full[:: max(1, len(full) // sample)]:
        assert len(f.ids) == f.request.max_new
        r = f.request
        alone.post(Arrive(Request(r.request_id, r.prompt, r.params, r.max_new, seed=r.seed, cache_salt=r.request_id)))
        ids: list[int] = []
        while (outputs := alone.run_once()) is not None:
            ids += [t for o in outputs for t in o.ids.tolist()]
        assert ids == f.ids, r.request_id
    assert engine.scheduler.check(full=True) == []
    assert engine.stats().kv_usage == 0.0
    assert engine.stats().running == engine.stats().waiting == 0


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("sched", ["fcfs", "fair"])
def test_every_request_of_a_storm_ends_right_or_with_a_reason(kind: dict, sched: str) -> None:
    seed = secrets.randbits(32)
    print("seed", seed)
    rng = np.random.default_rng(seed)
    engine = echo_offline(blocks=34, context=256, sched=f"{sched}:rows=16,tokens=128", **kind).engine
    faulty = engine.executor = Faulty(engine.executor, rng)  # type: ignore[assignment]
    fates = storm(engine, workload(rng, 500, 256), rng, faulty)  # type: ignore[arg-type]
    judge(fates, engine, echo_offline(blocks=60, context=256, **kind).engine, 60)


@pytest.mark.slow
def test_a_storm_over_a_real_model_ends_right_or_with_a_reason(smollm2: Path) -> None:
    if not native.available():
        pytest.skip("the numpy reference is too slow for this")
    seed = secrets.randbits(32)
    print("seed", seed)
    rng = np.random.default_rng(seed)
    small = 40 * 16 * 30 * 3 * 64 * 4                               # 40 blocks of SmolLM2's 30 layers with 3 heads of 64 channels in float16
    engine = LLM(smollm2, kv_memory=small, context=256, sched="fcfs:rows=16,tokens=128").engine
    faulty = engine.executor = Faulty(engine.executor, rng)
    fates = storm(engine, workload(rng, 500, 49152), rng, faulty)
    judge(fates, engine, LLM(smollm2, kv_memory="32M", context=256).engine, 20)
