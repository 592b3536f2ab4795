"""Speculation changes nothing but time: ids and log-probabilities with drafts on are those of plain decoding, bit for bit."""

import random

import numpy as np
import pytest

from headwater.llm import LLM, SamplingParams

DRAFTS = ["ngram:shortest=1", "suffix", "suffix+ngram:shortest=1,longest=3"]


def params(rng: random.Random) -> SamplingParams:
    return SamplingParams(
        temperature=rng.choice([0.0, 0.0, 0.7, 1.3]), top_p=rng.choice([1.0, 0.9]), top_k=rng.choice([0, 5]), seed=rng.randrange(2**40),
        max_tokens=rng.randrange(1, 60), n=rng.choice([1, 1, 3]), logprobs=rng.choice([None, 0, 3]), ignore_eos=rng.random() < 0.7,
        repetition_penalty=rng.choice([1.0, 1.2]), presence_penalty=rng.choice([0.0, 0.5]), stop=rng.choice([None, None, "e", "the"]),
    )


def prompt(rng: random.Random, vocabulary: int) -> list[int]:
    """Repetitive, so that drafts are made and often hold."""
    words = [[rng.randrange(10, vocabulary) for _ in range(rng.randrange(2, 6))] for _ in range(3)]
    return [t for _ in range(rng.randrange(2, 8)) for t in rng.choice(words)]


def said(llm: LLM, prompts: list[list[int]], ps: list[SamplingParams]) -> list:
    return [
        (c.token_ids, c.text, c.finish_reason, c.logprobs and [{t: v.logprob for t, v in e.items()} for e in c.logprobs])
        for r in llm.generate(prompts, ps) for c in r.outputs
    ]


def eager(llm: LLM) -> LLM:
    """Guesses at a fixed price: what a step costs on this machine in this minute must not decide what a test sees."""
    llm.engine.scheduler.guesser.cost = None
    return llm


def compare(model: str, draft: str, requests: int, seed: int, vocabulary: int, **fields) -> float:
    """Each batch is asked twice, so that the second time past outputs are there to draft from -> accepted per drafted token."""
    rng = random.Random(seed)
    plain, fast = LLM(model, **fields), eager(LLM(model, draft=draft, **fields))
    for _ in range(0, requests, 5):
        prompts, ps = [prompt(rng, vocabulary) for _ in range(5)], [params(rng) for _ in range(5)]
        expected = said(plain, prompts, ps)
        assert said(fast, prompts, ps) == expected, f"seed {seed}"
        assert said(fast, prompts, ps) == expected, f"seed {seed}, second time"
    counts = fast.engine.scheduler.guesser.counts
    plain.close()
    fast.close()
    assert counts.drafted > 0
    return counts.alpha


@pytest.mark.parametrize("draft", DRAFTS)
def test_drafts_never_change_an_answer_of_the_echo_family(draft) -> None:
    alpha = compare("echo", draft, 60, random.randrange(2**32), 200)
    assert alpha > 0 or "suffix" not in draft


@pytest.mark.slow
@pytest.mark.parametrize("draft", DRAFTS[1:])
def test_drafts_never_change_an_answer_of_a_real_model(smollm2, draft) -> None:
    alpha = compare(str(smollm2), draft, 20, random.randrange(2**32), 40_000, context=1024)
    assert 0 <= alpha <= 1


@pytest.mark.slow
def test_a_model_that_repeats_itself_is_guessed_well(smollm2) -> None:
    llm = eager(LLM(str(smollm2), draft="suffix", context=1024))
    llm.generate(np.array([9, 20, 31, 42] * 20, np.int32), SamplingParams(temperature=0, max_tokens=120, ignore_eos=True))
    counts = llm.engine.scheduler.guesser.counts
    llm.close()
    assert counts.accepted > 40 and counts.alpha > 0.6
    assert sum(a for _, a in counts.by_position) == counts.accepted and sum(n * k for n, k in counts.lengths.items()) == counts.drafted
