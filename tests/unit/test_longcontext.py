"""The long-context benchmark: documents hold what is asked of them, budgets are met, a policy at full budget diverges by nothing."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.bench.haystack import make_document
from headwater.bench.longcontext import Bench, _scanned, compare, find_text, grid, items_for, log_softmax, matched, policies_of, row
from headwater.bench.longproc import TASKS, make_procedure
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
        elif name == "tree":
            nodes = 2 * _scanned(clusters, end // segment, segment)
            vectors = 2 * (n - end) + nodes + 32 * (1 + spec.retrieve * clusters)
        elif name == "quest":
            vectors = 2 * (n - end) + 2 * clusters + 32 * (1 + spec.retrieve * clusters)
        else:
            vectors = 2 * (n - end) + 8 + clusters * (1 + spec.estimate) + 32 * spec.retrieve * clusters
        assert vectors / (2 * n) == pytest.approx(budget, rel=0.01), name


def test_the_grid_names_every_method_at_every_budget_that_it_can_meet() -> None:
    names = grid(7500, (0.3,))
    assert set(names) == {f"{m} 0.30" for m in ("window", "wave", "wave+", "quest", "tree", "wave/256", "wave+/256", "quest/256", "tree/256")}


def test_policies_that_read_everything_are_left_out() -> None:
    assert list(policies_of(["dense", "wave:retrieve=1", "blasst", "wave", "window:window=99"])) == ["wave", "window:window=99"]


def test_log_probabilities_sum_to_one() -> None:
    logits = np.random.default_rng(0).normal(size=(3, 50)).astype(np.float32) * 30
    assert np.exp(log_softmax(logits)).sum(1) == pytest.approx(1)


def test_a_missing_text_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserInputError, match="--text"):
        find_text(tmp_path / "none.txt")


@pytest.mark.parametrize("items", [1, 4, 8])
def test_every_task_has_as_many_items_as_asked(items: int) -> None:
    document = make_document(TEXT, encode, 9000, 3, items=items)
    tasks = [q.task for q in document.questions]
    assert {task: tasks.count(task) for task in tasks} == dict.fromkeys(
        ("multi-key", "single needle", "multi-value", "variable tracking", "common words", "question answering"), items)


@pytest.mark.parametrize(("length", "least"), [(2048, 20), (8192, 20), (16_384, 5), (32_768, 1)])
def test_there_are_as_many_items_as_a_length_allows(length: int, least: int) -> None:
    documents, items = items_for(length)
    assert documents * items == least


def test_a_method_that_is_clearly_worse_is_an_exception_and_noise_is_none() -> None:
    rng = np.random.default_rng(0)
    base = rng.gamma(1.0, 0.1, 400)

    def entry(policy: str, values: np.ndarray) -> dict:
        return {"length": 2048, "policy": policy, "values": values.tolist(), "kl": float(values.mean())}

    rows = [entry("quest 0.20", base), entry("wave 0.20", base + rng.normal(0, 0.05, 400)),
            entry("quest/256 0.50", base), entry("wave/256 0.50", base + 0.1), entry("wave+ 0.20", base + 1), entry("window 0.20", base)]
    good, points, exceptions = compare(rows)
    assert (good, points) == (1, 2) and "wave/256 0.50" in exceptions[0]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("seed", range(5))
def test_a_procedure_fits_its_length_and_its_steps_follow_from_it(task: str, seed: int) -> None:
    document = make_procedure(task, encode, 6000, seed)
    text = bytes(document.tokens.tolist()).decode()
    assert 5000 < len(document.tokens) <= 6000 and document.questions
    for q in document.questions:
        told = q.text + q.answer
        if task == "path":
            assert f"{told.splitlines()[-1]}.\n" in text
        elif task == "countdown":
            left, _, result = told.splitlines()[-1].partition(" = ")
            a, sign, b = left.split()
            assert int(result) == {"+": int(a) + int(b), "-": int(a) - int(b), "*": int(a) * int(b)}[sign]
        else:
            person, thing = q.text.splitlines()[-1].split(" ")[0], q.text.splitlines()[-1].split("the ")[1].split(" ")[0]
            before = text[: text.index(f"{person} leaves the room.")]
            seen = [line for line in before.splitlines() if f"moves the {thing} to" in line or f"The {thing} is in" in line]
            assert seen[-1].endswith(f"the{q.answer}.")


def test_a_procedure_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="no room"):
        make_procedure("path", encode, 100, 0)


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
    scores = bench.run(1400, 1, some | full, items=1, steps=1, recall=True)
    rows = {s.policy: row(s, scores[0], 1400) for s in scores}
    assert rows["dense"]["kl"] == 0 and rows["dense"]["bytes"] == 1
    assert rows["full"]["kl"] < 2e-3           # every cluster is read; another order of sums flips roundings of the 8-bit activations
    assert 0 < rows["wave:segment=256,retrieve=0.2"]["kl"] < rows["window:window=200"]["kl"]
    assert rows["window:window=200"]["bytes"] == pytest.approx(204 / 1430, rel=0.03)
    assert rows["full"]["recall"] == 1 and rows["full"]["mass"] == pytest.approx(1, abs=1e-5)
    wave = rows["wave:segment=256,retrieve=0.2"]
    assert 0 < rows["window:window=200"]["mass"] < wave["mass"] + wave["estimated_mass"] < 1
    dense, none, some_left = bench.prefills(1400, 1, (1e-30, 0.5))
    assert dense["values"] == none["values"] and none["left_out"] == [0] and 0 < some_left["left_out"][0] < 1
    assert 0.2 < rows["wave:segment=256,retrieve=0.2"]["bytes"] < 0.6
