"""The one internal form of all decision dialects: a state, questions with closed answer sets, one probability per allowed answer."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from headwater.core.errors import UserInputError

Kind = Literal["predicate", "choice", "score"]
Debias = Literal["none", "reverse", "cyclic"]
Labels = Literal["auto", "text"]

MAX_OPTIONS = 4096
MAX_DEPTH = 64                    # nesting of JSON states and instructions


@dataclass(frozen=True, slots=True)
class Option:
    """One allowed answer. value: what the client gets back (text, true or false, a level number); text: how the model sees it."""

    value: str | bool | int
    text: str
    description: str | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """One typed question. For `predicate` the options are (yes, no), in this order; for `score` the levels, lowest first.

    field: where it stands in the request (`questions.queue`), for error messages.
    """

    name: str
    kind: Kind
    instructions: str
    options: tuple[Option, ...]
    field: str = "questions"

    def __post_init__(self) -> None:
        if self.kind == "predicate":
            if len(self.options) != 2:
                raise UserInputError(f"{self.field}: a yes/no question has two options, got {len(self.options)}", field=self.field)
            return
        if not self.options:
            raise UserInputError(f"{self.field}: needs at least one option", field=self.field)
        if len(self.options) > MAX_OPTIONS:
            raise UserInputError(f"{self.field}: {len(self.options):,} options, at most {MAX_OPTIONS:,} are possible", field=self.field)
        seen: set[tuple[type, Any]] = set()
        for o in self.options:
            key = (type(o.value), o.value)                          # true and "true" are different values
            if key in seen:
                raise UserInputError(f"{self.field}: option {o.value!r} is there twice", field=self.field)
            seen.add(key)


@dataclass(slots=True)
class DecisionRequest:
    """state: text as the model sees it. wording: version of the prompt wording. temperature divides label logits (after calibration).

    labels: `auto` = one-token labels, or codes where there are more than 26 options; `text` = the option texts themselves, with a terminator.
    label_mass: read the mass of the labels over the whole vocabulary (costs one full row of the output matrix per question).
    """

    state: str
    questions: list[Question]
    wording: int = 1
    temperature: float = 1.0
    debias: Debias = "none"
    labels: Labels = "auto"
    label_mass: bool = False
    return_ids: bool = False
    cache_salt: str = ""

    def __post_init__(self) -> None:
        if not self.questions:
            raise UserInputError("questions: needs at least one question", field="questions")
        need_distinct(q.name for q in self.questions)
        for name, known in (("debias", get_args(Debias)), ("labels", get_args(Labels))):
            if getattr(self, name) not in known:
                raise UserInputError(f"{name}: must be one of {', '.join(known)}, got {getattr(self, name)!r}", field=name)
        if not (self.temperature > 0 and np.isfinite(self.temperature)):
            raise UserInputError(f"temperature: must be a positive number, got {self.temperature!r}", field="temperature")


@dataclass(slots=True)
class Answer:
    """probabilities: float64[n] in the order of the question's options, sum 1.

    value: P(yes) for a predicate, the expected level for a score, else None; choice: index of the most probable option (ties: lower index).
    label_mass: probability of the labels among all tokens, None unless asked. prompt_ids, label_ids: for replay, None unless asked.
    """

    question: Question
    probabilities: np.ndarray
    choice: int
    confidence: float
    value: float | None = None
    label_mass: float | None = None
    prompt_ids: list[int] | None = None
    label_ids: list[list[int]] | None = None

    @property
    def by_value(self) -> dict[Any, float]:
        """Probability by option value, in the order of the question."""
        return {o.value: float(p) for o, p in zip(self.question.options, self.probabilities, strict=True)}


@dataclass(slots=True)
class DecisionUsage:
    """logical: tokens as if every question had been asked alone; once: state once plus all questions; computed, cached: what the engine did."""

    logical: int = 0
    once: int = 0
    computed: int = 0
    cached: int = 0


@dataclass(slots=True)
class DecisionResult:
    """Answers in the order of the questions; `result["name"]` finds one."""

    answers: list[Answer]
    usage: DecisionUsage = field(default_factory=DecisionUsage)

    def __getitem__(self, name: str) -> Answer:
        for a in self.answers:
            if a.question.name == name:
                return a
        raise KeyError(name)

    def filled(self, form: type) -> Any:
        """An instance of the annotated class whose fields were the questions."""
        from headwater.decisions.annotations import fill

        return fill(form, self.answers)


def first_twice(names: Iterable[str]) -> str | None:
    """The name that is the first to come again, None where all are distinct."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def need_distinct(names: Iterable[str]) -> None:
    """Raises UserInputError naming a question's name that is there twice."""
    twice = first_twice(names)
    if twice is not None:
        raise UserInputError(f"questions: the name {twice!r} is there twice", field="questions")


def as_text(value: Any, where: str) -> str:
    """A state, instruction or description: text stays, JSON is written compactly in its own key order.

    Raises UserInputError naming `where` for blank text, numbers that JSON cannot hold, and nesting beyond MAX_DEPTH.
    """
    if isinstance(value, str):
        return value
    if depth(value, MAX_DEPTH) > MAX_DEPTH:
        raise UserInputError(f"{where}: nested more than {MAX_DEPTH} levels deep", field=where)
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as e:
        raise UserInputError(f"{where}: cannot be written as JSON ({e})", field=where) from None


def depth(value: Any, limit: int) -> int:
    """Levels of lists and objects with what is innermost; counted no further than just beyond `limit`."""
    level, levels = [value], 0
    while level and levels <= limit + 1:
        level = [x for v in level if isinstance(v, dict | list | tuple) for x in (v.values() if isinstance(v, dict) else v)]
        levels += 1
    return levels
