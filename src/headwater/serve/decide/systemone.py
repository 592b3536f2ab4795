"""POST /v1/systemone: TypeSafe's shape. A map of questions (`noul`, `choice`, `score`), answers under the same keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.responses import Response

from headwater.core.errors import ContextLengthError, HeadwaterError, UserInputError
from headwater.decisions.annotations import yes_no
from headwater.decisions.decider import Work
from headwater.decisions.types import Answer, DecisionRequest, DecisionResult, Option, Question, as_text
from headwater.serve.context import Server, server_of
from headwater.serve.decide.run import decide
from headwater.serve.errors import json_response, one_line, status_of
from headwater.serve.jsonbody import json_body
from headwater.serve.schema.common import Int, Salt
from headwater.serve.sse import unless_client_leaves

router = APIRouter()
Content = str | dict[str, Any] | list[Any]
MAX_OPTIONS, MAX_LEVELS = 255, 10
MAX_REQUEST_TOKENS = 65_536        # state and all questions
MAX_QUESTION_TOKENS = 32_768       # state and the longest question


class Strict(BaseModel):
    """The published draft: unknown request fields should be refused. Extras of ours begin with `x_`."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=(), strict=True)


class NoulCriteria(Strict):
    true: Content | None = None
    false: Content | None = None


class Noul(Strict):
    type: Literal["noul"]
    instructions: Content | None = None
    criteria: NoulCriteria | None = None


class Choice(Strict):
    type: Literal["choice"]
    instructions: Content | None = None
    criteria: dict[str, Content | None] = Field(min_length=1)


class Score(Strict):
    type: Literal["score"]
    instructions: Content | None = None
    criteria: list[Content] = Field(min_length=1)


class Box(Strict):
    type: Literal["box"]
    instructions: Content | None = None


class SystemOneRequest(Strict):
    model: str
    state: Content
    questions: dict[str, Annotated[Noul | Choice | Score | Box, Field(discriminator="type")]] = Field(min_length=1)
    assets: dict[str, Any] | None = None
    x_debias: Literal["none", "reverse", "cyclic"] = "none"
    x_labels: Literal["auto", "text"] = "auto"
    x_label_mass: bool = False
    x_prompt_format_version: Int = 1
    x_return_token_ids: bool = False
    x_cache_salt: Salt = ""


def detail(error: UserInputError) -> dict[str, Any]:
    """The dialect's validation error: `detail` is a list of {loc, msg, type}."""
    loc = ["body", *one_line(error.field or "body").replace("]", "").replace("[", ".").split(".")]
    return {"detail": [{"loc": loc, "msg": one_line(str(error)), "type": "value_error", "input": None, "ctx": {}}]}


def error_body(error: HeadwaterError) -> tuple[int, Any]:
    """-> (status, body) in the dialect's two error shapes."""
    status, _, code = status_of(error)
    if isinstance(error, ContextLengthError):
        return 400, {"detail": {"message": one_line(str(error)), "error_type": "tokens_exceeded"}}
    if isinstance(error, UserInputError) and status == 400:
        return 422, detail(error)
    kind = {401: "authentication_error", 408: "timeout"}.get(status, code or "unknown")
    return status, {"detail": {"message": one_line(str(error)), "error_type": kind}}


def question(name: str, q: Noul | Choice | Score | Box, own_limits: bool) -> Question:
    """One wire question as an internal one. Raises UserInputError naming it."""
    where = f"questions.{name}"
    if isinstance(q, Box):
        raise UserInputError(f"{where}.type: 'box' needs an image, and this model reads text only", field=f"{where}.type")
    text = as_text(q.instructions, f"{where}.instructions") if q.instructions is not None else ""
    if isinstance(q, Noul):
        c = q.criteria or NoulCriteria()
        if not text and c.true is None and c.false is None:
            raise UserInputError(f"{where}: give instructions or criteria", field=where)
        said = [None if x is None else as_text(x, f"{where}.criteria") for x in (c.true, c.false)]
        return yes_no(name, text, said[0], said[1], where)
    limit = MAX_OPTIONS if isinstance(q, Choice) else MAX_LEVELS
    if not own_limits and len(q.criteria) > limit:
        what = "options" if isinstance(q, Choice) else "levels"
        raise UserInputError(f"{where}.criteria: {len(q.criteria):,} {what}, at most {limit} are allowed", field=f"{where}.criteria")
    if isinstance(q, Choice):
        options = [Option(k, k, None if v is None else as_text(v, f"{where}.criteria.{k}")) for k, v in q.criteria.items()]
    else:
        options = [Option(i, as_text(v, f"{where}.criteria.{i}")) for i, v in enumerate(q.criteria)]
    return Question(name, q.type, text, tuple(options), where)


