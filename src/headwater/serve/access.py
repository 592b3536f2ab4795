"""One line in the log, and one trace where traces are wanted, for every HTTP request."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.obs.requests import CURRENT, RequestRecord, Sink
from headwater.serve.context import Server
from headwater.serve.settings import ServeSettings

log = logging.getLogger("headwater.access")
QUIET = frozenset(("/health", "/ready", "/metrics", "/load", "/version", "/"))     # probes: many, and they say nothing when all is well


class Access:
    """The outermost layer: sees the answer as it leaves, and tells the server's sinks."""

    def __init__(self, app: ASGIApp, server: Server) -> None:
        self.app, self.server = app, server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        clock = self.server.recorder.clock
        record = RequestRecord(scope["method"], clock())
        state = scope.setdefault("state", {})

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
            await send(message)

        token = CURRENT.set(record)
        try:
            await self.app(scope, receive, noting)
        finally:
            CURRENT.reset(token)
            record.seconds = clock() - record.began
            # the pattern, not the path: what a client wrote there is its own
            record.route = getattr(scope.get("route"), "path", "(none)")
            record.request_id = state.get("request_id", "")
            headers = Headers(scope=scope)
            for sink in self.server.sinks:
                sink(record, headers)


def add_access(app: FastAPI, settings: ServeSettings) -> None:
    """Wrap the layers added so far. Raises UserInputError where traces are wanted and OpenTelemetry is not installed."""
    server: Server = app.state.server
    if settings.access_log:
        server.sinks.append(access_log(server.names[0]))
    if settings.otlp_traces_endpoint:
        from headwater.obs.traces import Traces

        server.sinks.append(Traces.exporting(settings.otlp_traces_endpoint, server.names[0]))
    app.add_middleware(Access, server=server)


def access_log(model: str) -> Sink:
    """A sink that writes one line each; probes that went well are left out."""

    def write(record: RequestRecord, headers: Mapping[str, str]) -> None:
        if record.route in QUIET and record.status < 400:
            return
        log.info("%s %s %d", record.method, record.route, record.status, extra={"fields": record.fields(model)})

    return write
