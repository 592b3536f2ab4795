"""When guesses are made at all: where they pay, by the price of a token in this step and by what held before. Prices are fixed here."""

import numpy as np
import pytest
from toy_scheduler import VOCABULARY, Toy, prompt, request

from headwater.core.cost import LinearCost
from headwater.policies.draft.api import Draft
from headwater.sched.guess import PROBE_EVERY, Guesser
from headwater.sim.memory import linear

# seconds per step, token, token beyond sixteen, row: the weights are read for every step, arithmetic tells from sixteen tokens on
CPU = LinearCost((8e-3, 1e-3, 1.5e-3, 1e-4, 0.0, 0.0, 0.0, 0.0))


class Draws:
    """Knows what rows will say and is right with a fixed chance (0: never), always with the longest match there is."""

    def __init__(self, right: dict[bytes, list[int]], chance: float) -> None:
        self.right, self.chance = right, chance
        self.rng = np.random.default_rng(0)
        self.rows: dict[int, list[int]] = {}
        self.ahead: dict[int, list[int]] = {}

    def begin(self, row: int, tokens: np.ndarray, salt: str) -> None:
        prompt_ids = next(p for p in self.right if np.frombuffer(p, np.int32).tolist() == tokens[: len(p) // 4].tolist())
        self.rows[row], self.ahead[row] = tokens.tolist(), [*np.frombuffer(prompt_ids, np.int32).tolist(), *self.right[prompt_ids]]

    def extend(self, row: int, tokens: np.ndarray) -> None:
        self.rows[row] += tokens.tolist()

    def propose(self, row: int, most: int) -> Draft:
        n = len(self.rows[row])
        ids = np.array(self.ahead[row][n : n + most], np.int32)
        return Draft(np.where(self.rng.random(len(ids)) < self.chance, ids, (ids + 1) % VOCABULARY).astype(np.int32), 32, "suffix")

    def end(self, row: int) -> None:
        self.rows.pop(row, None)


def run(streams: int, chance: float, tokens: int = 120) -> Guesser:
    requests = [request(f"r{i}", prompt(20, i), tokens, seed=i) for i in range(streams)]
    right = {r.prompt.tobytes(): linear(r.prompt, r.seed, tokens, frozenset(), VOCABULARY) for r in requests}
    guesser = Guesser(Draws(right, chance), CPU)
    toy = Toy(guess=guesser, blocks=400, cost=CPU)
    toy.run(*requests)
    assert all(toy.ids(r.request_id) == right[r.prompt.tobytes()] for r in requests)
    return guesser


def test_one_stream_guesses_where_guesses_hold() -> None:
    counts = run(1, 0.9).counts
    assert counts.tau > 2 and counts.alpha > 0.4


@pytest.mark.parametrize("chance", [0.0, 0.5, 0.9])
def test_sixteen_streams_guess_nothing_where_a_full_batch_makes_every_token_cost_a_token(chance) -> None:
    counts = run(16, chance, 60).counts
    full = 16 * 59                                                  # passes; the last of a stream may be alone with less company
    assert counts.passes == full and counts.drafted <= 0.02 * full


def test_the_same_drafts_are_made_again_when_the_batch_is_small() -> None:
    few, many = run(2, 0.9, 60).counts, run(16, 0.9, 60).counts
    assert few.drafted / few.passes > 0.5 and many.drafted / many.passes <= 0.02


def test_once_nothing_has_held_at_most_two_in_a_hundred_passes_carry_a_guess() -> None:
    guesser = run(1, 0.0, 40)                                       # it learns that nothing holds
    before = guesser.counts.copy()
    right = {prompt(20, 7).tobytes(): linear(prompt(20, 7), 7, 1000, frozenset(), VOCABULARY)}
    guesser.drafter.right |= right
    toy = Toy(guess=guesser, blocks=400, cost=CPU)
    toy.run(request("later", prompt(20, 7), 1000, seed=7))
    passes = guesser.counts.passes - before.passes
    assert (guesser.counts.drafted - before.drafted) / passes <= 0.02 and passes // PROBE_EVERY - 2 <= guesser.counts.drafted - before.drafted


def test_a_row_whose_text_begins_to_repeat_is_guessed_at_again() -> None:
    guesser = run(1, 0.0, 200)
    guesser.drafter.chance = 1.0
    before = guesser.counts.copy()
    guesser.drafter.right |= {prompt(20, 9).tobytes(): linear(prompt(20, 9), 9, 400, frozenset(), VOCABULARY)}
    Toy(guess=guesser, blocks=400, cost=CPU).run(request("again", prompt(20, 9), 400, seed=9))
    assert guesser.counts.accepted - before.accepted > 200
