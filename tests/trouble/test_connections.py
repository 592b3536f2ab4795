"""Raw bytes on a real connection: what two parsers could read differently is refused and the connection closed, and heads have bounds."""

import contextlib
import http.client
import re
import socket
import time
from collections.abc import Iterator

import httpx
import pytest

from headwater.engine.build import EngineSpec
from headwater.serve import http as serve_http
from tests.trouble.serving import PATIENCE, Served, serving
from tests.wire.conftest import start, stop

POST = "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
BODY = '{"prompt":"abc"}'
N = len(BODY)
CHUNKS = f"{N:x}\r\n{BODY}\r\n0\r\n\r\n"
# what an attacker wants to be taken for a request of its own
HIDDEN = "GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

AMBIGUOUS = {
    "length and chunked": f"Content-Length: {N}\r\nTransfer-Encoding: chunked\r\n\r\n{CHUNKS}",
    "chunked and length": f"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n{CHUNKS}",
    "two lengths": f"Content-Length: {N}\r\nContent-Length: {N + 5}\r\n\r\n{BODY}",
    "the same length twice": f"Content-Length: {N}\r\nContent-Length: {N}\r\n\r\n{BODY}",
    "a list of lengths": f"Content-Length: {N}, {N}\r\n\r\n{BODY}",
    "a signed length": f"Content-Length: +{N}\r\n\r\n{BODY}",
    "a negative length": f"Content-Length: -1\r\n\r\n{BODY}",
    "a hexadecimal length": f"Content-Length: 0x10\r\n\r\n{BODY}",
    "a length with an underscore": f"Content-Length: 1_6\r\n\r\n{BODY}",
    "a length beyond 64 bits": f"Content-Length: 99999999999999999999999\r\n\r\n{BODY}",
    "a blank before the colon": f"Content-Length : {N}\r\n\r\n{BODY}",
    "a blank before the coding's colon": f"Transfer-Encoding : chunked\r\n\r\n{CHUNKS}",
    "an unknown coding": f"Transfer-Encoding: xchunked\r\n\r\n{CHUNKS}",
    "no real coding": f"Transfer-Encoding: identity\r\n\r\n{BODY}",
    "chunked not last": f"Transfer-Encoding: chunked, identity\r\n\r\n{CHUNKS}",
    "two codings": f"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n{CHUNKS}",
    "a coding behind a vertical tab": f"Transfer-Encoding: \x0bchunked\r\n\r\n{CHUNKS}",
    "a quoted coding": f'Transfer-Encoding: "chunked"\r\n\r\n{CHUNKS}',
    "a folded line": f"X-A: b\r\n Content-Length: 3\r\nContent-Length: {N}\r\n\r\n{BODY}",
    "a folded coding": f"Transfer-Encoding:\r\n chunked\r\n\r\n{CHUNKS}",
    "a bare line feed": f"X-A: b\nContent-Length: {N}\r\n\r\n{BODY}",
    "a bare carriage return": f"X-A: b\rContent-Length: 3\r\nContent-Length: {N}\r\n\r\n{BODY}",
    "a NUL": f"X-A: b\0c\r\nContent-Length: {N}\r\n\r\n{BODY}",
    "a header without colon": f"X-A\r\nContent-Length: {N}\r\n\r\n{BODY}",
    "a line feed in a chunk extension": f"Transfer-Encoding: chunked\r\n\r\n{N:x};a\nb\r\n{BODY}\r\n0\r\n\r\n",
    "a prefixed chunk size": f"Transfer-Encoding: chunked\r\n\r\n0x{N:x}\r\n{BODY}\r\n0\r\n\r\n",
    "a negative chunk size": f"Transfer-Encoding: chunked\r\n\r\n-1\r\n{BODY}\r\n0\r\n\r\n",
    "a chunk size beyond 64 bits": f"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff1\r\n{BODY}\r\n0\r\n\r\n",
    "a chunk without its end": f"Transfer-Encoding: chunked\r\n\r\n{N:x}\r\n{BODY}XX0\r\n\r\n",
    "chunks on bare line feeds": f"Transfer-Encoding: chunked\r\n\r\n{N:x}\n{BODY}\n0\n\n",
}


@pytest.fixture(scope="module")
def echo() -> Iterator[Served]:
    with serving("echo") as served:
        yield served


