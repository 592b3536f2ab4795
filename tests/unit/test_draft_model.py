"""A second model as drafter: its greedy guesses are right where it is the same model, and never change an answer where it is not."""

import random

import numpy as np
import pytest
from drafted_requests import ask, request, same

from headwater.core.errors import UserInputError
from headwater.engine.build import EngineSpec, load_text
from headwater.engine.draftmodel import check_vocabulary
from headwater.engine.text import TextModel
from headwater.llm import LLM, SamplingParams
from headwater.text.echo import echo_tokenizer

PROMPT = np.array(list(b"some text to go on from"), np.int32)


def eager(draft: str) -> LLM:
    llm = LLM("echo", draft=draft)
    llm.engine.scheduler.guesser.cost = None
    return llm


def test_a_model_that_drafts_for_itself_is_right_about_every_greedy_token() -> None:
    plain, fast = LLM("echo"), eager("model:file=echo,length=3")
    params = SamplingParams(temperature=0.0, max_tokens=60, ignore_eos=True)
    out = fast.generate(PROMPT, params)[0]
    assert out.outputs[0].token_ids == plain.generate(PROMPT, params)[0].outputs[0].token_ids
    drafted, accepted = out.drafts.by_source["model"]
    assert drafted == accepted > 20 and out.drafts.tau > 2


def test_sampled_answers_keep_their_bits_beside_a_model_that_guesses_greedily() -> None:
    pytest.importorskip("llguidance")
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    plain, fast = LLM("echo"), eager("suffix+model:file=echo,length=2+forced")
    for batch in range(3):
        asked = [request(rng, 120, grammar=True if i == 0 else None) for i in range(4)]
        for a, p, d in zip(asked, ask(plain._offline, asked, f"p{batch}"), ask(fast._offline, asked, f"d{batch}"), strict=True):
            same(a, p, d, f"seed {seed}")


def test_a_model_of_another_vocabulary_is_refused_with_both_sizes() -> None:
    own = load_text(EngineSpec("echo"))
    other = TextModel("other", echo_tokenizer(330), frozenset({256}))
    with pytest.raises(UserInputError, match="has 330 tokens"):
        check_vocabulary(other, own)
    check_vocabulary(own, own)


def test_a_drafter_that_names_no_model_says_what_would_be_right() -> None:
    with pytest.raises(UserInputError, match="model:file=NAME"):
        LLM("echo", draft="model")
