"""Promises 1 and 2 through scheduler, cache and worker, on the echo family in all its shapes."""

import numpy as np
import pytest
from echo_engine import KINDS, echo_offline
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.core.params import SamplingParams
from headwater.core.request import ReadSpec
from headwater.engine.expand import GenerateRequest
from headwater.engine.offline import Offline

kinds = st.sampled_from(KINDS)
seeds = st.integers(0, 2**32)


def ids(rng: np.random.Generator, n: int) -> list[int]:
    return rng.integers(0, 256, n).tolist()


def params(seed: int, new: int = 8, **more) -> SamplingParams:
    return SamplingParams(max_tokens=new, temperature=1.0, seed=seed, ignore_eos=True, **more)


def draw(engine: Offline, prompt: list[int], seed: int, new: int = 8, **more) -> list[int]:
    return engine.run([GenerateRequest(prompt, params(seed, new), **more)])[0].choices[0].token_ids


@given(seeds, st.integers(1, 400), kinds)
@settings(max_examples=40)
def test_cold_and_warm_answers_are_the_same(seed: int, n: int, kind: dict) -> None:
    prompt = ids(np.random.default_rng(seed), n)
    engine = echo_offline(**kind)
    cold = draw(engine, prompt, seed)
    answer = engine.run([GenerateRequest(prompt, params(seed))])[0]
    assert answer.choices[0].token_ids == cold
    if not kind:
        assert answer.usage.cached == n - 1


@given(seeds, st.integers(2, 300), st.data(), kinds)
@settings(max_examples=40)
def test_a_fork_at_any_position_goes_on_like_a_linear_run(seed: int, n: int, data, kind: dict) -> None:
    rng = np.random.default_rng(seed)
    trunk, cut = ids(rng, n), data.draw(st.integers(1, n))
    branch = trunk[:cut] + ids(rng, data.draw(st.integers(1, 60)))
    linear = draw(echo_offline(**kind), branch, seed)
    engine = echo_offline(**kind)
    held = engine.hold(trunk)
    assert draw(engine, branch, seed, parent=held, parent_pos=cut) == linear
    sibling = trunk[:cut] + ids(rng, 20)
    assert draw(engine, sibling, seed, parent=held, parent_pos=cut) == draw(echo_offline(**kind), sibling, seed)


@given(seeds, kinds, st.sampled_from(["fcfs", "priority", "sjf", "fair"]))
@settings(max_examples=12)
def test_a_batch_under_memory_pressure_draws_what_each_draws_alone(seed: int, kind: dict, sched: str) -> None:
    rng = np.random.default_rng(seed)
    prompts = [ids(rng, int(n)) for n in rng.integers(1, 120, 10)]
    prompts[3] = prompts[2] + ids(rng, 5)
    alone = [draw(echo_offline(**kind), p, i, 40) for i, p in enumerate(prompts)]
    small = echo_offline(blocks=24, context=256, sched=sched, **kind)
    answers = small.run([GenerateRequest(p, params(i, 40)) for i, p in enumerate(prompts)])
    assert [a.choices[0].token_ids for a in answers] == alone


def test_memory_pressure_really_preempts() -> None:
    small = echo_offline(blocks=24, context=256)
    small.run([GenerateRequest([i] * 30, params(i, 100)) for i in range(8)])
    assert small.engine.scheduler.counters.preempted > 0


@given(seeds, kinds)
@settings(max_examples=12)
def test_choice_i_is_a_request_with_its_seed(seed: int, kind: dict) -> None:
    prompt = ids(np.random.default_rng(seed), 50)
    many = echo_offline(**kind).run([GenerateRequest(prompt, params(seed, 10, n=4))])[0]
    for c in many.choices:
        assert c.token_ids == draw(echo_offline(**kind), prompt, c.seed, 10)
    assert len({c.seed for c in many.choices}) == 4


@given(seeds, st.floats(0, 1), kinds)
@settings(max_examples=25)
def test_drafts_change_nothing_but_the_number_of_steps(seed: int, luck: float, kind: dict) -> None:
    prompt = ids(np.random.default_rng(seed), 40)
    truth = draw(echo_offline(**kind), prompt, seed, 30)
    whole = [*prompt, *truth]
    rng = np.random.default_rng(seed)

    def guess(rows: np.ndarray, most: np.ndarray):
        from headwater.core.plan import Ragged

        parts = []
        for row, m in zip(rows.tolist(), most.tolist(), strict=True):
            known = len(engine.engine.scheduler.history(row))
            right = np.array(whole[known : known + min(m, 4)], np.int32)
            parts.append(np.where(rng.random(len(right)) < luck, right, (right + 1) % 256).astype(np.int32))
        return Ragged.of(parts)

    engine = echo_offline(guess=guess, **kind)
    assert draw(engine, prompt, seed, 30) == truth


def test_sixty_four_forks_copy_at_most_one_partial_block_each() -> None:
    engine = echo_offline(blocks=1024)
    trunk = ids(np.random.default_rng(0), 2000)
    held = engine.hold(trunk)
    before, steps = engine.engine.scheduler.kv.copies.sum(), engine.engine.scheduler.counters.computed
    answers = engine.run([GenerateRequest([*trunk, i], params(i, 4), parent=held, parent_pos=2000) for i in range(64)])
    assert engine.engine.scheduler.kv.copies.sum() - before <= 64
    assert engine.engine.scheduler.counters.computed - steps == 64  # one new prompt token each
    assert all(a.usage.cached == 2000 for a in answers)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_scores_add_up_to_the_logprobs_of_drawing(kind: dict) -> None:
    engine = echo_offline(**kind)
    prompt = ids(np.random.default_rng(1), 33)
    drawn = engine.run([GenerateRequest(prompt, params(3, 6, logprobs=0))])[0].choices[0]
    want = GenerateRequest(prompt + drawn.token_ids, SamplingParams(), reads=ReadSpec(score_from=33), read_only=True)
    reads = engine.run([want])[0].choices[0].reads
    np.testing.assert_allclose([e.logprob for e in reads.prompt], [e.logprob for e in drawn.logprobs], rtol=0, atol=1e-6)
