"""POST /v1/decisions/batch: several states in one request, System One bodies as a JSON array or JSON lines; one answer line each."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from fastapi import APIRouter, Request
from pydantic import ValidationError
from starlette.responses import Response

from headwater.core.errors import HeadwaterError, UserInputError
from headwater.core.jsonlines import numbered
from headwater.serve.context import Server, server_of
from headwater.serve.decide.run import decide
from headwater.serve.decide.systemone import SystemOneRequest, dialect_limits, error_body, response, served_model, to_internal
from headwater.serve.errors import describe_validation, error_response, one_line
from headwater.serve.jsonbody import decoded, parsed
from headwater.serve.sse import unless_client_leaves

router = APIRouter()
MAX_STATES = 1000


def entries(text: str) -> list[tuple[str, Any]]:
    """(place, JSON text or value) of every state of a JSON array or of JSON lines. Raises UserInputError where there are none, or too many."""
    out: list[tuple[str, Any]]
    if text.lstrip().startswith("["):
        out = [(f"[{i}]", value) for i, value in enumerate(parsed(text))]
    else:
        out = [(f"line {i}", line) for i, line in numbered(text)]
    if not out:
        raise UserInputError("body: no states", field="body")
    if len(out) > MAX_STATES:
        raise UserInputError(f"body: {len(out):,} states, at most {MAX_STATES:,} are allowed", field="body")
    return out


async def answer(server: Server, where: str, entry: Any) -> dict[str, Any]:
    """The answer to one state, or what is wrong with it."""
    try:
        body = parsed(entry, where) if isinstance(entry, str) and where.startswith("line") else entry
        if not isinstance(body, dict):
            raise UserInputError(f"{where}: must be an object", field=where)
        request = SystemOneRequest.model_validate({"model": server.names[0], **body})
        model = served_model(server, request.model)
        result = await decide(server, to_internal(request, server.settings.own_decision_limits), dialect_limits(server))
        return response(model, result)
    except ValidationError as e:
        message, field = describe_validation(list(e.errors(include_url=False)))
        return {"error": {"message": one_line(message), "field": field, "status": 422}}
    except HeadwaterError as e:
        return {"error": {"message": one_line(str(e)), "field": getattr(e, "field", None), "status": error_body(e)[0]}}


@router.post("/v1/decisions/batch", response_model=None)
async def decisions_batch(request: Request) -> Response:
    """Each line is answered or refused on its own; the reply has as many lines, in the same order."""
    server = server_of(request)
    try:
        server.admit()
        states = entries(decoded(request, await request.body()))

        async def all_of_them() -> list[dict[str, Any]]:
            return list(await asyncio.gather(*(answer(server, where, entry) for where, entry in states)))

        answers = await unless_client_leaves(request, all_of_them())
        return Response(b"".join(msgspec.json.encode(a) + b"\n" for a in answers), media_type="application/jsonl")
    except HeadwaterError as e:
        return error_response(e)
