"""The HTTP/1.1 connection: uvicorn's over httptools (a strict parser), with bounds on a request's head that neither of them has."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD = 64 * 1024                                                # bytes of request line and headers
HEAD_SECONDS = 30.0                                                 # from a connection's or request's first byte to the end of its headers
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class BoundedProtocol(HttpToolsProtocol):
    """Answers 431 to a head of more than MAX_HEAD bytes and 408 to one that is not complete after HEAD_SECONDS."""

    _head = 0                                                       # bytes read since the last complete head
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_here()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._head += len(data)                                     # set to 0 when a head ends in this data
        super().data_received(data)
        if self._timer is None:
            self._head = 0                                          # what came was body
        elif self._head > MAX_HEAD and not self.transport.is_closing():
            self._refuse(_TOO_LARGE)

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

    def _await_head(self) -> None:
        self._head = 0
        self._timer = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def _head_is_here(self) -> None:
        self._head = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._timer = None
        self._refuse(_TOO_SLOW)

    def _refuse(self, answer: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(answer)
            self.transport.close()
