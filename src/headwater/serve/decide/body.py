"""Reading a JSON body by hand, for endpoints whose dialect decides how errors look."""

from __future__ import annotations

import json
import zlib
from typing import Any

from starlette.requests import Request

from headwater.core.errors import UserInputError
from headwater.decisions.types import MAX_DEPTH, first_twice

MAX_INFLATED = 32 * 2**20


async def json_body(request: Request) -> dict[str, Any]:
    """The body as an object. Raises UserInputError (field `body`) for what is not UTF-8, not JSON, nested too deep, or not an object."""
    raw = await request.body()
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding in ("gzip", "deflate"):
        raw = _inflate(raw)
    elif encoding == "zstd":
        raw = _unzstd(raw)
    elif encoding != "identity":
        raise UserInputError(f"content-encoding: '{encoding}' is not supported; use gzip, zstd or none", field="content-encoding")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as e:
        raise UserInputError(f"body: not UTF-8 at byte {e.start}", field="body") from None
    try:
        value = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_duplicates)
    except RecursionError:
        raise UserInputError(f"body: nested more than {MAX_DEPTH} levels deep", field="body") from None
    except ValueError as e:
        raise UserInputError(f"body: {e}" if isinstance(e, UserInputError) else f"body: not valid JSON ({e})", field="body") from None
    if not isinstance(value, dict):
        raise UserInputError("body: must be a JSON object", field="body")
    return value


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError(f"the name {first_twice(k for k, _ in pairs)!r} is there twice")
    return out


def _inflate(raw: bytes) -> bytes:
    d = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        out = d.decompress(raw, MAX_INFLATED)
    except zlib.error as e:
        raise UserInputError(f"body: cannot be decompressed ({e})", field="body") from None
    if d.unconsumed_tail:
        raise UserInputError(f"body: more than {MAX_INFLATED:,} bytes when decompressed", field="body")
    return out


def _unzstd(raw: bytes) -> bytes:
    import zstandard

    try:
        return zstandard.ZstdDecompressor().decompress(raw, max_output_size=MAX_INFLATED)
    except zstandard.ZstdError as e:
        raise UserInputError(f"body: cannot be decompressed ({e})", field="body") from None
