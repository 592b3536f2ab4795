"""Every resident of `attend` for prompts: an answer depends on its tokens only, and exact states never meet those made under a pattern."""

from functools import partial
from pathlib import Path

import attend_answers as answers
import numpy as np
import pytest

from headwater.core.errors import UserInputError
from headwater.core.params import SamplingParams
from headwater.core.registry import build, residents
from headwater.engine.expand import GenerateRequest
from headwater.kernels.pattern import PatternSpec

pytestmark = pytest.mark.slow

SMALL = "tile=256,sinks=16,dense_layers=1"                          # small zones, so that short prompts leave something out
PATTERNS = {
    "crisp": f"crisp:alpha=1.5,block=32,least=1,local=16,{SMALL}",
    "flexprefill": f"flexprefill:gamma=0.5,block=32,least=1,local=16,{SMALL}",
    "verticalslash": f"verticalslash:vertical=32,slash=32,local=16,{SMALL}",
    "xattention": f"xattention:threshold=0.3,block=16,{SMALL}",
}
PROMPT, NEW = 790, 8                       # the fourth tile begins at 768


def prompt(seed: int, n: int = PROMPT) -> np.ndarray:
    return answers.prompt(seed, n)


drawn = partial(answers.drawn, new=NEW)


def test_every_resident_for_prompts_is_tested_here() -> None:
    assert sorted(n for n in residents("attend") if isinstance(build("attend", n).selection(), PatternSpec)) == sorted(PATTERNS)


@pytest.mark.parametrize("name", PATTERNS)
def test_prompts_leave_something_out_and_answers_repeat(models, name: str) -> None:
    llm, ids = models(PATTERNS[name]), prompt(1)
    first = drawn(llm, ids, cache_salt="a")
    assert drawn(llm, ids, cache_salt="b") == first
    assert drawn(models("dense"), ids) != first
    all_blocks, left_out, *_ = llm.engine.executor.runner.forward.pattern.stats.tolist()
    assert 0 < left_out < all_blocks


@pytest.mark.parametrize("name", PATTERNS)
def test_a_prompt_within_the_first_tile_is_dense(models, name: str) -> None:
    ids = prompt(2, 250)
    assert drawn(models(PATTERNS[name]), ids, new=20) == drawn(models("dense"), ids, new=20)


@pytest.mark.parametrize("name", PATTERNS)
def test_cold_and_warm_answers_are_the_same_also_for_the_next_turn(models, name: str) -> None:
    answers.assert_warm_is_cold(models(PATTERNS[name]), prompt(3), NEW)


@pytest.mark.parametrize("name", PATTERNS)
def test_what_was_generated_densely_never_serves_a_prompt(models, name: str) -> None:
    answers.assert_generated_serves_nobody(models(PATTERNS[name]), prompt(5))


@pytest.mark.parametrize("name", PATTERNS)
def test_forked_anywhere_is_linear(models, name: str) -> None:
    answers.assert_forked_is_linear(models(PATTERNS[name]), prompt(6), (100, 505, 770), NEW)


@pytest.mark.parametrize("name", PATTERNS)
def test_chunked_is_whole(models, name: str) -> None:
    assert drawn(models(PATTERNS[name], step_tokens=61), prompt(7)) == drawn(models(PATTERNS[name]), prompt(7), cache_salt="whole")


@pytest.mark.parametrize("name", PATTERNS)
def test_preempted_and_crowded_is_undisturbed(models, smollm2: Path, name: str) -> None:
    answers.assert_crowded_is_undisturbed(models(PATTERNS[name]), smollm2, PATTERNS[name], (530, 550), 72)


def test_guessed_tokens_keep_the_bits(models) -> None:
    ids = np.tile(prompt(9, 60), 14)[:PROMPT]
    assert drawn(models(PATTERNS["crisp"], draft="ngram"), ids, new=40) == drawn(models(PATTERNS["crisp"]), ids, new=40)


@pytest.mark.parametrize("name", PATTERNS)
def test_a_saved_state_goes_on_under_its_own_policy(models, name: str, tmp_path: Path) -> None:
    llm, ids = models(PATTERNS[name]), prompt(10)
    with llm.state(ids[:700]) as state:
        state.save(tmp_path / "trunk.state")
    other = models(PATTERNS[name], kv_memory="64M")                 # nothing is cached there
    with other.load_state(tmp_path / "trunk.state") as loaded:
        assert drawn(other, ids, parent=loaded.request_id, parent_pos=700) == drawn(llm, ids, cache_salt="computed")


def test_a_prompt_judged_as_a_whole_is_shared_with_nobody(models) -> None:
    llm, ids = models(PATTERNS["crisp"] + ",whole_prompt=true"), prompt(12)
    first = drawn(llm, ids, cache_salt="a")
    assert drawn(llm, ids, cache_salt="a") == first != drawn(models(PATTERNS["crisp"]), ids)
    params = SamplingParams(max_tokens=4, n=2, seed=3, temperature=0.9, logprobs=0, ignore_eos=True)
    again = llm._offline.run([GenerateRequest(ids, params, cache_salt="a")])[0]
    assert again.usage.cached == 0 and [len(c.logprobs) for c in again.choices] == [4, 4]
    assert llm.engine.scheduler.check(full=True) == []


def test_states_of_a_pattern_and_of_dense_are_strangers(models, tmp_path: Path) -> None:
    with models("dense").state(prompt(11, 40)) as state:
        state.save(tmp_path / "trunk.state")
    with pytest.raises(UserInputError, match="identity"):
        models(PATTERNS["crisp"]).load_state(tmp_path / "trunk.state")


def test_samples_are_counted_in_the_memory_plan(models) -> None:
    dense, crisp = (models(a).engine.executor.caps().spec.bytes_per_token for a in ("dense", PATTERNS["crisp"]))
    samples = models(PATTERNS["crisp"]).engine.executor.runner.forward.pattern.samples
    assert crisp - dense == pytest.approx(samples.nbytes / samples.shape[1] / 16, abs=1)


@pytest.mark.parametrize("spec", [
    "crisp:tile=100", "crisp:block=24", "crisp:alpha=-1", "crisp:gamma=2", "crisp:queries=0", "crisp:route=sideways", "crisp:tau=nan",
    "flexprefill:gamma=-1", "verticalslash:vertical=-5", "xattention:queries=8", "xattention:local=16", "xattention:threshold=3",
])
def test_a_bad_parameter_is_one_line(spec: str) -> None:
    with pytest.raises(UserInputError, match="--attend"):
        build("attend", spec).selection()


@pytest.mark.parametrize("spec", ["crisp:alpha=0,gamma=1", "flexprefill:gamma=1", "xattention:threshold=1"])
def test_at_full_budget_the_dense_kernel_is_asked_for(spec: str) -> None:
    assert build("attend", spec).selection() is None
