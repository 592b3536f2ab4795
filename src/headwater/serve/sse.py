"""Server-sent events, and noticing that a client has left while its answer is still being computed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from headwater.serve.errors import error_object

log = logging.getLogger("headwater.serve")
T = TypeVar("T")
Close = Callable[[], Awaitable[None]]
DONE = b"data: [DONE]\n\n"


class ClientLeftError(Exception):
    """The connection was closed before the answer was ready."""


def event(content: Any, name: str | None = None) -> bytes:
    """One event; `name` for protocols that name theirs."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + msgspec.json.encode(content) + b"\n\n"


class ClosingResponse(StreamingResponse):
    """A stream that ends its work whatever becomes of it: a generator that never began to run has no `finally` that could."""

    def __init__(self, body: AsyncIterator[bytes], close: Close, **kwargs: Any) -> None:
        super().__init__(body, **kwargs)
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._close()


def stream(events: AsyncIterator[bytes], headers: dict[str, str], close: Close, done: bytes = DONE, on_error: Any = None) -> StreamingResponse:
    """Send `events`, then `done`. An exception becomes an error event (or what `on_error` makes of it), never silence.

    close: cancels what is still running; called at the end, however it comes.
    """

    async def body() -> AsyncIterator[bytes]:
        try:
            async with contextlib.aclosing(events) as source:        # type: ignore[type-var]
                async for chunk in source:
                    yield chunk
        except asyncio.CancelledError:
            raise
        except Exception as e:
            if not hasattr(e, "exit_code"):
                log.exception("stream failed")
            yield on_error(e) if on_error else event(error_object(e))
            if on_error:
                return
        yield done

    quiet = {"cache-control": "no-cache", "x-accel-buffering": "no", **headers}
    return ClosingResponse(body(), close, media_type="text/event-stream", headers=quiet)


async def unless_client_leaves(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Await `work`; cancel it and raise ClientLeftError when the client disconnects first."""
    task = asyncio.ensure_future(work)
    watcher = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({task, watcher}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientLeftError
    finally:
        for t in (task, watcher):
            if not t.done():
                t.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await t


async def _gone(request: Request) -> None:
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            return
