"""The HTTP/1.1 connection: uvicorn's over httptools (a strict parser), with bounds on a request's head and on slow senders that neither of them
has, and with the bodies of requests that offer another protocol."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD = 64 * 1024                                                # bytes of request line and headers
HEAD_SECONDS = 30.0                                                 # from a connection's or request's first byte to the end of its headers
BODY_SECONDS = 30.0                                                 # in each of which LEAST_BODY bytes of an unfinished body must come
LEAST_BODY = 16 * 1024
FRAMING = 8                                                         # bytes of chunk sizes and their extensions for one of body, at most
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class BoundedProtocol(HttpToolsProtocol):
    """Answers 431 to a head of more than MAX_HEAD bytes, 408 to one that is not complete after HEAD_SECONDS or whose body trickles.

    Offers of another protocol (`Upgrade: h2c`, which Java's client makes with every request) are not followed (RFC 9110, 7.8). The parser would end
    such a request at its head; it is read a second time without the offer, so that its body and what comes behind it are not lost.
    """

    _head = 0                                                       # bytes read since the last complete head
    _timer: asyncio.TimerHandle | None = None                       # runs while a head is awaited
    _body = 0                                                       # bytes read since the body's timer was set
    _body_timer: asyncio.TimerHandle | None = None                  # runs while a body is awaited
    _since_head = 0                                                 # bytes read behind the data that brought the head
    _payload = 0                                                    # bytes of them that are body, not framing or trailers
    _fed = b""                                                      # what the parser has been given last
    _unread: bytes | None = None                                    # what it has to be given next
    _plain: bytes | None = None                                     # a head without its offer, of a request that has one

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
        unread: bytes | None = data
        while unread is not None:
            self._fed, self._unread = unread, None
            super().data_received(unread)
            unread = self._unread
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
        if self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT":
            self._plain = self._without_offer()
            return
        head = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        self._head_is_here()
        if head > MAX_HEAD:                                         # it came in one piece
            self._refuse(_TOO_LARGE)
            return
        super().on_headers_complete()
        self._since_head = self._payload = 0
        self._await_body()

    def on_message_complete(self) -> None:
        if self._plain is not None:                                 # only its head was read
            return
        self._body_is_here()
        super().on_message_complete()

    def _unsupported_upgrade_warning(self) -> None:
        """Called while the parser's HttpParserUpgrade is handled, whose argument is where it stopped; not worth two lines of log each time."""
        stopped = sys.exc_info()[1]
        if self._plain is not None and stopped is not None:
            self._unread, self._plain = self._plain + self._fed[stopped.args[0] :], None
            self.parser = httptools.HttpRequestParser(self)         # the old one takes nothing more behind `Connection: close`
            with contextlib.suppress(AttributeError):               # httptools before 0.6.3; set as uvicorn sets it
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)

    def _without_offer(self) -> bytes:
        lines = [self.parser.get_method() + b" " + self.url + b" HTTP/" + self.parser.get_http_version().encode()]
        for name, value in self.headers:
            if name == b"connection":
                value = b", ".join(o for o in map(bytes.strip, value.split(b",")) if o.lower() not in (b"upgrade", b"http2-settings"))
            if name not in (b"upgrade", b"http2-settings") and (value or name != b"connection"):
                lines.append(name + b": " + value)
        return b"\r\n".join(lines) + b"\r\n\r\n"

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
