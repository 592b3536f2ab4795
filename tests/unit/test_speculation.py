"""Speculation changes nothing but time: ids and log-probabilities with drafts on are those of plain decoding, bit for bit."""

import random

import numpy as np
import pytest
from drafted_requests import ask, request, same
from echo_engine import KINDS, echo_offline

from headwater.core.cost import LinearCost
from headwater.engine.expand import GenerateRequest
from headwater.engine.offline import Offline
from headwater.llm import LLM, SamplingParams

DRAFTS = ["ngram:shortest=1", "suffix:tree=on", "forced", "suffix+ngram:shortest=1,longest=3", "selfdraft:budget=4,most=30",
          "suffix+ngram+forced+selfdraft:budget=6,interval=5,most=20"]
MARKERS = (), (ord("~"),)                                           # rows think until they happen to draw this


def compare(plain: Offline, fast: Offline, requests: int, seed: int, vocabulary: int, longest: int = 60) -> None:
    """Each batch is asked twice, so that the second time past outputs are there to draft from."""
    rng = random.Random(seed)
    for batch in range(0, requests, 5):
        asked = [request(rng, vocabulary, longest, grammar=True if i == 0 else None) for i in range(min(5, requests - batch))]
        expected = ask(plain, asked, f"plain-{batch}")
        for time in ("first", "second"):
            got = ask(fast, asked, f"{time}-{batch}")
            for a, p, d in zip(asked, expected, got, strict=True):
                same(a, p, d, f"seed {seed}, batch {batch}, {time} time")


@pytest.mark.parametrize("kind", KINDS, ids=["full", "window", "state", "window-state"])
@pytest.mark.parametrize("draft", DRAFTS)
def test_drafts_never_change_an_answer_of_the_echo_family(draft, kind) -> None:
    pytest.importorskip("llguidance")
    plain, fast = echo_offline(eos_rate=200, **kind), echo_offline(draft=draft, eos_rate=200, markers=MARKERS, **kind)
    compare(plain, fast, 15 if "selfdraft" in draft else 12, random.randrange(2**32), 120)
    counts = fast.engine.scheduler.guesser.counts
    assert counts.drafted > 0 or draft.startswith("selfdraft")
    assert counts.tokens >= counts.passes
    assert not fast.engine.scheduler.check(full=True)


def eager(llm: LLM) -> LLM:
    """Guesses at a fixed price: what a step costs on this machine in this minute must not decide what a test sees."""
    llm.engine.scheduler.guesser.cost = None
    return llm


def lavish(llm: LLM) -> LLM:
    """Guesses that cost next to nothing: trees are worth their tokens."""
    llm.engine.scheduler.guesser.cost = LinearCost((1e-2, 1e-6, 0.0, 1e-6, 0.0, 0.0, 0.0, 0.0))
    return llm


@pytest.mark.parametrize("draft", ["ngram:shortest=1", "suffix+ngram:shortest=1"])
def test_text_that_cannot_be_guessed_is_hardly_guessed_at(draft) -> None:
    offline = echo_offline(draft=draft)
    guesser = offline.engine.scheduler.guesser
    shares = []
    for i in range(24):                                             # every token drawn evenly from 95
        before = guesser.counts.copy()
        params = SamplingParams(temperature=100.0, seed=i, max_tokens=140, ignore_eos=True)
        offline.run([GenerateRequest(list(range(40 + i, 90 + i)), params)])
        shares.append((guesser.counts.drafted - before.drafted) / (guesser.counts.passes - before.passes))
    assert sum(shares[8:]) / 16 <= 0.02 < shares[0]


def test_rows_of_a_kind_of_text_that_repeats_draft_again_after_text_that_does_not() -> None:
    offline = echo_offline(draft="suffix")
    for i in range(6):
        offline.run([GenerateRequest(list(range(40, 90)), SamplingParams(temperature=100.0, seed=i, max_tokens=100, ignore_eos=True))])
    params = SamplingParams(temperature=0.0, max_tokens=100, ignore_eos=True)
    offline.run([GenerateRequest(list(b"what comes now was said before"), params)])
    again = offline.run([GenerateRequest(list(b"what comes now was said before"), params)])[0]
    assert again.usage.drafts.accepted > 60


@pytest.mark.slow
@pytest.mark.parametrize("draft", ["suffix:tree=on", "suffix+ngram+forced"])
def test_drafts_never_change_an_answer_of_a_real_model(smollm2, draft) -> None:
    pytest.importorskip("llguidance")
    spend = lavish if "tree" in draft else eager
    plain, fast = LLM(str(smollm2), context=1024), spend(LLM(str(smollm2), context=1024, draft=draft))
    compare(plain._offline, fast._offline, 15, random.randrange(2**32), 40_000, longest=32)
    plain.close()
    fast.close()


@pytest.mark.slow
def test_a_model_that_repeats_itself_is_guessed_well(smollm2) -> None:
    llm = eager(LLM(str(smollm2), draft="suffix", context=1024))
    llm.generate(np.array([9, 20, 31, 42] * 20, np.int32), SamplingParams(temperature=0, max_tokens=120, ignore_eos=True))
    counts = llm.engine.scheduler.guesser.counts
    llm.close()
    assert counts.accepted > 40 and counts.alpha > 0.6
    assert sum(a for _, a in counts.by_position) == counts.accepted and sum(n * k for n, k in counts.lengths.items()) == counts.drafted
