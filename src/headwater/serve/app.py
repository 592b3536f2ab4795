"""The HTTP application: routes, request ids, keys, body limits, error objects."""

from __future__ import annotations

import contextlib
import hmac
import secrets
from typing import Any

from fastapi import FastAPI
from pydantic import TypeAdapter, ValidationError
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater import __version__
from headwater.engine.front import Front
from headwater.serve import chat, completions, embeddings, errors, messages, misc, ollama, openapi, responses, web
from headwater.serve.access import add_access
from headwater.serve.context import Server
from headwater.serve.decide import batch, decisions, score, systemone
from headwater.serve.errors import AuthenticationError, error_response, in_dialect, plain_error
from headwater.serve.origin import SameSite
from headwater.serve.schema.common import RequestId
from headwater.serve.settings import ServeSettings
from headwater.serve.sse import ClientLeftError

OPEN_PATHS = ("/", "/health", "/ready", "/version")
_SAFE_ID = TypeAdapter(RequestId)


def create_app(front: Front, settings: ServeSettings) -> FastAPI:
    """All endpoints over one front. The caller starts and closes the front."""
    app = FastAPI(title="Headwater", version=__version__, docs_url=None, redoc_url=None)
    app.state.server = Server(front, settings)
    errors.install(app)
    openapi.install(app)

    @app.exception_handler(ClientLeftError)
    async def left(request: Any, error: ClientLeftError) -> Any:
        return plain_error(499, "the client closed the connection")

    modules = (web, chat, completions, embeddings, responses, messages, ollama, misc, systemone, decisions, batch, score)
    for module in modules:
        app.include_router(module.router)
    app.state.routes = [route for module in modules for route in module.router.routes]
    app.add_middleware(Gate, settings=settings)
    app.add_middleware(SameSite, hosts=settings.allowed_hosts, cors=settings.cors)
    add_access(app, settings)
    if settings.cors:
        from starlette.middleware.cors import CORSMiddleware

        app.add_middleware(CORSMiddleware, allow_origins=list(settings.cors), allow_methods=["*"], allow_headers=["*"])
    return app


def _safe_id(given: str) -> str | None:
    try:
        return _SAFE_ID.validate_python(given)
    except ValidationError:
        return None


class Gate:
    """Before any endpoint: a request id, the key, the size of the body."""

    def __init__(self, app: ASGIApp, settings: ServeSettings) -> None:
        self.app = app
        self.settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        request_id = _safe_id(headers.get("x-request-id", "")) or f"req-{secrets.token_hex(12)}"
        scope.setdefault("state", {})["request_id"] = request_id

        started = False

        async def send_with_id(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                MutableHeaders(scope=message)["x-request-id"] = request_id
            await send(message)

        if self.settings.api_keys and scope["path"] not in OPEN_PATHS and not self._key_ok(headers):
            error = AuthenticationError("authorization: a valid API key is needed (Authorization: Bearer …)", field="authorization")
            await in_dialect(Request(scope), error_response(error))(scope, receive, send_with_id)
            return
        length = headers.get("content-length", "")
        limit = self.settings.max_body
        if length.isdecimal() and int(length) > limit:
            await in_dialect(Request(scope), self._too_large(int(length)))(scope, receive, send_with_id)
            return
        seen, over = 0, False

        async def limited() -> Message:
            nonlocal seen, over
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > limit:                                        # a chunked body has no length to check beforehand
                over = True
                raise BodyTooLargeError
            return message

        async def send_unless_over(message: Message) -> None:
            if not over:                                            # the framework answers a failed read in its own way; we know better
                await send_with_id(message)

        try:
            with contextlib.suppress(BodyTooLargeError):
                await self.app(scope, limited, send_unless_over)
        except Exception as e:
            if started:                                             # half an answer is out: only a cut connection says that the rest is missing
                raise
            # answered here and not by the framework's outermost layer, which raises on and takes the connection with it
            await in_dialect(Request(scope), error_response(e))(scope, receive, send_with_id)
        if over:
            await in_dialect(Request(scope), self._too_large(seen))(scope, receive, send_with_id)

    def _too_large(self, size: int) -> Any:
        return plain_error(413, f"body: {size:,} bytes, at most {self.settings.max_body:,} are read", code="body_too_large")

    def _key_ok(self, headers: Headers) -> bool:
        given = headers.get("authorization", "").removeprefix("Bearer ").strip() or headers.get("x-api-key", "")
        # every key is compared, each in constant time
        return sum(hmac.compare_digest(given.encode(), key.encode()) for key in self.settings.api_keys) > 0


class BodyTooLargeError(Exception):
    """More body than the settings allow."""
