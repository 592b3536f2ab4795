"""The HTTP/1.1 connection: uvicorn's over httptools (a strict parser), with bounds on a request's head and on slow senders that neither of them
has."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD = 64 * 1024                                                # bytes of request line and headers
HEAD_SECONDS = 30.0                                                 # from a connection's or request's first byte to the end of its headers
BODY_SECONDS = 30.0                                                 # in each of which LEAST_BODY bytes of an unfinished body must come
LEAST_BODY = 16 * 1024
FRAMING = 8                                                         # bytes of chunk sizes and their extensions for one of body, at most
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class BoundedProtocol(HttpToolsProtocol):
    """Answers 431 to a head of more than MAX_HEAD bytes, 408 to one that is not complete after HEAD_SECONDS or whose body trickles."""

    _head = 0                                                       # bytes read since the last complete head
    _timer: asyncio.TimerHandle | None = None                       # runs while a head is awaited
    _body = 0                                                       # bytes read since the body's timer was set
    _body_timer: asyncio.TimerHandle | None = None                  # runs while a body is awaited
    _since_head = 0                                                 # bytes read behind the data that brought the head
    _payload = 0                                                    # bytes of them that are body, not framing or trailers

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_here()
        self._body_is_here()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._head += len(data)                                     # set to 0 when a head ends in this data
        self._body += len(data)
        self._since_head += len(data)
        super().data_received(data)
        if self._timer is None:
            self._head = 0                                          # what came was body
        # trailers are kept like headers, though nobody reads them
        trailing = self._body_timer is not None and self._since_head - self._payload > MAX_HEAD + FRAMING * self._payload
        if self._head > MAX_HEAD or trailing:
            self._refuse(_TOO_LARGE)

    def on_body(self, body: bytes) -> None:
        self._payload += len(body)
        super().on_body(body)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._timer is None:
            self._await_head()

    def on_headers_complete(self) -> None:
        head = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        self._head_is_here()
        if head > MAX_HEAD:                                         # it came in one piece
            self._refuse(_TOO_LARGE)
            return
        super().on_headers_complete()
        self._since_head = self._payload = 0
        self._await_body()

    def on_message_complete(self) -> None:
        self._body_is_here()
        super().on_message_complete()

    def _unsupported_upgrade_warning(self) -> None:
        """Not followed, and not worth two lines of log each time."""

    def _await_head(self) -> None:
        self._head = 0
        self._timer = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def _head_is_here(self) -> None:
        self._head = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _await_body(self) -> None:
        self._body_is_here()
        self._body, self._body_timer = 0, self.loop.call_later(BODY_SECONDS, self._body_late)

    def _body_is_here(self) -> None:
        if self._body_timer is not None:
            self._body_timer.cancel()
            self._body_timer = None

    def _body_late(self) -> None:
        if self.flow.read_paused or self._body >= LEAST_BODY:       # we let the sender wait, or he keeps up
            self._await_body()
        elif self.cycle.response_complete:
            self.transport.close()
        else:
            self._refuse(_TOO_SLOW)

    def _too_slow(self) -> None:
        self._timer = None
        self._refuse(_TOO_SLOW)

    def _refuse(self, answer: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(answer)
            self.transport.close()
