"""Every resident of `attend` for prompts: an answer depends on its tokens only, and exact states never meet those made under a pattern."""

from pathlib import Path

import numpy as np
import pytest

from headwater.core.errors import UserInputError
from headwater.core.params import SamplingParams
from headwater.core.registry import build, residents
from headwater.engine.expand import GenerateRequest
from headwater.kernels import native
from headwater.kernels.pattern import PatternSpec
from headwater.llm import LLM

pytestmark = pytest.mark.slow

SMALL = "tile=256,sinks=16,dense_layers=1"                          # small zones, so that short prompts leave something out
PATTERNS = {
    "crisp": f"crisp:alpha=1.5,block=32,least=1,local=16,{SMALL}",
    "flexprefill": f"flexprefill:gamma=0.5,block=32,least=1,local=16,{SMALL}",
    "verticalslash": f"verticalslash:vertical=32,slash=32,local=16,{SMALL}",
    "xattention": f"xattention:threshold=0.3,block=16,{SMALL}",
}
PROMPT, NEW = 790, 8                       # the fourth tile begins at 768


@pytest.fixture(scope="module")
def models(smollm2: Path):
    """attend spec -> LLM, made once."""
    if not native.available():
        pytest.skip("the numpy reference is too slow for this")
    made: dict[tuple, LLM] = {}

    def get(attend: str, **fields) -> LLM:
        key = (attend, *fields.items())
        if key not in made:
            made[key] = LLM(smollm2, attend=attend, context=1024, **({"kv_memory": "96M"} | fields))
        return made[key]

    return get


def prompt(seed: int, n: int = PROMPT) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 49152, n).astype(np.int32)


def drawn(llm: LLM, ids, seed: int = 0, new: int = NEW, **more) -> list[tuple[int, float]]:
    """Tokens and their log-probabilities: equal only where the logits are the same bits."""
    params = SamplingParams(max_tokens=new, temperature=0.9, seed=seed, logprobs=0, ignore_eos=True)
    return [(e.token, e.logprob) for e in llm._offline.run([GenerateRequest(ids, params, **more)])[0].choices[0].logprobs]


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
    llm, ids = models(PATTERNS[name]), prompt(3)
    turn = drawn(llm, ids, new=40, cache_salt="warm")
    assert drawn(llm, ids, new=40, cache_salt="warm") == turn
    following = np.concatenate([ids, [t for t, _ in turn], prompt(4, 9)]).astype(np.int32)
    assert drawn(llm, following, cache_salt="warm") == drawn(llm, following, cache_salt="cold")


@pytest.mark.parametrize("name", PATTERNS)
def test_what_was_generated_densely_never_serves_a_prompt(models, name: str) -> None:
    llm, ids = models(PATTERNS[name]), prompt(5)
    turn = drawn(llm, ids, new=40, cache_salt="own")
    following = np.concatenate([ids, [t for t, _ in turn], [1, 2, 3]]).astype(np.int32)
    answer = llm._offline.run([GenerateRequest(following, SamplingParams(max_tokens=1), cache_salt="own")])[0]
    assert PROMPT - 16 <= answer.usage.cached <= PROMPT


@pytest.mark.parametrize("name", PATTERNS)
def test_forked_anywhere_is_linear(models, name: str) -> None:
    llm, ids = models(PATTERNS[name]), prompt(6)
    linear = drawn(llm, ids, cache_salt="linear")
    for cut in (100, 505, 770):
        trunk = np.concatenate([ids[:cut], prompt(cut, 30)])
        held = llm._offline.hold(trunk)
        assert drawn(llm, ids, parent=held, parent_pos=cut) == linear, cut
        llm._offline.release(held)


@pytest.mark.parametrize("name", PATTERNS)
def test_chunked_is_whole(models, name: str) -> None:
    assert drawn(models(PATTERNS[name], step_tokens=61), prompt(7)) == drawn(models(PATTERNS[name]), prompt(7), cache_salt="whole")


@pytest.mark.parametrize("name", PATTERNS)
def test_preempted_and_crowded_is_undisturbed(models, smollm2: Path, name: str) -> None:
    prompts = [prompt(20 + i, int(n)) for i, n in enumerate(np.random.default_rng(8).integers(530, 550, 3))]
    alone = [drawn(models(PATTERNS[name]), p, i, 60, cache_salt="alone") for i, p in enumerate(prompts)]
    per_token = models(PATTERNS[name]).engine.executor.caps().spec.bytes_per_token
    small = LLM(smollm2, attend=PATTERNS[name], kv_memory=72 * 16 * per_token, context=640)
    params = [SamplingParams(max_tokens=60, temperature=0.9, seed=i, logprobs=0, ignore_eos=True) for i in range(3)]
    answers = small._offline.run([GenerateRequest(p, s) for p, s in zip(prompts, params, strict=True)])
    assert [[(e.token, e.logprob) for e in a.choices[0].logprobs] for a in answers] == alone
    assert small.engine.scheduler.counters.preempted > 0
    assert small.engine.scheduler.check(full=True) == []


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
