"""Work on large requests off the event loop: while a prompt of megabytes is rendered and cut into tokens, `/health` and every stream go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from starlette.requests import Request

P = ParamSpec("P")
T = TypeVar("T")
LARGE = 16 * 1024                                                   # bytes of a request that cost about a millisecond of work


def size_of(request: Request) -> int:
    """Bytes of the body that was read, as it came."""
    return len(getattr(request, "_body", b""))


async def off_loop(size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """`work(*args)`: here at once for requests of less than LARGE bytes, on a thread for larger ones. Raises what it raises."""
    if size < LARGE:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)