def to_internal(body: SystemOneRequest, own_limits: bool) -> DecisionRequest:
    if body.assets is not None:
        raise UserInputError("assets: images are not supported, this model reads text only", field="assets")
    questions = [question(name, q, own_limits) for name, q in body.questions.items()]
    return DecisionRequest(
        as_text(body.state, "state"), questions, body.x_prompt_format_version, debias=body.x_debias, labels=body.x_labels,
        label_mass=body.x_label_mass, return_ids=body.x_return_token_ids, cache_salt=body.x_cache_salt,
    )


def answer_object(a: Answer) -> dict[str, Any]:
    q = a.question
    p = [float(x) for x in a.probabilities]
    if q.kind == "predicate":
        out: dict[str, Any] = {"type": "noul", "noul": a.value}
    elif q.kind == "choice":
        names = [str(o.value) for o in q.options]
        out = {"type": "choice", "choice": names[a.choice], "confidence": a.confidence, "probabilities": dict(zip(names, p, strict=True))}
    else:
        keys = [str(i) for i in range(len(p))]
        legend = {k: o.text for k, o in zip(keys, q.options, strict=True)}
        out = {"type": "score", "score": a.value, "confidence": a.confidence, "legend": legend, "probabilities": dict(zip(keys, p, strict=True))}
    return out | extras(a)


def extras(a: Answer) -> dict[str, Any]:
    """Ours, under new names only."""
    out: dict[str, Any] = {}
    if a.label_mass is not None:
        out["x_label_mass"] = a.label_mass
    if a.prompt_ids is not None:
        out |= {"x_prompt_token_ids": a.prompt_ids, "x_label_token_ids": a.label_ids}
    return out


def response(model: str, result: DecisionResult) -> dict[str, Any]:
    u = result.usage
    return {
        "model": model,
        "answers": {a.question.name: answer_object(a) for a in result.answers},
        "usage": {
            "input_tokens": u.once, "output_tokens": 0, "x_prompt_tokens_logical": u.logical, "x_prompt_tokens_computed": u.computed,
            "x_cached_tokens": u.cached,
        },
    }


@router.post("/v1/systemone", response_model=None)
async def systemone(request: Request) -> Response:
    """Typed questions over one state, TypeSafe's shape."""
    server: Server = server_of(request)
    ids = {"x-typesafe-request-id": request.state.request_id}
    try:
        raw = await json_body(request)
        try:
            body = SystemOneRequest.model_validate(raw)
        except ValidationError as e:
            errors = [{**x, "loc": ["body", *x["loc"]]} for x in e.errors(include_url=False, include_context=False)]
            return json_response({"detail": [_plain(x) for x in errors]}, 422, ids)
        model = served_model(server, body.model)
        server.admit()
        wanted = to_internal(body, server.settings.own_decision_limits)
        result = await unless_client_leaves(request, decide(server, wanted, dialect_limits(server)))
        return json_response(response(model, result), headers=ids)
    except HeadwaterError as e:
        status, content = error_body(e)
        retry = getattr(e, "retry_after", None)
        headers = ids if retry is None else {**ids, "retry-after": str(max(1, round(retry))), "retry-after-ms": str(int(retry * 1000))}
        return json_response(content, status, headers)


def served_model(server: Server, name: str) -> str:
    """The model's name for the answer. Clients of this dialect have the name of its own model built in. Raises NotFoundError."""
    return server.check_model(None if name.startswith("jev") else name)


def dialect_limits(server: Server) -> Callable[[Work], None] | None:
    """What to check of a plan; None where the server's own limits hold."""
    return None if server.settings.own_decision_limits else check_limits


def check_limits(work: Work) -> None:
    """The dialect's two token limits, before anything is computed."""
    if work.once > MAX_REQUEST_TOKENS:
        raise ContextLengthError(f"state and questions are {work.once:,} tokens, at most {MAX_REQUEST_TOKENS:,} are allowed", field="state")
    for p in work.passes:
        n = len(work.items[p.start].ids)
        if n > MAX_QUESTION_TOKENS:
            field = work.request.questions[p.question].field
            raise ContextLengthError(f"{field}: state and question are {n:,} tokens, at most {MAX_QUESTION_TOKENS:,} are allowed", field=field)


def _plain(error: dict[str, Any]) -> dict[str, Any]:
    """pydantic may put objects into `input` that JSON cannot hold, and huge ones."""
    text = repr(error.get("input"))
    loc = [x if isinstance(x, int) else one_line(str(x)) for x in error["loc"]]
    return {"loc": loc, "msg": one_line(error["msg"]), "type": error["type"], "input": text[:200]}
