"""The runner on the echo family: what a row yields depends on its tokens only."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_maker import Planner, Row

from headwater.core.params import SamplingParams
from headwater.core.plan import Want
from headwater.core.request import ReadSpec
from headwater.worker.exec.echo import ECHO_VOCABULARY, EchoForward
from headwater.worker.runner import Runner

KINDS = st.sampled_from([{}, {"window": 40}, {"state": True, "slots": 16}, {"window": 24, "state": True, "slots": 16}])
SAMPLED = SamplingParams(temperature=0.8)


def fresh(seed: int, **kind) -> Planner:
    return Planner(Runner(EchoForward(128, 512, **kind)), np.random.default_rng(seed))


def prompt(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.integers(0, 256, n).astype(np.int32)


@given(st.integers(0, 2**32), st.integers(1, 120), st.integers(1, 130), KINDS)
def test_chunks_of_any_size_give_the_same_tokens(seed: int, n: int, chunk: int, kind: dict) -> None:
    rng = np.random.default_rng(seed)
    ids = prompt(rng, n)
    whole = fresh(seed, **kind).generate(Row(0, ids, SAMPLED, 7), 8)
    cut = fresh(seed + 1, **kind).generate(Row(3, ids, SAMPLED, 7), 8, chunk)
    assert whole == cut


@given(st.integers(0, 2**32), KINDS)
def test_a_row_in_a_batch_of_eight_draws_what_it_draws_alone(seed: int, kind: dict) -> None:
    rng = np.random.default_rng(seed)
    prompts = [prompt(rng, int(n)) for n in rng.integers(1, 60, 8)]
    alone = [fresh(seed, **kind).generate(Row(0, p, SAMPLED, i), 6) for i, p in enumerate(prompts)]
    planner = fresh(seed, **kind)
    rows = [Row(i, p, SAMPLED, i) for i, p in enumerate(prompts)]
    while any(len(r.tokens) < len(r.prompt) + 6 for r in rows):
        order = rng.permutation(8)
        planner.step([(rows[i], int(rng.integers(1, len(rows[i].tokens) - rows[i].done + 1))) for i in order])
    assert [r.tokens[len(r.prompt) :][:6] for r in rows] == alone


@given(st.integers(0, 2**32), st.lists(st.booleans(), min_size=1, max_size=6), st.floats(0.0, 1.5))
def test_guesses_change_the_speed_and_never_the_tokens(seed: int, right: list[bool], temperature: float) -> None:
    rng = np.random.default_rng(seed)
    ids = prompt(rng, 20)
    params = SamplingParams(temperature=temperature)
    truth = fresh(seed).generate(Row(0, ids, params, 5), 12)
    planner, row = fresh(seed), Row(0, ids, params, 5)
    planner.step([(row, 20)])
    while len(row.tokens) < 20 + 12:
        at = len(row.tokens) - 20
        guess = [t if ok else (t + 1) % 256 for t, ok in zip(truth[at:], right, strict=False)]
        before = len(row.tokens)
        planner.step([(row, 1)], {0: guess})
        held = next((i for i, ok in enumerate(right[: len(guess)]) if not ok), len(guess))
        assert len(row.tokens) - before == held + 1
    assert row.tokens[20:32] == truth


def test_prompt_logprobs_cover_every_position_whatever_the_chunks() -> None:
    ids = prompt(np.random.default_rng(1), 50)
    seen = {}
    for chunk in (1, 7, 50):
        planner, row = fresh(0), Row(0, ids, reads=ReadSpec(score_from=1, prompt_top=3))
        found = []
        while row.done < 50:
            found += [p for r in planner.step([(row, min(chunk, 50 - row.done))]).reads.values() for p in r.prompt]
        seen[chunk] = [(p.token, p.logprob, p.top_ids.tolist()) for p in found]
        assert [p.token for p in found] == ids[1:].tolist()
    assert seen[1] == seen[7] == seen[50]


def test_logprobs_are_of_the_raw_distribution() -> None:
    ids = prompt(np.random.default_rng(2), 30)
    planner = fresh(0)
    row = Row(0, ids, SamplingParams(temperature=2.0, logprobs=5, logit_bias={65: 100.0}))
    result = planner.step([(row, 30)])
    assert row.tokens[-1] == 65                                     # the bias decides the draw
    entry = result.logprobs[0][0]
    read = Row(1, ids, reads=ReadSpec(labels=np.arange(ECHO_VOCABULARY), lse=True))
    reads = planner.step([(read, 30)], want=Want.NONE).reads[0]
    assert entry.logprob == pytest.approx(reads.labels[65] - reads.lse, abs=1e-6)
    assert len(entry.top_ids) == 5
    assert entry.top_values[0] == pytest.approx((reads.labels - reads.lse).max(), abs=1e-6)


def test_stop_ids_are_banned_until_min_tokens_were_drawn() -> None:
    ids = prompt(np.random.default_rng(3), 10)
    params = SamplingParams(temperature=0.0, min_tokens=5, logit_bias={256: 100.0})
    planner, row = Planner(Runner(EchoForward(128, 512, eos_rate=200)), np.random.default_rng(0)), Row(0, ids, params)
    drawn = planner.generate(row, 6)
    assert drawn.index(256) == 5


class Allow:
    """A matcher that walks through a fixed list of allowed sets."""

    def __init__(self, sets: list[set[int]]) -> None:
        self.sets, self.at = sets, 0

    def accept(self, ids: np.ndarray) -> int:
        for k, t in enumerate(ids.tolist()):
            if self.at >= len(self.sets) or t not in self.sets[self.at]:
                return k
            self.at += 1
        return len(ids)

    def rollback(self, n: int) -> None:
        self.at -= n

    def fill(self, bits: np.ndarray, row: int) -> None:
        bits[row] = 0
        for t in self.sets[self.at] if self.at < len(self.sets) else {256}:
            bits[row, t // 32] |= np.uint32(1 << (t % 32))


def test_a_grammar_holds_with_and_without_guesses() -> None:
    ids = prompt(np.random.default_rng(4), 12)
    sets = [{65, 66}, {67}, {68, 69, 70}, {71}, {72}]
    drawn = {}
    for guess in ([], [67, 70, 71], [67, 99, 71]):
        planner, row = fresh(0), Row(0, ids, SamplingParams(temperature=1.0), 3, mask="m")
        planner.runner.masks.add("m", Allow(sets))
        planner.step([(row, 12)], want=Want.SAMPLE | Want.MASK)
        planner.step([(row, 1)], {0: guess} if guess else None, want=Want.SAMPLE | Want.MASK)
        while len(row.tokens) < 17:
            planner.step([(row, 1)], want=Want.SAMPLE | Want.MASK)
        drawn[tuple(guess)] = row.tokens[12:]
        assert all(t in allowed for t, allowed in zip(row.tokens[12:], sets, strict=True))
    assert len({tuple(d) for d in drawn.values()}) == 1


def test_a_row_whose_grammar_is_missing_fails_alone() -> None:
    rng = np.random.default_rng(5)
    planner = fresh(0)
    good, bad = Row(0, prompt(rng, 9)), Row(1, prompt(rng, 9), mask="nobody")
    result = planner.step([(good, 9), (bad, 9)], want=Want.SAMPLE | Want.MASK)
    assert list(result.failed) == [1]
    assert "grammar" in result.failed[1]
