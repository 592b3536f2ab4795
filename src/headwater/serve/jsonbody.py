"""Reading JSON bodies: one strict reader for every endpoint, so that no dialect takes what another refuses."""

from __future__ import annotations

import json
import re
import sys
import zlib
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from headwater.core.errors import UserInputError
from headwater.core.unicode import encodable
from headwater.decisions.types import depth, first_twice
from headwater.serve.errors import MediaTypeError

MAX_INFLATED = 32 * 2**20
MAX_NESTING = 200                                                   # levels of lists and objects in a body
# the escape of a surrogate; whether its other half follows is looked up only where one is there
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
# what curl and plain HTTP clients say when nobody told them; pages of other sites, which may send these too, do not get this far (`origin.py`)
_UNSAID = ("", "application/x-www-form-urlencoded", "text/plain", "application/octet-stream")


class JsonRoute(APIRoute):
    """A route whose JSON body is read by `json_body`; routes without a body are as usual."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        inner = super().get_route_handler()
        if self.body_field is None:
            return inner

        async def handler(request: Request) -> Response:
            headers = [(k, v) for k, v in request.scope["headers"] if k != b"content-type"]
            scope = {**request.scope, "headers": [*headers, (b"content-type", b"application/json")]}
            return await inner(_Read(scope, request.receive, await json_body(request), await request.body()))

        return handler


class _Read(Request):
    """A request whose body was read before."""

    def __init__(self, scope: Any, receive: Any, value: dict[str, Any], raw: bytes) -> None:
        super().__init__(scope, receive)
        self._value = value
        self._body = raw

    async def json(self) -> Any:
        return self._value


async def json_body(request: Request) -> dict[str, Any]:
    """The body as an object. Raises UserInputError (field `body`) for what is not UTF-8, not JSON, nested too deep, or not an object."""
    _check_type(request)
    text = decoded(request, await request.body())
    if not text.strip():
        raise UserInputError("body: is empty; a JSON object would be right", field="body")
    value = parsed(text)
    if not isinstance(value, dict):
        raise UserInputError("body: must be a JSON object", field="body")
    return value


def decoded(request: Request, raw: bytes) -> str:
    """The text of a body, decompressed. Raises UserInputError."""
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding in ("gzip", "deflate"):
        raw = _inflate(raw)
    elif encoding == "zstd":
        raw = _unzstd(raw)
    elif encoding != "identity":
        raise MediaTypeError(f"content-encoding: {encoding[:40]!r} is not supported; use gzip, zstd or none", field="content-encoding")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as e:
        raise UserInputError(f"body: not UTF-8 at byte {e.start}", field="body") from None


def parsed(text: str, where: str = "body") -> Any:
    """The JSON value of `text`. Raises UserInputError (field `where`) for NaN, a name that is there twice, lone surrogates, deep nesting."""
    try:
        value = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_duplicates)
        if text.count("[") + text.count("{") > MAX_NESTING and depth(value, MAX_NESTING) > MAX_NESTING:
            raise RecursionError
        if _SURROGATE.search(text):
            _check_surrogates(value, "" if where == "body" else f"{where}.")
        return value
    except RecursionError:
        raise UserInputError(f"{where}: nested more than {MAX_NESTING} levels deep", field=where) from None
    except UserInputError:
        raise
    except ValueError as e:
        if "integer string conversion" in str(e):
            raise UserInputError(f"{where}: holds a number of more than {sys.get_int_max_str_digits():,} digits", field=where) from None
        raise UserInputError(f"{where}: not valid JSON ({str(e)[:200]})", field=where) from None


def _check_type(request: Request) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json")):
        return
    if kind in _UNSAID:
        return
    raise MediaTypeError(f"content-type: {kind[:60]!r} is not read here; application/json would be right", field="content-type")


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError(f"the name {str(first_twice(k for k, _ in pairs))[:100]!r} is there twice")
    return out


def _check_surrogates(value: Any, where: str) -> None:
    if isinstance(value, str):
        encodable(value, where.removesuffix(".") or "body")
    elif isinstance(value, list):
        for i, x in enumerate(value):
            _check_surrogates(x, f"{where.removesuffix('.')}[{i}].")
    elif isinstance(value, dict):
        for k, x in value.items():
            encodable(k, f"{where}the name of a field")
            _check_surrogates(x, f"{where}{k}.")


def _inflate(raw: bytes) -> bytes:
    d = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        out = d.decompress(raw, MAX_INFLATED)
    except zlib.error as e:
        raise UserInputError(f"body: cannot be decompressed ({e})", field="body") from None
    if d.unconsumed_tail:
        raise UserInputError(f"body: more than {MAX_INFLATED:,} bytes when decompressed", field="body")
    if not d.eof:
        raise UserInputError("body: cannot be decompressed (it is cut short)", field="body")
    return out


def _unzstd(raw: bytes) -> bytes:
    import zstandard

    try:
        return zstandard.ZstdDecompressor().decompress(raw, max_output_size=MAX_INFLATED)
    except zstandard.ZstdError as e:
        raise UserInputError(f"body: cannot be decompressed ({e})", field="body") from None
