"""Web pages of strangers: a browser on this machine must not carry their requests to a server that only this machine was meant to reach."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from headwater.serve.errors import plain_error


class SameSite:
    """403 for a Host that is not ours (a stranger's name made to resolve to loopback), and for an Origin that is neither ours nor in `cors`.

    hosts: names that Host may give, without port; empty = any.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str], cors: Collection[str]) -> None:
        self.app, self.hosts, self.cors = app, frozenset(h.lower() for h in hosts), frozenset(cors)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (reason := self.refusal(Headers(scope=scope))):
            await plain_error(403, reason, code="forbidden")(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def refusal(self, headers: Headers) -> str | None:
        """Why a request with these headers is not served, None when it is."""
        hosts = headers.getlist("host")
        host = hosts[0] if hosts else ""
        if len(hosts) > 1:
            return "host: is there twice"
        if self.hosts and _name(f"//{host}") not in self.hosts:
            return "host: this server does not go by that name (--allowed-host adds one)"
        origin = headers.get("origin")
        if origin is None or "*" in self.cors or origin in self.cors or origin.partition("://")[2] == host:
            return None
        return "origin: pages from there may not call this server (--cors allows them)"


def _name(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:                                              # brackets that hold no address
        return ""
