"""What the contract tests of the room `attend` share: a prompt's answer with its log-probabilities, and promises that hold for every resident."""

from pathlib import Path

import numpy as np

from headwater.core.params import SamplingParams
from headwater.engine.expand import GenerateRequest
from headwater.llm import LLM


def prompt(seed: int, n: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 49152, n).astype(np.int32)


def sampled(new: int, seed: int) -> SamplingParams:
    return SamplingParams(max_tokens=new, temperature=0.9, seed=seed, logprobs=0, ignore_eos=True)


def drawn(llm: LLM, ids, seed: int = 0, new: int = 8, **more) -> list[tuple[int, float]]:
    """Tokens and their log-probabilities: equal only where the logits are the same bits."""
    return [(e.token, e.logprob) for e in llm._offline.run([GenerateRequest(ids, sampled(new, seed), **more)])[0].choices[0].logprobs]


def assert_warm_is_cold(llm: LLM, ids: np.ndarray, new: int) -> None:
    turn = drawn(llm, ids, new=40, cache_salt="warm")
    assert drawn(llm, ids, new=40, cache_salt="warm") == turn
    following = np.concatenate([ids, [t for t, _ in turn], prompt(4, 9)]).astype(np.int32)
    assert drawn(llm, following, new=new, cache_salt="warm") == drawn(llm, following, new=new, cache_salt="cold")


def assert_generated_serves_nobody(llm: LLM, ids: np.ndarray) -> None:
    turn = drawn(llm, ids, new=40, cache_salt="own")
    following = np.concatenate([ids, [t for t, _ in turn], [1, 2, 3]]).astype(np.int32)
    answer = llm._offline.run([GenerateRequest(following, SamplingParams(max_tokens=1), cache_salt="own")])[0]
    assert len(ids) - 16 <= answer.usage.cached <= len(ids)


def assert_forked_is_linear(llm: LLM, ids: np.ndarray, cuts: tuple[int, ...], new: int) -> None:
    linear = drawn(llm, ids, new=new, cache_salt="linear")
    for cut in cuts:
        trunk = np.concatenate([ids[:cut], prompt(cut, 30)])
        held = llm._offline.hold(trunk)
        assert drawn(llm, ids, new=new, parent=held, parent_pos=cut) == linear, cut
        llm._offline.release(held)


def assert_crowded_is_undisturbed(llm: LLM, model: Path, attend: str, lengths: tuple[int, int], blocks: int) -> None:
    """Three prompts of lengths in between, alone and together in a memory of `blocks` blocks, where some must step aside."""
    prompts = [prompt(20 + i, int(n)) for i, n in enumerate(np.random.default_rng(8).integers(*lengths, 3))]
    alone = [drawn(llm, p, i, 60, cache_salt="alone") for i, p in enumerate(prompts)]
    per_token = llm.engine.executor.caps().spec.bytes_per_token
    small = LLM(model, attend=attend, kv_memory=blocks * 16 * per_token, context=640)
    answers = small._offline.run([GenerateRequest(p, sampled(60, i)) for i, p in enumerate(prompts)])
    assert [[(e.token, e.logprob) for e in a.choices[0].logprobs] for a in answers] == alone
    assert small.engine.scheduler.counters.preempted > 0
    assert small.engine.scheduler.check(full=True) == []
