"""Decisions without a model: tries against brute force, formulas against published numbers, plans that do not depend on the company."""

import enum
import itertools
from typing import Annotated, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from headwater.core.errors import ContextLengthError, UserInputError
from headwater.decisions import calibration, decider, formulas, wording
from headwater.decisions.annotations import Choice, Noul, Score, questions_of
from headwater.decisions.decider import ReadValue
from headwater.decisions.trie import OptionTrie
from headwater.decisions.types import DecisionRequest, Option, Question, as_text
from headwater.serve.decide.systemone import check_limits

VOCABULARY = 300


class Bytes:
    """Text side in which every byte is a token; 0 starts a message and 1 ends an answer."""

    def prompt_ids(self, first: str, second: str, answer_prefix: str) -> np.ndarray:
        return np.array([0, *first.encode(), 0, *second.encode(), 0, *answer_prefix.encode()], np.int32)

    def label_ids(self, text: str) -> tuple[int, ...]:
        return tuple(text.encode())

    def terminator(self) -> tuple[int, ...]:
        return (1,)


def model_logits(ids: np.ndarray) -> np.ndarray:
    """A deterministic 'model': float32 logits after a sequence of ids."""
    rng = np.random.default_rng([int(i) for i in ids[-40:]] + [len(ids)])
    return rng.normal(0, 3, VOCABULARY).astype(np.float32)


def lse(logits: np.ndarray) -> float:
    x = logits.astype(np.float64)
    return float(x.max() + np.log(np.exp(x - x.max()).sum()))


def answer_all(request: DecisionRequest, context: int = 100_000) -> list[np.ndarray]:
    work = decider.plan(request, Bytes(), context)
    values = []
    for item in work.items:
        logits = model_logits(item.ids)
        values.append(ReadValue(logits[item.labels], lse(logits) if item.lse else None))
    return [a.probabilities for a in decider.finish(work, values).answers]


def choice(name: str, texts: list[str]) -> Question:
    return Question(name, "choice", f"pick for {name}", tuple(Option(t, t) for t in texts), f"questions.{name}")


def brute_force(prompt: np.ndarray, labels: list[tuple[int, ...]]) -> np.ndarray:
    """Joint probability of every label sequence in float64, one full soft-max per token, then renormalised over the labels."""
    logs = []
    for label in labels:
        ids, total = prompt, 0.0
        for token in label:
            logits = model_logits(ids)
            total += float(logits[token]) - lse(logits)
            ids = np.append(ids, np.int32(token))
        logs.append(total)
    p = np.exp(np.array(logs) - max(logs))
    return p / p.sum()


@given(st.sets(st.text("ab1", min_size=1, max_size=4), min_size=2, max_size=12))
def test_option_texts_get_their_joint_probability_even_where_one_begins_another(texts: set[str]) -> None:
    options = sorted(texts)
    question = choice("q", options)
    got = answer_all(DecisionRequest("state", [question], labels="text"))[0]
    ask = wording.ask(question, range(len(options)), True)
    prompt = Bytes().prompt_ids(wording.state_message("state"), ask.text, "")
    np.testing.assert_allclose(got, brute_force(prompt, [(*t.encode(), 1) for t in options]), rtol=1e-9)


def test_a_thousand_options_are_scored_by_prefix_free_codes() -> None:
    question = choice("q", [f"option {i}" for i in range(1000)])
    got = answer_all(DecisionRequest("state", [question]))[0]
    ask = wording.ask(question, range(1000), False)
    assert ask.labels[0] == "1]" and ask.labels[9] == "10]"
    prompt = Bytes().prompt_ids(wording.state_message("state"), ask.text, ask.answer_prefix)
    some = [0, 9, 99, 999]
    want = brute_force(prompt, [tuple(ask.labels[i].encode()) for i in range(1000)])
    np.testing.assert_allclose(got[some], want[some], rtol=1e-9)
    assert abs(got.sum() - 1) < 1e-12


@pytest.mark.parametrize(("labels", "message"), [
    ([(1, 2), (1, 2)], "options 1 and 2 are the same tokens"),
    ([(1,), (1, 2)], "option 1 is the beginning of another"),
    ([()], "option 1 has no tokens"),
])
def test_labels_that_cannot_be_told_apart_are_refused_by_name(labels: list[tuple[int, ...]], message: str) -> None:
    with pytest.raises(UserInputError, match=message):
        OptionTrie(labels, "questions.q")


def test_an_answer_does_not_depend_on_the_other_questions_or_their_order() -> None:
    questions = [choice(f"q{i}", [f"x{i}", f"y{i}", f"z{i}"]) for i in range(6)]
    alone = [answer_all(DecisionRequest("s", [q]))[0] for q in questions]
    for order in itertools.islice(itertools.permutations(range(6)), 0, 720, 97):
        together = answer_all(DecisionRequest("s", [questions[i] for i in order]))
        for place, i in enumerate(order):
            assert together[place].tobytes() == alone[i].tobytes()


def test_the_shared_state_does_not_depend_on_the_questions() -> None:
    lengths = {
        len(decider.plan(DecisionRequest("the state", [Question("q", "predicate", text, (Option(True, "Yes"), Option(False, "No")))]), Bytes(), 999)
            .state_ids)
        for text in ("a", "b", "Is this", "Answer", "")
    }
    assert len(lengths) == 1


