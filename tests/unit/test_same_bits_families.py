"""Promise 1 on generated weights of the families with windows and recurrent states, through scheduler, cache and native programs."""

from pathlib import Path

import numpy as np
import pytest
import tiny_models
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.core import registry
from headwater.core.params import SamplingParams
from headwater.core.plan import Ragged
from headwater.engine.build import EngineSpec, load_text
from headwater.engine.engine import Engine
from headwater.engine.expand import GenerateRequest
from headwater.engine.offline import Offline
from headwater.kernels import native
from headwater.model.load.loader import Model, load_model
from headwater.sched.scheduler import Scheduler
from headwater.worker.exec.inline import InlineExecutor
from headwater.worker.model_forward import ModelForward
from headwater.worker.runner import Runner

NAMES = ("hybrid", "gemma3", "qwen3", "qwen3 q8", "qwen3 i16")      # the last two with other caches
MODELS: dict[str, Model] = {}
names = st.sampled_from(NAMES)
seeds = st.integers(0, 2**32)


@pytest.fixture(scope="module", autouse=True)
def _models(tmp_path_factory: pytest.TempPathFactory) -> None:
    for name in NAMES:
        family, _, kv = name.partition(" ")
        MODELS[name] = load_model(tiny_models.write_folder(family, tmp_path_factory.mktemp(family)), kv_format=kv or "f16")


def offline(name: str, blocks: int = 80, sched: str = "fcfs", guess=None) -> Offline:
    model = MODELS[name]
    spec = model.kvspec
    forward = ModelForward(
        model.program, spec, (blocks,) * len(spec.groups), 24 if spec.states else 0, context=model.config.context, identity=model.identity,
        step_tokens=256, vocabulary=tiny_models.VOCAB,
    )
    executor = InlineExecutor(Runner(forward))
    scheduler = Scheduler(executor.caps(), registry.build("sched", sched), registry.build("evict", "slru"), guess=guess)
    return Offline(Engine(scheduler, executor), load_text(EngineSpec("echo")))


def ids(rng: np.random.Generator, n: int) -> list[int]:
    return rng.integers(0, tiny_models.VOCAB, n).tolist()


def drawn(engine: Offline, prompt: list[int], seed: int, new: int = 6, **more) -> list[tuple[int, float]]:
    """Tokens and log-probabilities: equal only where the logits are the same bits."""
    params = SamplingParams(max_tokens=new, temperature=1.0, seed=seed, logprobs=0, ignore_eos=True)
    return [(e.token, e.logprob) for e in engine.run([GenerateRequest(prompt, params, **more)])[0].choices[0].logprobs or []]


@given(seeds, st.integers(2, 150), st.data(), names)
@settings(max_examples=100)
def test_cold_warm_forked_and_chunked_are_the_same_bits(seed: int, n: int, data, name: str) -> None:
    rng = np.random.default_rng(seed)
    trunk, cut = ids(rng, n), data.draw(st.integers(1, n))
    branch = trunk[:cut] + ids(rng, data.draw(st.integers(1, 30)))
    engine = offline(name)
    cold = drawn(engine, branch, seed)
    assert drawn(engine, branch, seed) == cold
    small_steps = offline(name, sched=f"fcfs:tokens={data.draw(st.integers(16, 40))}")
    assert drawn(small_steps, branch, seed) == cold
    other = offline(name)
    held = other.hold(trunk)
    assert drawn(other, branch, seed, parent=held, parent_pos=cut) == cold


@given(seeds, names)
@settings(max_examples=12)
def test_a_crowd_under_memory_pressure_has_the_bits_of_each_alone(seed: int, name: str) -> None:
    rng = np.random.default_rng(seed)
    prompts = [ids(rng, int(n)) for n in rng.integers(1, 60, 8)]
    alone = [drawn(offline(name), p, i, 20) for i, p in enumerate(prompts)]
    wants = [GenerateRequest(p, SamplingParams(max_tokens=20, seed=i, logprobs=0, ignore_eos=True)) for i, p in enumerate(prompts)]
    answers = offline(name, blocks=18).run(wants)
    assert [[(e.token, e.logprob) for e in a.choices[0].logprobs or []] for a in answers] == alone


@given(seeds, st.floats(0, 1), names)
@settings(max_examples=50)
def test_drafts_keep_the_bits(seed: int, luck: float, name: str) -> None:
    rng = np.random.default_rng(seed)
    prompt = ids(rng, 30)
    truth = drawn(offline(name), prompt, seed, 20)
    whole = [*prompt, *(t for t, _ in truth)]

    def guess(rows: np.ndarray, most: np.ndarray) -> Ragged:
        known = len(engine.engine.scheduler.history(int(rows[0])))
        right = np.array(whole[known : known + min(int(most[0]), 4)], np.int32)
        return Ragged.of([np.where(rng.random(len(right)) < luck, right, (right + 1) % tiny_models.VOCAB).astype(np.int32)])

    engine = offline(name, guess=guess)
    assert drawn(engine, prompt, seed, 20) == truth


@pytest.mark.parametrize("name", NAMES)
def test_one_and_two_threads_have_the_same_bits(name: str) -> None:
    if not native.available():
        pytest.skip("the numpy reference has one thread")
    prompt, before, found = ids(np.random.default_rng(3), 100), native.library().threads(), []
    try:
        for threads in (1, 2, 3):
            native.library().set_threads(threads)
            found.append(drawn(offline(name), prompt, 1))
    finally:
        native.library().set_threads(before)
    assert found[0] == found[1] == found[2]


def test_a_saved_state_of_a_hybrid_is_computed_again(tmp_path: Path) -> None:
    from headwater.state import State, load_state

    prompt = ids(np.random.default_rng(4), 70)
    engine = offline("hybrid")
    state = State(engine, prompt, engine.hold(prompt))
    state.save(tmp_path / "s")
    expected = drawn(engine, prompt, 5)
    assert (tmp_path / "s").stat().st_size < 4096
    fresh = offline("hybrid")
    loaded = load_state(fresh, tmp_path / "s")
    assert drawn(fresh, loaded.tokens.tolist(), 5, parent=loaded.request_id, parent_pos=len(loaded)) == expected
