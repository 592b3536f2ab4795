"""OpenAI's error object for everything that can go wrong; never 200 followed by nothing, never a traceback to the client."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Match

from headwater.core.errors import CapacityError, ContextLengthError, HeadwaterError, UserInputError, printable
from headwater.engine.client import EngineLostError

log = logging.getLogger("headwater.serve")
MAX_MESSAGE = 1000                                                  # characters


class NotFoundError(UserInputError):
    """The model or object that was named does not exist here."""


class AuthenticationError(UserInputError):
    """No key, or a wrong one."""


class MediaTypeError(UserInputError):
    """The body is said to be something that is not read here."""


def status_of(error: BaseException) -> tuple[int, str, str | None]:
    """-> (HTTP status, OpenAI error type, code)."""
    if isinstance(error, AuthenticationError):
        return 401, "invalid_request_error", "invalid_api_key"
    if isinstance(error, NotFoundError):
        return 404, "invalid_request_error", "model_not_found"
    if isinstance(error, ContextLengthError):
        return 400, "invalid_request_error", "context_length_exceeded"
    if isinstance(error, MediaTypeError):
        return 415, "invalid_request_error", None
    if isinstance(error, UserInputError | UnicodeEncodeError):
        return 400, "invalid_request_error", None
    if isinstance(error, CapacityError):
        return 429, "rate_limit_error", "overloaded"
    if isinstance(error, EngineLostError):
        return 503, "server_error", "engine_unavailable"
    return 500, "server_error", None


def error_object(error: BaseException) -> dict[str, Any]:
    """`{"error": {message, type, param, code}}`. Unforeseen exceptions show their kind, not their insides."""
    _, kind, code = status_of(error)
    if isinstance(error, HeadwaterError):
        message = one_line(str(error))
    elif isinstance(error, UnicodeEncodeError):                     # JSON can spell what no encoding can carry; only a request brings it here
        message = f"body: holds a lone surrogate (U+{ord(error.object[error.start]):04X}), which is no text"
    else:
        message = f"internal error ({type(error).__name__}); the server's log has the details"
    return {"error": {"message": message, "type": kind, "param": _param(getattr(error, "field", None)), "code": code}}


def one_line(message: str) -> str:
    """The message as one line of bounded length: what it quotes of a request may hold line breaks, or be megabytes."""
    return printable(message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 1] + "…")


def _param(field: str | None) -> str | None:
    return None if field is None else one_line(field)


def in_words_of(error: HeadwaterError, names: Mapping[str, str]) -> HeadwaterError:
    """The error with its field under the name that the dialect has for it, in the message and as the field."""
    field = getattr(error, "field", None)
    if isinstance(field, str) and field in names:
        message = str(error)
        error.args = (names[field] + message.removeprefix(field) if message.startswith(field) else message,)
        error.field = names[field]  # type: ignore[attr-defined]
    return error


def json_response(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(content), status, headers, "application/json")


def error_response(error: BaseException) -> Response:
    status, _, _ = status_of(error)
    headers = {"retry-after": str(max(1, round(error.retry_after)))} if isinstance(error, CapacityError) else {}
    if status >= 500 and not isinstance(error, EngineLostError):
        log.error("request failed", exc_info=error)
    return json_response(error_object(error), status, headers)


def plain_error(status: int, message: str, param: str | None = None, code: str | None = None) -> Response:
    kind = "invalid_request_error" if status < 500 else "server_error"
    return json_response({"error": {"message": one_line(message), "type": kind, "param": _param(param), "code": code}}, status)


ANTHROPIC_KINDS = {
    400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error", 413: "request_too_large", 415: "invalid_request_error",
    429: "rate_limit_error", 503: "overloaded_error",
}


def in_dialect(request: Request, response: Response) -> Response:
    """An error that no endpoint saw, in the shape that clients of this path read: Anthropic's, Ollama's, TypeSafe's, else OpenAI's as it came."""
    error = msgspec.json.decode(bytes(response.body))["error"]
    path, status = request.url.path, response.status_code
    keep = {k: v for k, v in response.headers.items() if k in ("retry-after", "allow")}
    if path.startswith("/v1/messages"):
        kind = ANTHROPIC_KINDS.get(status, "api_error")
        return json_response({"type": "error", "error": {"type": kind, "message": error["message"]}}, status, keep)
    if path.startswith("/api/"):
        return json_response({"error": error["message"]}, status, keep)
    if path.startswith("/v1/systemone"):
        kind = "authentication_error" if status == 401 else error["code"] or "unknown"
        return json_response({"detail": {"message": error["message"], "error_type": kind}}, status, keep)
    return response


def describe_validation(errors: list[Any], given: Any = None) -> tuple[str, str | None]:
    """pydantic's complaints about the first wrong field in one line -> (message, dotted field).

    given: the body; with it, what a field may be instead is told in one sentence under the name that the client sent, where pydantic has one
    complaint for each alternative, under names of its own.
    """
    places = [_place(e, given) for e in errors]
    same_field = [p for p in places if p[:1] == places[0][:1]]
    path = max(same_field, key=len) if given is not None else places[0]
    said = list(dict.fromkeys(e["msg"] for e, p in zip(errors, places, strict=True) if p == path))
    message = " or ".join([said[0], *(m.removeprefix("Input should be ") for m in said[1:])])
    others = len({tuple(p) for p in places if p[:1] != path[:1]})
    where = ".".join(map(str, path)) or None
    return f"{where or 'body'}: {message}{f' (and {others} more)' if others else ''}", where


def _place(error: Any, given: Any) -> list[Any]:
    """Where the error is, as the client would say: without the names of alternatives, which are no part of the body."""
    loc = [p for p in error["loc"] if p not in ("body", "query")]
    if given is None:
        return loc
    out, value = [], given
    for i, p in enumerate(loc):
        inside = (isinstance(value, dict) and p in value) or (isinstance(value, list) and isinstance(p, int) and p < len(value))
        if inside:
            value = value[p]
        if inside or (error["type"] == "missing" and i == len(loc) - 1):
            out.append(p)
    return out


def install(app: FastAPI) -> None:
    """Map every exception that can leave an endpoint to an error object."""

    @app.exception_handler(HeadwaterError)
    async def ours(request: Request, error: HeadwaterError) -> Response:
        return in_dialect(request, error_response(error))

    @app.exception_handler(UnicodeEncodeError)
    async def no_text(request: Request, error: UnicodeEncodeError) -> Response:
        return in_dialect(request, error_response(error))

    @app.exception_handler(ValidationError)
    async def untranslatable(request: Request, error: ValidationError) -> Response:
        # a dialect's body that passed its own check and is no chat request once translated
        return in_dialect(request, plain_error(400, *describe_validation(list(error.errors()))))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return in_dialect(request, plain_error(400, *describe_validation(list(error.errors()), error.body)))

    @app.exception_handler(ClientDisconnect)
    async def left(request: Request, error: ClientDisconnect) -> Response:
        return plain_error(499, "the client closed the connection before its body was complete")

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        message = error.detail if error.status_code != 404 else f"{request.url.path}: no such endpoint"
        response = in_dialect(request, plain_error(error.status_code, str(message)))
        response.headers.update(error.headers or {})
        if error.status_code == 405:                                # the framework knows the first route of a path only
            response.headers["allow"] = ", ".join(_methods(request))
        return response


def _methods(request: Request) -> list[str]:
    """All methods of the path."""
    found = [r for r in request.app.state.routes if r.matches(request.scope)[0] is not Match.NONE]
    return sorted({m for r in found for m in getattr(r, "methods", None) or ()})
