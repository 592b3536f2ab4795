"""The long-context benchmark: documents hold what is asked of them, budgets are met, a policy at full budget diverges by nothing."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.bench.haystack import make_document
from headwater.bench.longcontext import Bench, find_text, grid, log_softmax, matched, policies_of, row
from headwater.core.errors import UserInputError
from headwater.kernels import native

TEXT = "\n".join(f"Line {i} of a play in which nobody says anything of note, though {i % 7} of them try to." for i in range(4000))


def encode(text: str) -> list[int]:
    return list(text.encode())


@given(st.integers(0, 2**32), st.integers(3000, 9000))
@settings(max_examples=20, deadline=None)
def test_a_document_has_its_length_and_every_answer_in_it(seed: int, length: int) -> None:
    document = make_document(TEXT, encode, length, seed)
    text = bytes(document.tokens.tolist()).decode()
    assert len(document.tokens) == length and len(document.following) == 64
    for q in document.questions:
        assert q.answer.strip() in text, q


def test_chains_and_lists_keep_their_order() -> None:
    for seed in range(10):
        document = make_document(TEXT, encode, 5000, seed)
        text = bytes(document.tokens.tolist()).decode()
        values = [q.answer.strip() for q in document.questions if q.task == "multi-value"]
        places = [text.index(f"is: {v}.") for v in values]
        assert places == sorted(places)
        chain = next(q for q in document.questions if q.task == "variable tracking")
        end = chain.text.split("VAR ")[1].split(" ")[0]
        assert text.index(f"= {chain.answer.strip()}.") < text.index(f"VAR {end} = VAR")


def test_a_document_too_short_for_its_plants_is_refused() -> None:
    with pytest.raises(ValueError, match="no room"):
        make_document(TEXT, encode, 900, 0)


@pytest.mark.parametrize("length", [2048, 7500, 30_000])
@pytest.mark.parametrize("budget", [0.2, 0.3, 0.5])
@pytest.mark.parametrize("segment", [256, 1024])
def test_matched_methods_read_the_budget(length: int, budget: float, segment: int) -> None:
    n = length + 17
    for name, spec in matched(length, budget, segment=segment).items():
        end = spec.indexed_end(n - 1)
        clusters = end // 16
        if name == "window":
            vectors = 2.0 * (spec.sinks + spec.local)
        elif name == "quest":
            vectors = 2 * (n - end) + 2 * clusters + 32 * (1 + spec.retrieve * clusters)
        else:
            vectors = 2 * (n - end) + 8 + clusters * (1 + spec.estimate) + 32 * spec.retrieve * clusters
        assert vectors / (2 * n) == pytest.approx(budget, rel=0.01), name


def test_the_grid_names_every_method_at_every_budget_that_it_can_meet() -> None:
    names = grid(7500, (0.3,))
    assert set(names) == {f"{m} 0.30" for m in ("window", "wave", "wave+", "quest", "wave/256", "wave+/256", "quest/256")}


def test_policies_that_read_everything_are_left_out() -> None:
    assert list(policies_of(["dense", "wave:retrieve=1", "wave", "window:window=99"])) == ["wave", "window:window=99"]


def test_log_probabilities_sum_to_one() -> None:
    logits = np.random.default_rng(0).normal(size=(3, 50)).astype(np.float32) * 30
    assert np.exp(log_softmax(logits)).sum(1) == pytest.approx(1)


def test_a_missing_text_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserInputError, match="--text"):
        find_text(tmp_path / "none.txt")


@pytest.mark.slow
def test_scores_on_a_real_model(smollm2: Path) -> None:
    if not native.available():
        pytest.skip("the numpy reference is too slow for this")
    from dataclasses import replace

    from headwater.engine.build import EngineSpec, load_text
    from headwater.model.load.loader import load_model

    bench = Bench(load_model(smollm2), load_text(EngineSpec(str(smollm2))).tokenizer, TEXT)
    some = policies_of(["window:window=200", "wave:segment=256,retrieve=0.2"])
    full = {"full": replace(next(iter(policies_of(["wave:segment=256"]).values())), retrieve=1.0, estimate=0.0, force=True)}
    scores = bench.run(1300, 1, some | full, questions=2, steps=1)
    rows = {s.policy: row(s, scores[0], 1300) for s in scores}
    assert rows["dense"]["kl"] == 0 and rows["dense"]["bytes"] == 1
    assert rows["full"]["kl"] < 2e-3           # every cluster is read; another order of sums flips roundings of the 8-bit activations
    assert 0 < rows["wave:segment=256,retrieve=0.2"]["kl"] < rows["window:window=200"]["kl"]
    assert rows["window:window=200"]["bytes"] == pytest.approx(204 / 1330, rel=0.03)
    assert 0.2 < rows["wave:segment=256,retrieve=0.2"]["bytes"] < 0.6
