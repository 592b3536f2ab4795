"""The offline class on the echo family: vLLM's names, states, files."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from headwater.core.errors import FormatError, UserInputError
from headwater.llm import LLM, SamplingParams, State


@pytest.fixture(scope="module")
def llm() -> LLM:
    return LLM("echo", seed=1)


GREEDY = SamplingParams(max_tokens=8, temperature=0.0, ignore_eos=True)


def test_prompts_may_be_text_ids_or_lists_of_both(llm: LLM) -> None:
    one = llm.generate("abc", GREEDY)[0].outputs[0].text
    assert [o.outputs[0].text for o in llm.generate(["abc", list(b"abc"), np.array(list(b"abc"))], GREEDY)] == [one] * 3
    assert llm.generate(list(b"abc"), GREEDY)[0].outputs[0].text == one


def test_a_request_output_has_the_fields_of_vllm(llm: LLM) -> None:
    out = llm.generate("hello", SamplingParams(max_tokens=3, n=2, seed=5, logprobs=2, prompt_logprobs=1, ignore_eos=True))[0]
    assert (out.prompt, out.prompt_token_ids, out.finished) == ("hello", list(b"hello"), True)
    assert [o.index for o in out.outputs] == [0, 1]
    first = out.outputs[0]
    assert first.finish_reason == "length"
    assert len(first.logprobs) == len(first.token_ids) == 3
    assert first.cumulative_logprob == pytest.approx(sum(lp[t].logprob for lp, t in zip(first.logprobs, first.token_ids, strict=True)))
    assert out.prompt_logprobs[0] is None
    assert [ord("e") in out.prompt_logprobs[1], len(out.prompt_logprobs)] == [True, 5]


def test_memory_that_is_no_whole_number_of_bytes_is_refused_in_one_line() -> None:
    with pytest.raises(UserInputError, match="kv_memory"):
        LLM("echo", kv_memory=1.5)


def test_leaving_its_block_closes_it() -> None:
    with LLM("echo") as llm:
        state = llm.state("abc")
    with pytest.raises(UserInputError, match="closed"):
        llm.generate("abc", GREEDY)
    with pytest.raises(UserInputError, match="closed"):
        state.extend("d")
    state.close()


def test_a_seeded_llm_repeats_itself() -> None:
    params = SamplingParams(max_tokens=10, temperature=1.0, ignore_eos=True)
    assert LLM("echo", seed=4).generate("x", params)[0].outputs[0] == LLM("echo", seed=4).generate("x", params)[0].outputs[0]


def test_label_probabilities_are_a_soft_max_over_the_labels(llm: LLM) -> None:
    with llm.state("Is the sky blue? Answer:") as s:
        p = s.label_probs(["y", "n", 63])
        scores = np.exp([float(x[0]) for x in s.score(["y", "n", "?"])])
    assert p.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(p, scores / scores.sum(), rtol=1e-5)


def test_a_fork_does_not_move_its_origin(llm: LLM) -> None:
    with llm.state("one two") as origin:
        before = origin.generate(GREEDY).choices[0].text
        other = llm.fork(origin).extend(" three")
        assert other.text == "one two three"
        assert origin.generate(GREEDY).choices[0].text == before
        assert other.generate(GREEDY).choices[0].text == llm.generate("one two three", GREEDY)[0].outputs[0].text
        other.close()
        assert llm.generate(origin, GREEDY)[0].outputs[0].text == before


def test_closed_states_leave_nothing_behind() -> None:
    llm = LLM("echo")
    with llm.state("some text that takes more than a block of tokens") as s:
        forks = [s.fork().extend(c) for c in "abc"]
    for f in forks:
        f.close()
    llm.generate("x", GREEDY)
    assert llm.engine.stats().kv_usage == 0.0


def test_a_saved_state_goes_on_like_the_original(llm: LLM, tmp_path) -> None:
    path = tmp_path / "state.npz"
    with llm.state("a state of more than sixteen tokens") as s:
        expected = s.generate(GREEDY).choices[0].text
        s.save(path)
    fresh = LLM("echo")
    loaded = fresh.load_state(path)
    assert isinstance(loaded, State)
    assert loaded.generate(GREEDY).choices[0].text == expected
    assert loaded.text == "a state of more than sixteen tokens"


def test_a_loaded_state_is_not_computed(llm: LLM, tmp_path) -> None:
    path = tmp_path / "state.npz"
    llm.state("a state of more than sixteen tokens").save(path)
    fresh = LLM("echo")
    seen = []
    hidden = fresh.engine.executor.runner.forward.hidden
    fresh.engine.executor.runner.forward.hidden = lambda step: (seen.append(len(step.tokens)), hidden(step))[1]
    fresh.load_state(path).generate(SamplingParams(max_tokens=1))
    assert seen == [1]


def test_a_state_of_another_identity_is_refused_with_the_reason(llm: LLM, tmp_path, monkeypatch) -> None:
    path = tmp_path / "state.npz"
    llm.state("abc").save(path)
    other = LLM("echo")
    caps = other.engine.executor.runner.forward.caps
    object.__setattr__(caps, "identity", "another kernel signature")
    with pytest.raises(UserInputError, match="another kernel signature"):
        other.load_state(path)


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"PK" + b[2:][::-1], lambda b: b""])
def test_a_damaged_state_file_is_refused_in_one_line(llm: LLM, tmp_path, damage) -> None:
    path = tmp_path / "state.npz"
    llm.state("abc").save(path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(FormatError) as e:
        llm.load_state(path)
    assert "\n" not in str(e.value)


def test_a_label_of_several_tokens_is_refused_by_name(llm: LLM) -> None:
    with llm.state("abc") as s, pytest.raises(UserInputError, match=r"labels\[1\]: 'no' is 2 tokens"):
        s.label_probs(["y", "no"])


def test_embeddings_are_unit_vectors_that_do_not_depend_on_the_batch(llm: LLM) -> None:
    together = llm.embed(["abc", "defg", "abc"])
    assert together.shape == (3, 4)
    np.testing.assert_array_equal(together[0], together[2])
    np.testing.assert_array_equal(together[1], llm.embed("defg")[0])
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1.0, rtol=1e-6)


def test_an_unknown_argument_is_one_line(llm: LLM) -> None:
    with pytest.raises(UserInputError, match="wieghts"):
        LLM("echo", wieghts="q8")
    with pytest.raises(UserInputError, match="2 for 1 prompts"):
        llm.generate("a", [GREEDY, GREEDY])
    with pytest.raises(UserInputError, match="--context"):
        LLM("echo", context=3)


def test_an_interrupt_leaves_a_clean_engine(llm: LLM) -> None:
    def interrupt(index: int, delta) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        llm.generate(["a", "b"], GREEDY, on_delta=interrupt)
    stats = llm.engine.stats()
    assert (stats.running, stats.waiting) == (0, 0)
    assert len(llm.generate("a", GREEDY)[0].outputs[0].token_ids) == 8


@pytest.mark.parametrize("draft", ["ngram", "suffix"])
def test_drafts_give_the_same_text(llm: LLM, draft: str) -> None:
    params = SamplingParams(max_tokens=60, temperature=0.7, seed=8, ignore_eos=True)
    prompts = ["abcabcabcabc", "the same the same the same"]
    guessing = LLM("echo", draft=draft)
    for _ in range(2):                                              # the second time the suffix drafter has seen it all
        assert [o.outputs[0].text for o in guessing.generate(prompts, params)] == [o.outputs[0].text for o in llm.generate(prompts, params)]


@pytest.mark.parametrize(("call", "says"), [
    (lambda s: s.score(None), "continuations: must be text or a list"), (lambda s: s.score(5), "continuations: must be text or a list"),
    (lambda s: s.label_probs(None), "labels: must be a list of texts or token ids, got None"),
    (lambda s: s.label_probs("ab"), "labels: must be a list of texts or token ids, got 'ab'"), (lambda s: s.label_probs([]), "labels: is empty"),
    (lambda s: s.label_probs(["a"], 5), "continuation: must be text or token ids"),
    (lambda s: s.label_logits(None, ["a"]), "continuations: must be a list"), (lambda s: s.label_logits(["a"], None), "labels: must be a list"),
    (lambda s: s.generate(continuation=5), "continuation: must be text or token ids"), (lambda s: s.generate(5), "params: must be SamplingParams"),
    (lambda s: s.extend(None), "extend: must be text or token ids"), (lambda s: s.save(5), "path: must be the name of a file, got int"),
])
def test_a_state_says_what_is_wrong_with_an_argument(llm: LLM, call, says) -> None:
    with llm.state("abc") as s, pytest.raises(UserInputError, match=says):
        call(s)


LONG = SamplingParams(max_tokens=3000, temperature=0.0, ignore_eos=True)


def test_closing_from_on_delta_ends_the_call_with_one_line_and_frees_the_model() -> None:
    one = LLM("echo")
    with pytest.raises(UserInputError, match="LLM: is closed"):
        one.generate(["a", "b"], LONG, on_delta=lambda index, delta: one.close())
    with pytest.raises(UserInputError, match="LLM: is closed"):
        one.generate("a", GREEDY)


def test_closing_from_another_thread_ends_the_call_with_one_line() -> None:
    one, closing = LLM("echo"), []

    def close(index, delta) -> None:
        if not closing:
            closing.append(threading.Thread(target=one.close))
            closing[0].start()
            while not one._offline._closed:                         # it waits for this call, which waits for its mark only
                time.sleep(0.001)

    with pytest.raises(UserInputError, match="LLM: is closed"):
        one.generate(["a"] * 4, LONG, on_delta=close)
    closing[0].join()


def test_a_saved_state_is_not_loaded_into_a_closed_model(tmp_path) -> None:
    one = LLM("echo")
    with one.state("abc") as s:
        s.save(tmp_path / "s")
    one.close()
    with pytest.raises(UserInputError, match="LLM: is closed"):
        one.load_state(tmp_path / "s")


def test_calls_of_several_threads_have_the_answers_that_they_would_have_alone() -> None:
    one, prompts = LLM("echo"), ["abc", "defg", "hi jk", "l"]
    params = SamplingParams(max_tokens=60, temperature=0.0, ignore_eos=True)
    with ThreadPoolExecutor(4) as pool:
        together = [a[0].outputs[0].token_ids for a in pool.map(lambda p: one.generate([p, p], params), prompts)]
    assert together == [one.generate(p, params)[0].outputs[0].token_ids for p in prompts]


def test_a_call_from_on_delta_is_refused_and_leaves_a_clean_engine(llm: LLM) -> None:
    with pytest.raises(UserInputError, match="on_delta"):
        llm.generate("a", GREEDY, on_delta=lambda index, delta: llm.generate("b", GREEDY))
    assert len(llm.generate("a", GREEDY)[0].outputs[0].token_ids) == 8


def test_a_state_may_be_closed_from_on_delta(llm: LLM) -> None:
    s = llm.state("abc")
    assert llm.generate("a", GREEDY, on_delta=lambda index, delta: s.close())[0].finished
    llm.generate("a", GREEDY)
    assert llm.engine.stats().running == 0


@pytest.mark.parametrize("seed", [-1, 1.5, "x", True])
def test_a_seed_that_is_none_is_one_line(seed) -> None:
    with pytest.raises(UserInputError, match="seed: must be an integer of at least 0"):
        LLM("echo", seed=seed)


@pytest.mark.parametrize(("call", "says"), [
    (lambda m: m.embed([]), "texts: is empty"), (lambda m: m.embed(None), "texts: must be text"),
    (lambda m: m.chat({"role": "user", "content": "x"}), "messages: must be a list"),
    (lambda m: m.generate("a", 3), "sampling_params: must be SamplingParams"),
    (lambda m: m.generate("a", {}), "sampling_params: must be SamplingParams"),
    (lambda m: m.generate("a", grammar=3), "grammar: must be a Grammar, got int"),
    (lambda m: m.generate("a", on_delta=3), "on_delta: must be a function"),
    (lambda m: m.chat([1]), r"messages\[0\]: must be a message"), (lambda m: m.chat("abc"), r"messages\[0\]: must be a message"),
    (lambda m: m.chat(5), "messages: must be a list"),
    (lambda m: m.chat([{"role": "user", "content": "x"}], tools=5), "tools: must be a list of tools"),
    (lambda m: m.fork(None), "state: must be a State of this LLM, got NoneType"),
    (lambda m: m.load_state(5), "path: must be the name of a file, got int"),
    (lambda m: m.decide("a", {"q": bool}, debias="x"), "debias: must be one of none, reverse, cyclic, got 'x'"),
    (lambda m: m.decide("a", {"q": bool}, labels=3), "labels: must be one of auto, text, got 3"),
])
def test_an_argument_of_another_type_is_one_line(llm: LLM, call, says) -> None:
    with pytest.raises(UserInputError, match=says):
        call(llm)
