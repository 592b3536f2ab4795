"""Promise 1 on a real model: SmolLM2's logits depend on the tokens only, bit for bit."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_maker import Planner, Row

from headwater.core.params import SamplingParams
from headwater.core.plan import Want
from headwater.core.request import ReadSpec
from headwater.engine.expand import GenerateRequest
from headwater.engine.offline import Offline
from headwater.kernels import native
from headwater.llm import LLM
from headwater.worker.model_forward import ModelForward
from headwater.worker.runner import Runner

pytestmark = pytest.mark.slow
VOCABULARY = 49152
ALL_LOGITS = ReadSpec(labels=np.arange(VOCABULARY), lse=True)


@pytest.fixture(scope="module")
def model(smollm2: Path):
    if not native.available():
        pytest.skip("the numpy reference is too slow for this")
    from headwater.model.load.loader import load_model

    return load_model(smollm2)


@pytest.fixture(scope="module")
def llm(smollm2: Path) -> LLM:
    if not native.available():
        pytest.skip("the numpy reference is too slow for this")
    return LLM(smollm2, kv_memory="512M")


def planner(model, seed: int) -> Planner:
    forward = ModelForward(model.program, model.kvspec, (256,), 0, context=1024, identity=model.identity, step_tokens=1024, vocabulary=VOCABULARY)
    return Planner(Runner(forward), np.random.default_rng(seed))


def prompt(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.integers(0, VOCABULARY, n).astype(np.int32)


def logits(p: Planner, row: Row, chunk: int, others: list[Row] = ()) -> np.ndarray:  # type: ignore[assignment]
    """The row's logits at its last prompt token, computed in chunks, with other rows computing alongside."""
    while row.done < len(row.prompt):
        work = [(row, min(chunk, len(row.prompt) - row.done))]
        work += [(o, min(5, len(o.prompt) - o.done)) for o in others if o.done < len(o.prompt)]
        result = p.step(work if p.runner.inputs.known[0] % 2 else work[::-1], want=Want.NONE)
        found = [r.labels for r in result.reads.values() if r.labels is not None]
    return found[0]


