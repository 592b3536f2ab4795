"""POST /v1/decisions/batch: several states in one request, System One bodies as a JSON array or JSON lines; one answer line each."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request
from pydantic import ValidationError
from starlette.responses import Response

from headwater.core.errors import HeadwaterError, UserInputError
from headwater.core.jsonlines import numbered
from headwater.serve.context import server_of
from headwater.serve.decide.run import decide
from headwater.serve.decide.systemone import SystemOneRequest, error_body, response, to_internal
from headwater.serve.errors import describe_validation, error_object, error_response
from headwater.serve.sse import unless_client_leaves

router = APIRouter()
MAX_STATES = 1000


def parse_lines(text: str) -> list[dict[str, Any]]:
    """A JSON array or JSON lines of objects. Raises UserInputError naming the line."""
    out: list[dict[str, Any]] = []
    if text.lstrip().startswith("["):
        lines = [(f"[{i}]", json.dumps(x)) for i, x in enumerate(_load(text, "body"))]
    else:
        lines = [(f"line {i}", x) for i, x in numbered(text)]
    for where, line in lines:
        value = _load(line, where)
        if not isinstance(value, dict):
            raise UserInputError(f"{where}: must be an object", field=where)
        out.append(value)
    if not out:
        raise UserInputError("body: no states", field="body")
    if len(out) > MAX_STATES:
        raise UserInputError(f"body: {len(out):,} states, at most {MAX_STATES:,} are allowed", field="body")
    return out


def _load(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as e:
        raise UserInputError(f"{where}: not valid JSON ({e})", field=where) from None


@router.post("/v1/decisions/batch", response_model=None)
async def decisions_batch(request: Request) -> Response:
    """Each line is answered or refused on its own; the reply has as many lines, in the same order."""
    import asyncio

    import msgspec

    server = server_of(request)
    try:
        server.admit()
        raw = await request.body()
        try:
            bodies = parse_lines(raw.decode("utf-8"))
        except UnicodeDecodeError as e:
            raise UserInputError(f"body: not UTF-8 at byte {e.start}", field="body") from None

        async def one(body: dict[str, Any]) -> bytes:
            try:
                return msgspec.json.encode(await answer(body))
            except UnicodeEncodeError as e:
                return msgspec.json.encode({"error": {"message": error_object(e)["error"]["message"], "field": None, "status": 422}})

        async def answer(body: dict[str, Any]) -> dict[str, Any]:
            try:
                parsed = SystemOneRequest.model_validate({"model": server.names[0], **body})
                result = await decide(server, to_internal(parsed, server.settings.own_decision_limits))
                return response(server.check_model(None), result)
            except ValidationError as e:
                message, where = describe_validation(list(e.errors(include_url=False)))
                return {"error": {"message": message, "field": where, "status": 422}}
            except HeadwaterError as e:
                return {"error": {"message": str(e), "field": getattr(e, "field", None), "status": error_body(e)[0]}}

        answers = await unless_client_leaves(request, _all(asyncio.gather(*(one(b) for b in bodies))))
        return Response(b"\n".join(answers) + b"\n", media_type="application/jsonl")
    except HeadwaterError as e:
        return error_response(e)


async def _all(work: Any) -> list[bytes]:
    return list(await work)
