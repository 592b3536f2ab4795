"""Stop strings over a stream of text: cut at the earliest, across the borders of tokens, holding back what may still become one."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.core.errors import UserInputError

MAX_STOPS = 64
MAX_LENGTH = 2048


class StopStrings:
    """Feed text as it comes; what comes out is certain not to belong to a stop string.

    The stop that begins first wins; of those that begin at the same place, the one that is complete first. Whatever the cuts of the
    stream, the text out and the stop are the same.

    include: leave the stop string itself in the text (`include_stop_str_in_output`).
    """

    def __init__(self, stops: Sequence[str], include: bool = False) -> None:
        if len(stops) > MAX_STOPS or any(not s or len(s) > MAX_LENGTH for s in stops):
            raise UserInputError(f"stop: up to {MAX_STOPS} strings of 1 to {MAX_LENGTH} characters would be right", field="stop")
        self._stops, self._include = tuple(stops), include
        self._held = ""
        self.stopped: str | None = None

    def push(self, text: str) -> str:
        """Append `text`, return what may be shown. Once `stopped` names the stop string, everything more is dropped."""
        if self.stopped is not None:
            return ""
        if not self._stops:
            return text
        text = self._held + text
        found = self._first(text)
        if found is None:
            keep = self._partial(text)
            self._held = text[keep:]
            return text[:keep]
        at, stop = found
        if (waits := self._partial(text)) < at:                     # an earlier, longer stop may still complete; it would win
            self._held = text[waits:]
            return text[:waits]
        return self._end(text, at, stop)

    def finish(self) -> str:
        """End of the stream: what was held back, cut if it holds a whole stop string after all."""
        text, self._held = self._held, ""
        if self.stopped is not None:
            return ""
        found = self._first(text)
        return text if found is None else self._end(text, *found)

    def _end(self, text: str, at: int, stop: str) -> str:
        self.stopped, self._held = stop, ""
        return text[: at + len(stop)] if self._include else text[:at]

    def _first(self, text: str) -> tuple[int, str] | None:
        """Start and stop string of the match that begins first, the shortest of those."""
        found = [(at, len(s), s) for s in self._stops if (at := text.find(s)) >= 0]
        if not found:
            return None
        at, _, stop = min(found)
        return at, stop

    def _partial(self, text: str) -> int:
        """The first position from which the rest of `text` is the beginning of a stop string; len(text) when there is none."""
        size = len(text)
        for n in range(min(max(map(len, self._stops)) - 1, size), 0, -1):
            tail = text[size - n :]
            if any(len(s) > n and s.startswith(tail) for s in self._stops):
                return size - n
        return size
