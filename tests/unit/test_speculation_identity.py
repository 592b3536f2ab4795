"""What a client may ask for, one by one: each is answered with the same bits with and without drafts, in every kind of memory."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from drafted_requests import GRAMMARS, Asked, ask, prompt, same
from echo_engine import KINDS, echo_offline

from headwater.core.cost import LinearCost
from headwater.core.params import SamplingParams
from headwater.engine.expand import GenerateRequest
from headwater.engine.offline import Offline

DRAFT = "suffix:tree=on+ngram:shortest=1+forced+selfdraft:budget=6,most=20"
CHEAP = LinearCost((1e-2, 1e-6, 0.0, 1e-6, 0.0, 0.0, 0.0, 0.0))    # trees are worth their tokens


def asked(rng: random.Random, **params) -> Asked:
    p = SamplingParams(temperature=rng.choice([0.0, 0.8]), seed=rng.randrange(2**40), max_tokens=50, ignore_eos=True)
    return Asked(GenerateRequest(prompt(rng, 120), replace(p, **params)))


def structured(rng: random.Random) -> Asked:
    a = asked(rng, ignore_eos=False, max_tokens=80)
    return Asked(replace(a.want, grammar=rng.choice(GRAMMARS)))


def cancelled(rng: random.Random) -> Asked:
    return Asked(asked(rng).want, cancel_at=rng.randint(8, 40))


ITEMS: dict[str, Callable[[random.Random], Asked]] = {
    "greedy": lambda rng: asked(rng, temperature=0.0),
    "sampled": lambda rng: asked(rng, temperature=1.1, top_p=0.9, top_k=20, min_p=0.02),
    "structured output": structured,
    "penalties": lambda rng: asked(rng, repetition_penalty=1.3, presence_penalty=0.4, frequency_penalty=0.3),
    "logprobs": lambda rng: asked(rng, logprobs=4),
    "stop strings": lambda rng: asked(rng, stop=rng.choice(["e", "th", "~"])),
    "stop ids and least tokens": lambda rng: asked(rng, stop_token_ids=[rng.randrange(32, 120) for _ in range(3)], min_tokens=9),
    "biased and allowed ids": lambda rng: asked(rng, logit_bias={40: 5.0, 41: 4.0}, allowed_token_ids=list(range(36, 60))),
    "forks": lambda rng: asked(rng, n=4),
    "cancellation in the middle": cancelled,
}


def engine(draft: str, kind: dict) -> Offline:
    offline = echo_offline(draft=draft, eos_rate=200, markers=((), (ord("~"),)), **kind)
    if offline.engine.scheduler.guesser is not None:
        offline.engine.scheduler.guesser.cost = CHEAP
    return offline


@pytest.mark.parametrize("kind", KINDS, ids=["full", "window", "state", "window-state"])
@pytest.mark.parametrize("item", ITEMS)
def test_an_answer_has_the_bits_of_plain_decoding_with(item, kind) -> None:
    if item == "structured output":
        pytest.importorskip("llguidance")
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    wants = [ITEMS[item](rng) for _ in range(3)]
    plain, fast = engine("none", kind), engine(DRAFT, kind)
    expected = ask(plain, wants, "plain")
    for time in ("first", "second"):                                # the second time past answers are there to draft from
        for a, p, d in zip(wants, expected, ask(fast, wants, time), strict=True):
            same(a, p, d, f"{item}, seed {seed}, {time} time")
    assert fast.engine.scheduler.guesser.counts.drafted > 0 and not fast.engine.scheduler.check(full=True)


def test_what_is_streamed_adds_up_to_what_is_returned_at_once() -> None:
    rng = random.Random(5)
    wants = [asked(rng, logprobs=2) for _ in range(3)]
    at_once = engine(DRAFT, {}).run([w.want for w in wants])
    for streamed, answer in zip(ask(engine(DRAFT, {}), wants, "streamed"), at_once, strict=True):
        choice = answer.choices[0]
        assert (streamed[0].ids, streamed[0].text, streamed[0].finish) == (choice.token_ids, choice.text, choice.finish_reason)