def said(served: Served, raw: str, *, ends: bool = False) -> list[int]:
    """The statuses that came back on one connection before the server closed it. ends: we say that nothing more will come."""
    with socket.create_connection(("127.0.0.1", int(served.url.rpartition(":")[2])), PATIENCE) as s:
        out = b""
        try:
            s.sendall(raw.encode("latin-1"))
            if ends:
                s.shutdown(socket.SHUT_WR)
            while piece := s.recv(65536):
                out += piece
        except ConnectionError:                                     # closed while we were still sending
            pass
    return [int(n) for n in re.findall(rb"HTTP/1\.1 (\d{3})", out)]


def test_two_plain_requests_on_one_connection_are_two_answers(echo) -> None:
    assert said(echo, f"{POST}Content-Length: {N}\r\n\r\n{BODY}{HIDDEN}") == [200, 200]
    assert said(echo, f"{POST}Transfer-Encoding: chunked\r\n\r\n{CHUNKS}{HIDDEN}") == [200, 200]


@pytest.mark.parametrize("rest", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_a_request_that_could_be_read_in_two_ways_is_refused_and_nothing_behind_it_is_read(echo, rest) -> None:
    assert said(echo, POST + rest + HIDDEN) == [400]


def test_lines_that_end_in_bare_line_feeds_are_refused(echo) -> None:
    assert said(echo, f"{POST}Content-Length: {N}\r\n\r\n{BODY}".replace("\r\n", "\n")) == [400]


@pytest.mark.parametrize("head", [
    "X: " + "a" * 100_000 + "\r\n", "X: " + "a" * 1_000_000, "".join(f"X{i}: a\r\n" for i in range(20_000)),
], ids=["one long header", "one that never ends", "many headers"])
def test_a_head_has_a_bound(echo, head) -> None:
    assert said(echo, f"GET /version HTTP/1.1\r\nHost: localhost\r\n{head}\r\n{HIDDEN}") in ([431], [])     # []: reset before it could be read
    assert echo.health().status_code == 200


def test_a_long_address_has_the_same_bound(echo) -> None:
    assert said(echo, f"GET /{'a' * 100_000} HTTP/1.1\r\nHost: localhost\r\n\r\n") in ([431], [])


def test_a_large_body_behind_a_small_head_is_none_of_the_heads_business(echo) -> None:
    prompt = '{"prompt":"' + "a" * 300_000 + '"}'
    assert said(echo, f"{POST}Connection: close\r\nContent-Length: {len(prompt)}\r\n\r\n{prompt}") == [200]


@pytest.mark.parametrize("path", [
    "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc/passwd", "/page/index.html", "//etc/passwd", "/v1/models/../../../etc/passwd",
    "/v1/models/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/v1/responses/..%2f..%2fetc%2fpasswd", "/%00", "/v1/models/a%00b",
])
def test_no_path_leads_to_a_file(echo, path) -> None:
    assert said(echo, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")[0] in (404, 405)


LIES = {
    "less than its length": f"Content-Length: 1000\r\n\r\n{BODY}", "less than its chunk": f"Transfer-Encoding: chunked\r\n\r\n100\r\n{BODY}",
    "no last chunk": f"Transfer-Encoding: chunked\r\n\r\n{N:x}\r\n{BODY}\r\n", "a head that stops": "X-A: b\r\n",
}


@pytest.mark.parametrize("rest", LIES.values(), ids=LIES)
def test_a_body_that_ends_too_soon_is_answered_by_closing_and_leaves_no_word_in_the_log(echo, rest) -> None:
    assert said(echo, POST + rest, ends=True) == []
    assert echo.health().status_code == 200
    assert not any("Traceback" in line for line in echo.log)


def test_more_than_its_length_is_no_second_request(echo) -> None:
    assert said(echo, f"{POST}Content-Length: {N}\r\n\r\n{BODY}{BODY}") in ([400], [200, 400])


def test_many_requests_at_once_on_one_connection_are_answered_in_order(echo) -> None:
    paths = ["/version", "/nowhere", "/health"] * 20
    raw = "".join(f"GET {p} HTTP/1.1\r\nHost: localhost\r\n{'' if i < len(paths) - 1 else 'Connection: close' + chr(13) + chr(10)}\r\n"
                  for i, p in enumerate(paths))
    assert said(echo, raw) == [200, 404, 200] * 20


@pytest.mark.parametrize(("path", "status"), [("/health", 200), ("/v1/chat/completions", 405), ("/nowhere", 404)])
@pytest.mark.parametrize("protocol", ["websocket", "h2c"])
def test_no_route_becomes_another_protocol(echo, path, status, protocol) -> None:
    head = f"Host: localhost\r\nConnection: Upgrade, close\r\nUpgrade: {protocol}\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n"
    assert said(echo, f"GET {path} HTTP/1.1\r\n{head}\r\n") == [status]


@pytest.mark.parametrize("piece", [10_000, 40, 1])
@pytest.mark.parametrize("rest", [f"Content-Length: {N}\r\n\r\n{BODY}", f"Transfer-Encoding: chunked\r\n\r\n{CHUNKS}"], ids=["length", "chunked"])
def test_the_body_of_a_request_that_offers_another_protocol_is_read(echo, rest, piece) -> None:
    """Java's client offers h2c with every request over plain HTTP."""
    offer = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
    raw = (POST + offer + rest + HIDDEN).encode()
    with socket.create_connection(("127.0.0.1", int(echo.url.rpartition(":")[2])), PATIENCE) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(raw), piece):
            s.sendall(raw[at : at + piece])
        out = b"".join(iter(lambda: s.recv(65536), b""))
    assert re.findall(rb"HTTP/1\.1 (\d{3})", out) == [b"200", b"200"]
    assert b'"count":' in out and b'"version"' in out


@pytest.mark.parametrize("raw", [
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + "\0" * 200, "GET /version HTTP/3.7\r\n\r\n", "\0" * 100,
    "BREW /version HTTP/1.1\r\nHost: localhost\r\n\r\n", "CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
], ids=["HTTP/2", "TLS", "HTTP/3.7", "zeros", "unknown method", "CONNECT", "bytes in the path"])
def test_what_is_no_request_gets_400_and_the_connection_is_closed(echo, raw) -> None:
    assert said(echo, raw) == [400]


@pytest.mark.parametrize("path", ["/health", "/ready", "/version"])
def test_probes_may_ask_for_the_head_alone(echo, path) -> None:
    r = httpx.head(echo.url + path)
    assert r.status_code == 200 and not r.content


@pytest.mark.parametrize("rest", [
    "X: " + "a" * 3_000_000, "".join(f"X{i}: a\r\n" for i in range(100_000)),
], ids=["one long trailer", "many trailers"])
def test_what_follows_a_chunked_body_has_a_bound(echo, rest) -> None:
    assert said(echo, f"{POST}Transfer-Encoding: chunked\r\n\r\n{N:x}\r\n{BODY}\r\n0\r\n{rest}") in ([431], [])
    assert echo.health().status_code == 200


def test_a_body_in_chunks_of_one_byte_is_read(echo) -> None:
    prompt = '{"prompt":"' + "a" * 20_000 + '"}'
    chunks = "".join(f"1\r\n{c}\r\n" for c in prompt)
    assert said(echo, f"{POST}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n") == [200]


SLOW = {
    "a head that trickles": "GET /version HTTP/1.1\r\nHost: localhost\r\n", "nothing at all": "",
    "a body that trickles": f"{POST}Content-Length: 100\r\n\r\n{{", "chunks that trickle": f"{POST}Transfer-Encoding: chunked\r\n\r\n1\r\n{{\r\n",
}


@pytest.mark.parametrize("raw", SLOW.values(), ids=SLOW)
def test_who_sends_too_slowly_is_told_and_cut_off(raw, monkeypatch) -> None:
    monkeypatch.setattr(serve_http, "HEAD_SECONDS", 0.3)
    monkeypatch.setattr(serve_http, "BODY_SECONDS", 0.3)
    echoed = start(EngineSpec("echo"), http=serve_http.BoundedProtocol)
    try:
        assert said(Served(None, echoed.url), raw) == [408]  # type: ignore[arg-type]
        monkeypatch.undo()
        assert httpx.get(f"{echoed.url}/version").status_code == 200
    finally:
        stop(echoed)


@pytest.mark.slow
def test_an_idle_connection_outlives_the_five_seconds_that_most_clients_keep_theirs(echo) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", int(echo.url.rpartition(":")[2]), timeout=PATIENCE)
    connection.auto_open = 0  # a closed connection is an error here, not a reason for another one
    connection.connect()
    with contextlib.closing(connection):
        for pause in (0.0, 6.0):
            time.sleep(pause)
            connection.request("GET", "/version")
            answer = connection.getresponse()
            assert (answer.status, bool(answer.read())) == (200, True)
