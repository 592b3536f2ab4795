"""Going back behind refused guesses: whatever was guessed, states and windows are those of a row that never guessed, bit for bit (natively; numpy's
own products round otherwise for other row counts)."""

from pathlib import Path

import numpy as np
import pytest
import tiny_models
from plan_maker import Planner, Row
from test_speculation_families import END

from headwater.core.params import SamplingParams
from headwater.model.load.loader import load_model
from headwater.worker.model_forward import ModelForward
from headwater.worker.runner import Runner

PROMPT = np.arange(3, 40, dtype=np.int32)
GUESSES = 5


def runner(name: str, folder: Path, plain: bool = False) -> Runner:
    model = load_model(tiny_models.write_folder(name, folder))
    spec = model.kvspec
    return Runner(ModelForward(model.program, spec, (200,) * len(spec.groups), 16 if spec.states else 0, context=256, identity=model.identity,
                               step_tokens=256, vocabulary=tiny_models.VOCAB, plain=plain))


def row(number: int) -> Row:
    return Row(number, PROMPT, SamplingParams(temperature=1.0), seed=11)


def states(run: Runner, r: Row) -> list[np.ndarray]:
    return [a[:, r.row + 1].copy() for a in run.forward._pool.state.arrays.values()]


@pytest.mark.parametrize("plain", [False, True], ids=["native", "reference"])
@pytest.mark.parametrize("family", ["hybrid", "gemma3", "mistral"])
def test_a_guess_refused_at_any_place_leaves_the_state_of_a_row_that_never_guessed(family, plain, tmp_path) -> None:
    run = runner(family, tmp_path, plain)
    maker, straight = Planner(run, np.random.default_rng(1)), row(0)
    right = maker.generate(straight, 40)
    for refused in range(GUESSES + 1):                              # GUESSES: none is refused
        guessed = row(1 + refused)
        maker.generate(guessed, 4)
        guess = right[4 : 4 + GUESSES]
        guess[refused:] = [(t + 1) % END for t in guess[refused:]]
        maker.step([(guessed, 1)], {guessed.row: guess})
        assert guessed.tokens[len(PROMPT) :] == right[: 4 + refused + 1]
        beside = row(9)
        maker.generate(beside, 4 + refused + 1)
        for a, b in zip(states(run, guessed), states(run, beside), strict=True):
            assert np.abs(b).max() > 0.1 and (np.allclose(a, b, rtol=1e-4, atol=1e-5) if plain else a.tobytes() == b.tobytes())
        assert maker.generate(guessed, 20) == right[:20]
