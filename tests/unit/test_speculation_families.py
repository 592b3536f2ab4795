"""Drafters on generated weights of families with windows and gated-delta states, through the native programs: the same bits with and without."""

import random
from pathlib import Path

import pytest
import tiny_models
from drafted_requests import ask, request, same

from headwater.core import registry
from headwater.engine.build import EngineSpec, build_drafter, load_text
from headwater.engine.engine import Engine
from headwater.engine.offline import Offline
from headwater.model.load.loader import Model, load_model
from headwater.policies.draft.api import Forks, members
from headwater.sched.guess import Guesser
from headwater.sched.scheduler import Scheduler
from headwater.worker.exec.inline import InlineExecutor
from headwater.worker.model_forward import ModelForward
from headwater.worker.runner import Runner

END = 90


def offline(model: Model, draft: str) -> Offline:
    spec = model.kvspec
    forward = ModelForward(model.program, spec, (120,) * len(spec.groups), 32 if spec.states else 0, context=model.config.context,
                           identity=model.identity, step_tokens=256, vocabulary=tiny_models.VOCAB)
    drafter = build_drafter(draft)
    for d in members(drafter):
        if isinstance(d, Forks):
            d.mark((), (END,))                                     # rows think until they happen to draw this
    executor = InlineExecutor(Runner(forward))
    scheduler = Scheduler(executor.caps(), registry.build("sched", "fcfs"), registry.build("evict", "slru"),
                          guess=None if drafter is None else Guesser(drafter))
    return Offline(Engine(scheduler, executor), load_text(EngineSpec("echo")))


@pytest.mark.parametrize("draft", ["suffix:tree=on+ngram:shortest=1", "ngram:shortest=1+selfdraft:budget=5,interval=6,most=12"])
@pytest.mark.parametrize("family", ["hybrid", "gemma3", "mistral"])
def test_drafts_never_change_an_answer(family, draft, tmp_path: Path) -> None:
    model = load_model(tiny_models.write_folder(family, tmp_path))
    plain, fast = offline(model, "none"), offline(model, draft)
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    for batch in range(3):
        asked = [request(rng, tiny_models.VOCAB, 30, grammar=False, marker=END) for _ in range(4)]
        expected = ask(plain, asked, f"plain-{batch}")
        for time in ("first", "second"):
            for a, p, d in zip(asked, expected, ask(fast, asked, f"{time}-{batch}"), strict=True):
                same(a, p, d, f"seed {seed}, batch {batch}, {time} time")
    assert not fast.engine.scheduler.check(full=True)
