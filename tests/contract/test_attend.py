"""Every lossy resident of the room `attend`: an answer depends on its tokens only, and what it wrote never serves anybody else."""

from functools import partial
from pathlib import Path

import attend_answers as answers
import numpy as np
import pytest

from headwater.core.errors import UserInputError
from headwater.core.registry import build, residents
from headwater.kernels.pattern import PatternSpec

pytestmark = pytest.mark.slow

SMALL = {                                  # small zones, so that short prompts select
    "window": "window:sinks=4,window=48",
    "quest": "quest:retrieve=0.1,local=16,segment=256,dense_layers=1",
    "wave": "wave:retrieve=0.05,estimate=0.3,local=16,segment=256,iterations=3",
    "tree": "tree:retrieve=0.1,beam=2,fanout=2,local=16,segment=256",
}
EVERYWHERE = {                             # prompts too: their keys and values are shared under the policy's name only
    "blasst": "blasst:threshold=0.2", "dualchunk": "dualchunk:trained=300,chunk=256", "stream": "stream:window=200",
}
ALL = SMALL | EVERYWHERE
FULL = {"window": "window:window=4096", "quest": "quest:retrieve=1,segment=256,local=16", "wave": "wave:retrieve=1,segment=256,local=16",
        "tree": "tree:retrieve=1,segment=256,local=16"}
PROMPT, NEW = 534, 12                      # the second segment is complete at 512, and selected from 527 on


def prompt(seed: int, n: int = PROMPT) -> np.ndarray:
    return answers.prompt(seed, n)


drawn = partial(answers.drawn, new=NEW)


def test_every_lossy_resident_is_tested_here() -> None:
    for_prompts = {n for n in residents("attend") if isinstance(build("attend", n).selection(), PatternSpec)}   # test_prefill_patterns.py
    assert sorted(set(residents("attend")) - for_prompts) == sorted([*ALL, "dense"])


@pytest.mark.parametrize("name", SMALL)
def test_generated_tokens_select_and_answers_repeat(models, name: str) -> None:
    ids = prompt(1)
    first = drawn(models(SMALL[name]), ids, cache_salt="a")
    assert drawn(models(SMALL[name]), ids, cache_salt="b") == first
    dense = drawn(models("dense"), ids)
    assert first[0] == dense[0] and first != dense                  # the prompt is read whole, what follows is not


@pytest.mark.parametrize("name", FULL)
def test_at_full_budget_answers_are_the_dense_ones(models, name: str) -> None:
    assert drawn(models(FULL[name]), prompt(2)) == drawn(models("dense"), prompt(2))


@pytest.mark.parametrize("name", ALL)
def test_cold_and_warm_answers_are_the_same_also_for_the_next_turn(models, name: str) -> None:
    answers.assert_warm_is_cold(models(ALL[name]), prompt(3), NEW)


@pytest.mark.parametrize("name", SMALL)
def test_what_a_selective_query_wrote_serves_nobody(models, name: str) -> None:
    answers.assert_generated_serves_nobody(models(SMALL[name]), prompt(5))


@pytest.mark.parametrize("name", ALL)
def test_forked_anywhere_is_linear(models, name: str) -> None:
    answers.assert_forked_is_linear(models(ALL[name]), prompt(6), (100, 256, 511, 513, 530), NEW)


@pytest.mark.parametrize("name", ALL)
def test_chunked_is_whole(models, name: str) -> None:
    assert drawn(models(ALL[name], step_tokens=61), prompt(7)) == drawn(models(ALL[name]), prompt(7), cache_salt="whole")


@pytest.mark.parametrize("name", ALL)
def test_preempted_and_crowded_is_undisturbed(models, smollm2: Path, name: str) -> None:
    answers.assert_crowded_is_undisturbed(models(ALL[name]), smollm2, ALL[name], (520, 545), 71)


@pytest.mark.parametrize("name", ALL)
def test_guessed_tokens_keep_the_bits(models, name: str) -> None:
    ids = np.tile(prompt(9, 60), 9)[:PROMPT]
    assert drawn(models(ALL[name], draft="ngram"), ids, new=40) == drawn(models(ALL[name]), ids, new=40)


@pytest.mark.parametrize("name", SMALL)
def test_a_state_saved_by_the_dense_engine_goes_on_under_a_policy(models, name: str, tmp_path: Path) -> None:
    ids = prompt(10)
    with models("dense").state(ids) as state:
        state.save(tmp_path / "trunk.state")
    llm = models(SMALL[name])
    with llm.load_state(tmp_path / "trunk.state") as loaded:
        assert drawn(llm, ids, parent=loaded.request_id, parent_pos=len(loaded)) == drawn(llm, ids, cache_salt="computed")


@pytest.mark.parametrize("name", EVERYWHERE)
def test_states_of_a_policy_for_prompts_and_of_dense_are_strangers(models, name: str, tmp_path: Path) -> None:
    with models("dense").state(prompt(11, 40)) as state:
        state.save(tmp_path / "trunk.state")
    with pytest.raises(UserInputError, match="identity"):
        models(EVERYWHERE[name]).load_state(tmp_path / "trunk.state")
    assert drawn(models(EVERYWHERE[name]), prompt(11)) != drawn(models("dense"), prompt(11))


def test_the_index_is_counted_in_the_memory_plan(models) -> None:
    dense, wave = (models(a).engine.executor.caps().spec.bytes_per_token for a in ("dense", SMALL["wave"]))
    index = models(SMALL["wave"]).engine.executor.runner.forward.index.index
    assert wave - dense == pytest.approx(index.nbytes / index.shape[1] / 256, abs=1)


@pytest.mark.parametrize("spec", [
    "wave:retrieve=2", "wave:segment=100", "quest:sinks=4000", "window:window=0", "wave:centroid=3", "nonsense", "tree:fanout=3", "tree:score=x",
    "dualchunk:chunk=8192", "dualchunk:chunk=100", "stream:window=0",
])
def test_a_bad_parameter_is_one_line(spec: str) -> None:
    with pytest.raises(UserInputError, match="--attend"):
        build("attend", spec).selection()