@given(st.integers(0, 2**32), st.integers(1, 150))
@settings(max_examples=12)
def test_logits_are_the_same_bits_alone_in_a_batch_and_in_any_chunks(model, seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    ids = prompt(rng, n)
    alone = logits(planner(model, seed), Row(0, ids, reads=ALL_LOGITS), n)
    for chunk in (1, 7, 64) if n < 60 else (7, 64):
        assert np.array_equal(logits(planner(model, seed + chunk), Row(0, ids, reads=ALL_LOGITS), chunk), alone), chunk
    others = [Row(i, prompt(rng, int(rng.integers(1, 60)))) for i in range(1, 8)]
    assert np.array_equal(logits(planner(model, seed), Row(0, ids, reads=ALL_LOGITS), n, others), alone)
    others = [Row(i, prompt(rng, int(rng.integers(1, 60)))) for i in range(1, 8)]
    assert np.array_equal(logits(planner(model, seed), Row(0, ids, reads=ALL_LOGITS), 13, others), alone)


@given(st.integers(0, 2**32), st.integers(1, 200))
@settings(max_examples=6)
def test_one_and_two_threads_give_the_same_bits(model, seed: int, n: int) -> None:
    ids = prompt(np.random.default_rng(seed), n)
    found = []
    before = native.library().threads()
    try:
        for threads in (1, 2, 3):
            native.library().set_threads(threads)
            found.append(logits(planner(model, seed), Row(0, ids, reads=ALL_LOGITS), n))
    finally:
        native.library().set_threads(before)
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


@given(st.integers(0, 2**32), st.integers(1, 100))
@settings(max_examples=5)
def test_label_rows_alone_have_the_bits_of_the_full_row(model, seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    ids, labels = prompt(rng, n), rng.integers(0, VOCABULARY, 9).astype(np.int32)
    full = logits(planner(model, seed), Row(0, ids, reads=ALL_LOGITS), n)
    assert np.array_equal(logits(planner(model, seed), Row(0, ids, reads=ReadSpec(labels=labels)), n), full[labels])


# -- through scheduler and cache ---------------------------------------------------------------------------------------------------------


def drawn(llm: LLM, want: GenerateRequest) -> list[tuple[int, float]]:
    """Tokens and their log-probabilities: equal only where the logits are the same bits."""
    return [(e.token, e.logprob) for e in llm._offline.run([want])[0].choices[0].logprobs]


def params(seed: int, new: int = 6, **more) -> SamplingParams:
    return SamplingParams(max_tokens=new, temperature=0.9, seed=seed, logprobs=0, ignore_eos=True, **more)


@given(st.integers(0, 2**32), st.integers(2, 120), st.data())
@settings(max_examples=8)
def test_cold_warm_and_forked_anywhere_are_the_same_bits(llm: LLM, seed: int, n: int, data) -> None:
    rng = np.random.default_rng(seed)
    ids, cut = prompt(rng, n), data.draw(st.integers(1, n))
    cold = drawn(llm, GenerateRequest(ids, params(seed), cache_salt="cold"))
    assert drawn(llm, GenerateRequest(ids, params(seed), cache_salt="cold")) == cold
    trunk = np.concatenate([ids[:cut], prompt(rng, 20)])
    held = llm._offline.hold(trunk)
    assert drawn(llm, GenerateRequest(ids, params(seed), parent=held, parent_pos=cut)) == cold
    llm._offline.release(held)


def test_preempted_and_crowded_requests_draw_what_they_draw_undisturbed(smollm2: Path, llm: LLM) -> None:
    rng = np.random.default_rng(5)
    prompts = [prompt(rng, int(n)) for n in rng.integers(20, 90, 8)]
    alone = [drawn(llm, GenerateRequest(p, params(i, 24), cache_salt="alone")) for i, p in enumerate(prompts)]
    small = LLM(smollm2, kv_memory=26 * 16 * llm.engine.executor.caps().spec.bytes_per_token, context=256)
    answers = small._offline.run([GenerateRequest(p, params(i, 24)) for i, p in enumerate(prompts)])
    assert [[(e.token, e.logprob) for e in a.choices[0].logprobs] for a in answers] == alone
    assert small.engine.scheduler.counters.preempted > 0
    assert small.engine.scheduler.check(full=True) == []


def test_choice_i_is_a_request_with_its_x_seed(llm: LLM) -> None:
    many = llm.generate("Once upon a time", SamplingParams(n=4, max_tokens=12, temperature=1.0, seed=11, ignore_eos=True))[0].outputs
    for choice in many:
        again = llm.generate("Once upon a time", SamplingParams(max_tokens=12, temperature=1.0, seed=choice.x_seed, ignore_eos=True))[0].outputs[0]
        assert again.token_ids == choice.token_ids


def test_a_stream_can_be_taken_up_anywhere_from_its_seed_and_tokens(llm: LLM) -> None:
    ids = llm.tokenizer.encode("The river")
    whole = [t for t, _ in drawn(llm, GenerateRequest(ids, params(3, 20)))]
    for cut in (1, 7, 19):
        rest = drawn(llm, GenerateRequest([*ids, *whole[:cut]], params(3, 20 - cut), cache_salt=f"cut{cut}"))
        assert [t for t, _ in rest] == whole[cut:]


def test_drafts_keep_the_bits(smollm2: Path, llm: LLM) -> None:
    from headwater.core.plan import Ragged

    ids = llm.tokenizer.encode("One, two, three,")
    truth = drawn(llm, GenerateRequest(ids, params(8, 20)))
    whole = [*ids, *(t for t, _ in truth)]
    other = LLM(smollm2, kv_memory="64M", context=512)
    rng = np.random.default_rng(0)

    def guess(rows: np.ndarray, most: np.ndarray) -> Ragged:
        known = len(other.engine.scheduler.history(int(rows[0])))
        right = np.array(whole[known : known + min(int(most[0]), 4)], np.int32)
        return Ragged.of([np.where(rng.random(len(right)) < 0.7, right, right + 1).astype(np.int32)])

    other.engine.scheduler._planner.guess = guess
    assert drawn(other, GenerateRequest(ids, params(8, 20))) == truth
    assert other.engine.steps < 20


def test_sixty_four_forks_of_a_long_state_copy_one_partial_block_each_at_most(llm: LLM) -> None:
    offline: Offline = llm._offline
    trunk = prompt(np.random.default_rng(7), 2000)
    held = offline.hold(trunk)
    kv, counters = llm.engine.scheduler.kv, llm.engine.scheduler.counters
    copies, computed = int(kv.copies.sum()), counters.computed
    offline.run([GenerateRequest([*trunk, 100 + i], params(i, 2), parent=held, parent_pos=2000) for i in range(64)])
    assert int(kv.copies.sum()) - copies <= 64
    assert counters.computed - computed == 64
    offline.release(held)


def test_a_saved_state_goes_on_with_the_same_bits(smollm2: Path, llm: LLM, tmp_path: Path) -> None:
    with llm.state("The quick brown fox jumps over the lazy dog and runs into the forest.") as s:
        expected = drawn(llm, GenerateRequest(s.tokens, params(2), parent=s.request_id, parent_pos=len(s)))
        s.save(tmp_path / "fox.state")
    fresh = LLM(smollm2, kv_memory="256M")
    with fresh.load_state(tmp_path / "fox.state") as loaded:
        assert drawn(fresh, GenerateRequest(loaded.tokens, params(2), parent=loaded.request_id, parent_pos=len(loaded))) == expected
