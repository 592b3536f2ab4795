"""SGLang's native body of /v1/decisions: questions with an `id`, `label_mass` in every answer, pinned prompt format."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from headwater.core.errors import UserInputError
from headwater.decisions.annotations import yes_no
from headwater.decisions.types import Answer, DecisionRequest, DecisionResult, Option, Question, as_text
from headwater.serve.context import Server
from headwater.serve.decide.run import decide
from headwater.serve.errors import describe_validation, json_response, plain_error
from headwater.serve.schema.common import Int
from headwater.serve.sse import unless_client_leaves

MAX_OPTIONS, MAX_LEVELS = 26, 10


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", protected_namespaces=(), strict=True)


class NamedOption(Strict):
    name: str = Field(min_length=1)
    description: str | None = None


class Choice(Strict):
    id: str = Field(min_length=1)
    type: Literal["choice"]
    question: str
    options: list[NamedOption] = Field(min_length=2)


class Score(Strict):
    id: str = Field(min_length=1)
    type: Literal["score"]
    question: str
    levels: list[str] = Field(min_length=2)


class YesNo(Strict):
    id: str = Field(min_length=1)
    type: Literal["yes_no"]
    question: str
    yes: str | None = None
    no: str | None = None


class NativeRequest(Strict):
    input: str | dict[str, Any] | list[Any]
    questions: list[Annotated[Choice | Score | YesNo, Field(discriminator="type")]] = Field(min_length=1)
    temperature: float = 1.0
    model: str | None = None
    prompt_format_version: Int = 1
    return_prompt_token_ids: bool = False
    chat_template_kwargs: dict[str, Any] | None = None
    images: list[Any] | None = None


_BODY = TypeAdapter(NativeRequest)


def is_native(raw: dict[str, Any]) -> bool:
    """SGLang's questions carry an `id` and a `question`; OpenAI's carry `instructions`."""
    questions = raw.get("questions")
    first = questions[0] if isinstance(questions, list) and questions else None
    return isinstance(first, dict) and ("id" in first or "question" in first) and "instructions" not in first


def to_internal(body: NativeRequest, own_limits: bool) -> DecisionRequest:
    """Raises UserInputError naming the field."""
    if body.images:
        raise UserInputError("images: not supported, this model reads text only", field="images")
    if body.chat_template_kwargs:
        raise UserInputError("chat_template_kwargs: not supported for decisions, the wording is versioned", field="chat_template_kwargs")
    state = as_text(body.input, "input")
    if not state.strip():
        raise UserInputError("input: is blank", field="input")
    questions = [_question(i, q, own_limits) for i, q in enumerate(body.questions)]
    return DecisionRequest(
        state, questions, body.prompt_format_version, body.temperature, label_mass=True, return_ids=body.return_prompt_token_ids
    )


def _question(i: int, q: Choice | Score | YesNo, own_limits: bool) -> Question:
    where = f"questions[{i}]"
    if isinstance(q, YesNo):
        return yes_no(q.id, q.question, q.yes, q.no, where)
    if isinstance(q, Choice):
        if not own_limits and len(q.options) > MAX_OPTIONS:
            raise UserInputError(f"{where}.options: {len(q.options):,} options, at most {MAX_OPTIONS} are allowed", field=f"{where}.options")
        return Question(q.id, "choice", q.question, tuple(Option(o.name, o.name, o.description) for o in q.options), where)
    if not own_limits and len(q.levels) > MAX_LEVELS:
        raise UserInputError(f"{where}.levels: {len(q.levels):,} levels, at most {MAX_LEVELS} are allowed", field=f"{where}.levels")
    return Question(q.id, "score", q.question, tuple(Option(k, x) for k, x in enumerate(q.levels)), where)


def _answer_object(a: Answer) -> dict[str, Any]:
    q, p = a.question, [float(x) for x in a.probabilities]
    if q.kind == "predicate":
        out: dict[str, Any] = {"type": "yes_no", "choice": ("yes", "no")[a.choice], "probabilities": {"yes": p[0], "no": p[1]}}
    elif q.kind == "choice":
        names = [str(o.value) for o in q.options]
        out = {"type": "choice", "choice": names[a.choice], "probabilities": dict(zip(names, p, strict=True))}
    else:
        out = {"type": "score", "score": a.value, "probabilities": p}
    out["label_mass"] = a.label_mass
    if a.prompt_ids is not None:
        out |= {"prompt_token_ids": a.prompt_ids, "label_token_ids": a.label_ids}
    return out


def _response(model: str, body: NativeRequest, result: DecisionResult) -> dict[str, Any]:
    u = result.usage
    return {
        "object": "decisions",
        "model": model,
        "prompt_format_version": body.prompt_format_version,
        "answers": {a.question.name: _answer_object(a) for a in result.answers},
        "usage": {
            "prompt_tokens": u.logical, "total_tokens": u.logical, "completion_tokens": 0, "x_prompt_tokens_logical": u.logical,
            "x_prompt_tokens_computed": u.computed,
        },
    }


async def answer(request: Request, server: Server, raw: dict[str, Any]) -> Response:
    """Raises the core errors; unknown fields anywhere are refused with 400."""
    try:
        body = _BODY.validate_python(raw)
    except ValidationError as e:
        message, where = describe_validation(list(e.errors(include_url=False)))
        return plain_error(400, message, where)
    model = server.check_model(body.model)
    server.admit()
    result = await unless_client_leaves(request, decide(server, to_internal(body, server.settings.own_decision_limits)))
    return json_response(_response(model, body, result))
