"""POST /v1/decisions: OpenAI's shape, and SGLang's native one, told apart by their questions (`id` there, `name` here)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictStr, TypeAdapter, ValidationError
from starlette.responses import Response

from headwater.core.errors import HeadwaterError, UserInputError
from headwater.decisions.annotations import yes_no
from headwater.decisions.types import Answer, DecisionRequest, DecisionResult, Option, Question, as_text, need_distinct
from headwater.serve.context import server_of
from headwater.serve.decide import sglang
from headwater.serve.decide.run import decide
from headwater.serve.decide.systemone import extras
from headwater.serve.errors import describe_validation, error_response, json_response, plain_error
from headwater.serve.jsonbody import json_body
from headwater.serve.schema.common import Int, Salt
from headwater.serve.sse import unless_client_leaves

router = APIRouter()
MAX_QUESTIONS, MAX_CHOICES = 200, 255


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", protected_namespaces=(), strict=True)


class Predicate(Strict):
    type: Literal["predicate"]
    instructions: str
    name: str | None = None


class ChoiceValue(Strict):
    value: StrictBool | StrictStr
    description: str | None = None


class Choice(Strict):
    type: Literal["choice"]
    instructions: str
    choices: list[ChoiceValue] = Field(min_length=1)
    name: str | None = None


class Level(Strict):
    label: str
    description: str | None = None


class Score(Strict):
    type: Literal["score"]
    instructions: str
    levels: list[Level] = Field(min_length=1)
    name: str | None = None


AnyQuestion = Annotated[Predicate | Choice | Score, Field(discriminator="type")]


class Part(Strict):
    type: str
    text: str | None = None
    image_url: Any = None
    detail: Any = None


class UserMessage(Strict):
    role: str
    content: str | list[Part]
    type: Literal["message"] | None = None


class DecisionsRequest(Strict):
    model: str
    input: str | list[UserMessage]
    questions: list[AnyQuestion] = Field(min_length=1)
    safety_identifier: str | None = None
    x_debias: Literal["none", "reverse", "cyclic"] = "none"
    x_labels: Literal["auto", "text"] = "auto"
    x_label_mass: bool = False
    x_prompt_format_version: Int = 1
    x_return_token_ids: bool = False
    x_cache_salt: Salt = ""


_BODY = TypeAdapter(DecisionsRequest)


def state_text(value: str | list[UserMessage]) -> str:
    """The user's messages as one text. Raises UserInputError for other roles and for images."""
    if isinstance(value, str):
        return value
    texts = []
    for i, message in enumerate(value):
        if message.role != "user":
            raise UserInputError(f"input[{i}].role: must be 'user', got '{message.role}'", field=f"input[{i}].role")
        if isinstance(message.content, str):
            texts.append(message.content)
            continue
        for j, part in enumerate(message.content):
            if part.type != "input_text" or part.text is None:
                where = f"input[{i}].content[{j}].type"
                raise UserInputError(f"{where}: '{part.type}' is not supported, this model reads input_text only", field=where)
            texts.append(part.text)
    return "\n\n".join(texts)


def question(i: int, q: Predicate | Choice | Score, own_limits: bool) -> Question:
    """One wire question as an internal one; its internal name is its place, since names are optional here."""
    where, name = f"questions[{i}]", str(i)
    if isinstance(q, Predicate):
        return yes_no(name, as_text(q.instructions, where), None, None, where)
    if isinstance(q, Choice):
        if not own_limits and len(q.choices) > MAX_CHOICES:
            raise UserInputError(f"{where}.choices: {len(q.choices):,} choices, at most {MAX_CHOICES} are allowed", field=f"{where}.choices")
        options = [Option(c.value, c.value if isinstance(c.value, str) else str(c.value).lower(), c.description) for c in q.choices]
        return Question(name, "choice", q.instructions, tuple(options), where)
    if not own_limits and len(q.levels) > MAX_CHOICES:
        raise UserInputError(f"{where}.levels: {len(q.levels):,} levels, at most {MAX_CHOICES} are allowed", field=f"{where}.levels")
    return Question(name, "score", q.instructions, tuple(Option(k, x.label, x.description) for k, x in enumerate(q.levels)), where)


def to_internal(body: DecisionsRequest, own_limits: bool) -> DecisionRequest:
    if not own_limits and len(body.questions) > MAX_QUESTIONS:
        raise UserInputError(f"questions: {len(body.questions):,} questions, at most {MAX_QUESTIONS} are allowed", field="questions")
    need_distinct(q.name for q in body.questions if q.name is not None)
    return DecisionRequest(
        state_text(body.input), [question(i, q, own_limits) for i, q in enumerate(body.questions)], body.x_prompt_format_version,
        debias=body.x_debias, labels=body.x_labels, label_mass=body.x_label_mass, return_ids=body.x_return_token_ids, cache_salt=body.x_cache_salt,
    )


def answer_object(a: Answer, name: str | None) -> dict[str, Any]:
    q, p = a.question, [float(x) for x in a.probabilities]
    if q.kind == "predicate":
        return {"type": "predicate", "name": name, "probability": a.value, **extras(a)}
    if q.kind == "choice":
        rows: list[dict[str, Any]] = [{"value": o.value, "probability": x} for o, x in zip(q.options, p, strict=True)]
        return {"type": "choice", "name": name, "choice": q.options[a.choice].value, "confidence": a.confidence, "probabilities": rows, **extras(a)}
    rows = [{"value": o.value, "label": o.text, "probability": x} for o, x in zip(q.options, p, strict=True)]
    return {"type": "score", "name": name, "score": a.value, "confidence": a.confidence, "probabilities": rows, **extras(a)}


def response(model: str, body: DecisionsRequest, result: DecisionResult) -> dict[str, Any]:
    u = result.usage
    return {
        "model": model,
        "answers": [answer_object(a, q.name) for a, q in zip(result.answers, body.questions, strict=True)],
        "usage": {
            "input_tokens": u.once,
            "input_tokens_details": {"cached_tokens": min(u.cached, max(0, u.once - u.computed)), "cache_write_tokens": 0},
            "output_tokens": 0,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": u.once,
            "x_prompt_tokens_logical": u.logical,
            "x_prompt_tokens_computed": u.computed,
        },
    }


@router.post("/v1/decisions", response_model=None)
async def decisions(request: Request) -> Response:
    """Typed questions over one input: OpenAI's shape or SGLang's."""
    server = server_of(request)
    try:
        raw = await json_body(request)
        if sglang.is_native(raw):
            return await sglang.answer(request, server, raw)
        try:
            body = _BODY.validate_python(raw)
        except ValidationError as e:
            message, where = describe_validation(list(e.errors(include_url=False)))
            return plain_error(400, message, where)
        model = server.check_model(body.model)
        server.admit()
        result = await unless_client_leaves(request, decide(server, to_internal(body, server.settings.own_decision_limits)))
        return json_response(response(model, body, result))
    except HeadwaterError as e:
        return error_response(e)
