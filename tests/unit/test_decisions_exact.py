"""Decisions on a real model are exact: same bits alone, in company, permuted, cold, warm, at any fork position, whatever a neighbour asks."""

import random
from collections.abc import Iterator

import numpy as np
import pytest

from headwater.decisions.types import Answer
from headwater.llm import LLM

STATES = [
    "Pump P3 reads 91 C, the limit is 85 C. The operator was told at 09:14 and has not answered.",
    "Dear team, the crane on site 7 stopped twice today. Please send someone before Monday. " * 6,
]


@pytest.fixture(scope="module")
def llm(smollm2) -> Iterator[LLM]:
    model = LLM(str(smollm2), context=4096)
    yield model
    model.close()


def questions(n: int) -> dict[str, list[str]]:
    rng = random.Random(n)
    words = ["alarm", "repair", "invoice", "visit", "delay", "crane", "pump", "limit", "operator", "Monday"]
    return {f"q{i}": [f"{rng.choice(words)} {i}", rng.choice(words), f"no {rng.choice(words)} at all"] for i in range(n)}


def bits(a: Answer) -> bytes:
    return a.probabilities.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("state", STATES)
def test_answers_have_the_same_bits_for_one_two_seven_and_sixty_four_questions_in_any_order(llm, state) -> None:
    asked = questions(64)
    rng = random.Random(1)
    together = {name: bits(llm.decide(state, asked)[name]) for name in ("q0", "q9", "q63")}
    for name, want in together.items():
        assert bits(llm.decide(state, {name: asked[name]})[name]) == want
        for n in (2, 7):
            some = [*rng.sample([q for q in asked if q != name], n - 1), name]
            rng.shuffle(some)
            assert bits(llm.decide(state, {q: asked[q] for q in some})[name]) == want


@pytest.mark.slow
def test_a_cold_state_and_a_kept_one_give_the_same_bits_and_a_neighbour_changes_nothing(smollm2, llm) -> None:
    asked = questions(7)
    warm = [bits(a) for a in llm.decide(STATES[1], asked).answers]
    fresh = LLM(str(smollm2), context=4096, step_tokens=48)          # cold, and in small chunks
    cold = [bits(a) for a in fresh.decide(STATES[1], asked).answers]
    again = fresh.decide(STATES[1], asked)
    assert cold == warm == [bits(a) for a in again.answers] and again.usage.computed < again.usage.once
    asked["q3"] = ["something", "else", "entirely"]
    changed = [bits(a) for a in fresh.decide(STATES[1], asked).answers]
    fresh.close()
    assert [x == y for x, y in zip(changed, cold, strict=True)] == [True, True, True, False, True, True, True]


@pytest.mark.slow
@pytest.mark.parametrize("position", [1, 15, 16, 17, 63, 64, 65, 127, 255, 256, 257])
def test_a_fork_at_any_position_reads_what_the_linear_run_reads(llm, position) -> None:
    ids = (np.arange(300, dtype=np.int32) * 37 + 1000) % 40_000
    labels = [330, 331, 1780]
    linear = llm.state(ids[:1]).label_logits([ids[1:]], labels)
    with llm.state(ids[:position]) as state:
        forks = state.label_logits([ids[position:], ids[position : position + 5], ids[position:]], labels)
    assert forks[0].tobytes() == forks[2].tobytes() == linear[0].tobytes()


@pytest.mark.slow
def test_computed_tokens_are_the_state_once_and_every_question(smollm2) -> None:
    llm = LLM(str(smollm2), context=4096)
    ids = (np.arange(600, dtype=np.int32) * 41 + 1000) % 40_000
    before = llm.engine.stats()
    with llm.state(ids[:500]) as state:
        state.label_logits([np.roll(ids[500:520], i) for i in range(8)], [330, 331])
    after = llm.engine.stats()
    llm.close()
    assert (after.prompt_tokens - after.cached_tokens) - (before.prompt_tokens - before.cached_tokens) == 500 + 8 * 20


@pytest.mark.slow
def test_options_that_begin_alike_get_their_joint_probability_from_a_real_model(llm) -> None:
    options = ["10", "100", "1000", "2"]
    got = llm.decide("Counted: one hundred.", {"n": options}, labels="text")["n"].probabilities
    from headwater.decisions import wording
    from headwater.decisions.annotations import question_of
    from headwater.engine.decisions import DecisionText

    text = DecisionText(llm._text)
    ask = wording.ask(question_of("n", options), range(4), True)
    prompt = text.prompt_ids(wording.state_message("Counted: one hundred."), ask.text, "")
    with llm.state(prompt) as state:
        scores = state.score([np.array([*text.label_ids(o), *text.terminator()], np.int32) for o in options])
    log = np.array([s.sum() for s in scores])
    want = np.exp(log - log.max())
    np.testing.assert_allclose(got, want / want.sum(), rtol=1e-4)


def test_a_thousand_options_work_where_our_own_limit_holds() -> None:
    llm = LLM("echo", context=32_768, kv_memory="64M")
    answer = llm.decide("state", {"q": [f"option {i}" for i in range(1000)]})["q"]
    llm.close()
    assert len(answer.probabilities) == 1000 and abs(answer.probabilities.sum() - 1) < 1e-9