def test_debiasing_averages_over_orders_and_keeps_the_options_places() -> None:
    question = choice("q", ["red", "green", "blue"])
    work = decider.plan(DecisionRequest("s", [question], debias="cyclic"), Bytes(), 9999)
    assert [p.order for p in work.passes] == [(0, 1, 2), (1, 2, 0), (2, 0, 1)]
    # a model that always likes the first label shown most: its bias cancels out
    values = [ReadValue(np.array([3.0, 1.0, 0.0], np.float32), None) for _ in work.items]
    np.testing.assert_allclose(decider.finish(work, values).answers[0].probabilities, [1 / 3] * 3)


def test_the_confidence_formulas_give_the_published_numbers() -> None:
    # the worked example of the wire format: 0.80/0.18/0.02 and 0/0.02/0.81/0.17
    assert formulas.choice_confidence(np.array([0.80, 0.18, 0.02])) == pytest.approx(0.70)
    assert formulas.score_confidence(np.array([0.0, 0.02, 0.81, 0.17])) == pytest.approx(0.81)
    assert formulas.choice_confidence(np.array([1.0])) == formulas.score_confidence(np.array([1.0])) == 1.0


def test_the_noise_floor_of_the_calibration_error_matches_the_simulated_table() -> None:
    # binary predictor, uniform p: 0.070 at n = 200 and 0.031 at 1,000 (decision dossier, section 6)
    p = np.random.default_rng(3).random(1000)
    top = np.maximum(p, 1 - p)
    assert formulas.ece_floor(top[:200]) == pytest.approx(0.070, abs=0.02)
    assert formulas.ece_floor(top) == pytest.approx(0.031, abs=0.01)


def test_fitted_temperatures_undo_overconfidence() -> None:
    rng = np.random.default_rng(0)
    samples = []
    for _ in range(4000):
        z = rng.normal(0, 1, 4)
        truth = int(rng.choice(4, p=formulas.softmax(z)))
        samples.append(calibration.Sample("choice:4", z * 3.0, truth))       # three times too sure
    fitted = calibration.fit(samples)
    assert fitted.values["choice:4"] == pytest.approx(3.0, rel=0.15)
    assert calibration.report(samples, fitted)["ece"] < calibration.report(samples, calibration.Temperatures())["ece"] / 3


@pytest.mark.parametrize(("build", "message"), [
    (lambda: DecisionRequest("s", []), "at least one question"),
    (lambda: DecisionRequest("s", [choice("a", ["x", "y"]), choice("a", ["x", "y"])]), "'a' is there twice"),
    (lambda: DecisionRequest("s", [choice("a", ["x", "y"])], temperature=float("nan")), "temperature"),
    (lambda: choice("a", []), "at least one option"),
    (lambda: choice("a", [str(i) for i in range(70_000)]), "70,000 options"),
    (lambda: choice("a", ["x", "x"]), "option 'x' is there twice"),
    (lambda: decider.plan(DecisionRequest("s" * 500, [choice("a", ["x", "y"])]), Bytes(), 100), "the context holds 100"),
    (lambda: DecisionRequest("s", [choice("a", ["x", "y"])], wording=7) and wording.state_message("s", 7), "prompt_format_version: 7"),
    (lambda: as_text({"a": float("nan")}, "state"), "state"),
])
def test_bad_input_is_refused_in_one_line_that_names_the_field(build, message: str) -> None:
    with pytest.raises((UserInputError, ContextLengthError), match=message) as e:
        build()
    assert "\n" not in str(e.value)


@pytest.mark.parametrize(("state", "questions", "message"), [
    (32_600, [1], None),
    (32_600, [1, 400], "questions.q1: state and question are"),
    (30_000, [1500] * 25, "state and questions are"),
])
def test_the_dialects_token_limits_hold_for_the_request_and_for_its_longest_question(state: int, questions: list[int], message: str | None) -> None:
    asked = [Question(f"q{i}", "predicate", "x" * n, (Option(True, "Yes"), Option(False, "No")), f"questions.q{i}") for i, n in enumerate(questions)]
    work = decider.plan(DecisionRequest("s" * state, asked), Bytes(), 10**6)
    if message is None:
        check_limits(work)
    else:
        with pytest.raises(ContextLengthError, match=message):
            check_limits(work)


def test_a_deeply_nested_state_is_refused() -> None:
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(UserInputError, match="nested more than"):
        as_text(deep, "state")


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Form(BaseModel):
    urgent: bool = Field(description="someone must act today")
    color: Color
    size: Literal["small", "large"]
    risk: Annotated[float, Score(["none", "some", "high"])]


def test_annotated_classes_become_questions_and_answers_become_an_instance() -> None:
    questions = questions_of(Form)
    assert [(q.name, q.kind, len(q.options)) for q in questions] == [
        ("urgent", "predicate", 2), ("color", "choice", 2), ("size", "choice", 2), ("risk", "score", 3),
    ]
    assert questions[0].instructions == "someone must act today"
    work = decider.plan(DecisionRequest("s", questions), Bytes(), 9999)
    values = [ReadValue(np.linspace(1, 0, len(i.labels)).astype(np.float32), None) for i in work.items]
    form = decider.finish(work, values).filled(Form)
    assert form.color is Color.RED and form.size == "small" and isinstance(form.risk, float) and isinstance(form.urgent, bool)


def test_questions_may_be_statements_lists_and_specs() -> None:
    got = questions_of({"a": "it rains", "b": ["x", "y"], "c": Choice({"p": "first", "q": None}), "d": Noul("sure", true="yes!"), "e": bool})
    assert [q.kind for q in got] == ["predicate", "choice", "choice", "predicate", "predicate"]
    assert got[2].options[0].description == "first"
