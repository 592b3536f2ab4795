"""Several engine streams as one, in the order in which deltas come; and waiting for the first of anything."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import TypeVar

from headwater.engine.choice import Delta
from headwater.engine.front import Stream

T = TypeVar("T")


async def begun(items: AsyncIterator[T]) -> AsyncGenerator[T, None]:
    """The same items, once the first is there. Raises what comes instead of it, while there is still a status to say it with."""
    first: list[T] = []
    with contextlib.suppress(StopAsyncIteration):
        first.append(await anext(items))

    async def all_of_them() -> AsyncGenerator[T, None]:
        for x in first:
            yield x
        async for x in items:
            yield x

    return all_of_them()


async def merged(streams: Sequence[Stream]) -> AsyncGenerator[tuple[int, Delta], None]:
    """Yields (stream index, delta). Closing it, or an error in one stream, cancels all of them."""
    if len(streams) == 1:
        async with streams[0] as only:
            async for delta in only:
                yield 0, delta
        return
    queue: asyncio.Queue[tuple[int, Delta | BaseException | None]] = asyncio.Queue()

    async def pump(i: int, s: Stream) -> None:
        try:
            async for delta in s:
                queue.put_nowait((i, delta))
            queue.put_nowait((i, None))
        except Exception as e:
            queue.put_nowait((i, e))

    tasks = [asyncio.ensure_future(pump(i, s)) for i, s in enumerate(streams)]
    left = len(tasks)
    try:
        while left:
            i, item = await queue.get()
            if item is None:
                left -= 1
            elif isinstance(item, BaseException):
                raise item
            else:
                yield i, item
    finally:
        for t in tasks:
            t.cancel()
        for s in streams:
            await s.aclose()
