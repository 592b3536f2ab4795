"""Questions from Python types: `bool` is a yes/no question, `Literal` and `Enum` a choice, `Score` a scale; a class with such fields is a form."""

from __future__ import annotations

import enum
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.core.errors import UserInputError
from headwater.decisions.types import Answer, Option, Question, as_text


@dataclass(frozen=True, slots=True)
class Score:
    """A scale: levels, lowest first. `Annotated[float, Score(["low", "high"])]` on a form's field, or a value in a dict of questions."""

    levels: Sequence[str]
    instructions: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice among texts (or true/false), optionally with descriptions by option."""

    options: Sequence[str | bool] | Mapping[str, str | None]
    instructions: str = ""


@dataclass(frozen=True, slots=True)
class Noul:
    """A yes/no question: the statement to judge and, if wanted, what yes and no mean."""

    instructions: str
    true: str | None = None
    false: str | None = None


def yes_no(name: str, instructions: str, true: str | None, false: str | None, where: str) -> Question:
    return Question(name, "predicate", instructions, (Option(True, "Yes", true), Option(False, "No", false)), where)


def question_of(name: str, spec: Any, instructions: str = "") -> Question:
    """One question from a spec: Noul, Choice, Score, `bool`, `Literal[...]`, an Enum class, a string (a statement to judge) or a list of options."""
    where = f"questions.{name}"
    if typing.get_origin(spec) is typing.Annotated:
        inner, *extras = typing.get_args(spec)
        words = next((e for e in extras if isinstance(e, str)), instructions)
        marked = next((e for e in extras if isinstance(e, Score | Choice | Noul)), inner)
        return question_of(name, marked, words)
    if isinstance(spec, str):
        return yes_no(name, spec, None, None, where)
    if spec is bool:
        return yes_no(name, instructions or name.replace("_", " "), None, None, where)
    if isinstance(spec, Noul):
        return yes_no(name, spec.instructions, spec.true, spec.false, where)
    if isinstance(spec, Score):
        levels = tuple(Option(i, text) for i, text in enumerate(spec.levels))
        return Question(name, "score", spec.instructions or instructions or name.replace("_", " "), levels, where)
    if isinstance(spec, Choice):
        pairs = spec.options.items() if isinstance(spec.options, Mapping) else [(o, None) for o in spec.options]
        options = tuple(Option(o, as_text(o, where), d) for o, d in pairs)
        return Question(name, "choice", spec.instructions or instructions or name.replace("_", " "), options, where)
    if typing.get_origin(spec) is typing.Literal:
        return question_of(name, Choice(typing.get_args(spec)), instructions)
    if isinstance(spec, type) and issubclass(spec, enum.Enum):
        return question_of(name, Choice([str(m.value) for m in spec]), instructions)
    if isinstance(spec, Sequence):
        return question_of(name, Choice(list(spec)), instructions)
    raise UserInputError(f"{where}: {spec!r} is no question; use a text, bool, Literal, Enum, Choice, Score or Noul", field=where)


def questions_of(specs: Any) -> list[Question]:
    """Questions from a mapping name -> spec, or from a class with annotated fields (pydantic model, dataclass); field descriptions instruct."""
    if isinstance(specs, Mapping):
        return [question_of(str(name), spec) for name, spec in specs.items()]
    if not isinstance(specs, type):
        raise UserInputError("questions: give a mapping of names to questions, or a class with annotated fields", field="questions")
    hints = typing.get_type_hints(specs, include_extras=True)
    described = getattr(specs, "model_fields", {})
    return [question_of(name, hint, getattr(described.get(name), "description", None) or "") for name, hint in hints.items()]


def value_of(answer: Answer, spec: Any) -> Any:
    """The answer as a value of the annotated type: bool, the literal or enum member, the expected level as float."""
    if typing.get_origin(spec) is typing.Annotated:
        inner, *extras = typing.get_args(spec)
        return value_of(answer, next((e for e in extras if isinstance(e, Score | Choice | Noul)), inner))
    if answer.question.kind == "score":
        return answer.value
    if answer.question.kind == "predicate":
        return answer.choice == 0
    value = answer.question.options[answer.choice].value
    if isinstance(spec, type) and issubclass(spec, enum.Enum):
        return next(m for m in spec if str(m.value) == value)
    return value


def fill(form: type, answers: Sequence[Answer]) -> Any:
    """An instance of `form` from its answers (in the order of `questions_of(form)`)."""
    hints = typing.get_type_hints(form, include_extras=True)
    return form(**{name: value_of(a, hint) for (name, hint), a in zip(hints.items(), answers, strict=True)})
