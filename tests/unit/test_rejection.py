"""Rejection sampling of sampled drafts: the law of an answer is the target's, exactly; whose draws they are is said."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.plan import Ragged
from headwater.kernels.sampling import Draws, sample
from headwater.llm import LLM, SamplingParams
from headwater.worker.rejection import decide, reject

PROMPT = list(b"some text to go on from")
parts = st.lists(st.integers(0, 6), min_size=4, max_size=4).filter(any)


@given(parts, parts)
def test_the_law_of_what_follows_is_the_targets_whatever_the_draft_was_drawn_from(target, draft) -> None:
    """Exactly: u and v run through grids so fine that every border lies between two of their points, and each point stands for its cell."""
    p, q = (np.array(x, float) / sum(x) for x in (target, draft))
    whole = np.array(target) * sum(draft) - np.array(draft) * sum(target)     # (p - q) in integers
    surplus = int(np.maximum(whole, 0).sum()) or 1
    law = np.zeros(4)
    for guess in np.flatnonzero(q).tolist():
        cells = draft[guess] * sum(target)                          # p / q has this denominator
        taken = sum(decide(p, q, guess, (i + 0.5) / cells, 0.0) == guess for i in range(cells)) / cells
        assert taken == pytest.approx(min(1.0, p[guess] / q[guess]), abs=1e-12)
        law[guess] += q[guess] * taken
        if taken < 1.0:
            for j in range(surplus):
                law[decide(p, q, guess, 1.0 - 1e-9, (j + 0.5) / surplus)] += q[guess] * (1.0 - taken) / surplus
    assert law == pytest.approx(p, abs=1e-12)


def draws(n: int, seed: int, **columns) -> Draws:
    d = Draws.greedy(n)
    d.temperature[:], d.seed[:], d.position[:] = 1.0, seed, np.arange(50, 50 + n)
    for name, value in columns.items():
        getattr(d, name)[:] = value
    return d


def test_what_the_row_cannot_draw_is_never_accepted_and_the_rest_of_the_chain_is_left_alone() -> None:
    logits = np.log(np.array([[0.4, 0.3, 0.2, 0.1]] * 3, np.float32))
    law = np.full((2, 4), 0.25)
    for seed in range(40):
        d = draws(3, seed, top_k=2, n_logprobs=0)
        drawn, plain = sample(logits, d), sample(logits, d)
        reject(logits, d, np.array([0, 3]), Ragged.of([np.array([3, 1], np.int32)]), {0: law}, drawn)
        assert drawn.tokens[0] in (0, 1) and drawn.tokens[1:].tolist() == plain.tokens[1:].tolist()
        assert drawn.logprobs[0] == pytest.approx(float(logits[0, drawn.tokens[0]]), abs=1e-5)


def test_a_model_that_drafts_for_itself_is_accepted_whenever_nothing_but_the_temperature_shapes_the_draw() -> None:
    llm = LLM("echo", draft="model:file=echo,length=3,rejection=on")
    llm.engine.scheduler.guesser.cost = None
    out = llm.generate(PROMPT, SamplingParams(temperature=0.9, seed=4, max_tokens=60, ignore_eos=True))[0]
    greedy = llm.generate(PROMPT, SamplingParams(temperature=0.0, max_tokens=20, ignore_eos=True))[0]
    llm.close()
    drafted, accepted = out.drafts.summary()["drafted"]["rejection"], out.drafts.summary()["accepted"]["rejection"]
    assert drafted == accepted > 20 and set(greedy.drafts.by_source) == {"model"}


def test_answers_have_the_distribution_of_plain_decoding() -> None:
    """Three tokens of 300 seeds each way, counted by the rank of each token among the two that may be drawn: chi-square of two samples. The seeds are
    fixed, so that this says the same every time."""
    params = {"top_k": 2, "temperature": 0.7, "max_tokens": 3, "ignore_eos": True}
    counted = {}
    for name, draft in (("plain", "none"), ("rejection", "model:file=echo,length=3,rejection=on")):
        llm = LLM("echo", draft=draft)
        if draft != "none":
            llm.engine.scheduler.guesser.cost = None
        wants = [SamplingParams(seed=seed + 1000 * (name == "plain"), **params) for seed in range(300)]
        said = [tuple(llm.generate(PROMPT, want)[0].outputs[0].token_ids) for want in wants]    # one by one: no step depends on what steps cost
        counted[name] = {t: said.count(t) for t in set(said)}
        if draft != "none":
            drafted, accepted = llm.engine.scheduler.guesser.counts.by_source["rejection"]
            assert drafted > accepted > 0
        llm.close()
    ways = set(counted["plain"]) | set(counted["rejection"])
    assert len(ways) <= 8
    a, b = (np.array([counted[name].get(w, 0) for w in sorted(ways)]) for name in ("plain", "rejection"))
    assert ((a - b) ** 2 / (a + b)).sum() < 24.3                     # 99.9 % point of chi-square with 7 degrees of freedom
