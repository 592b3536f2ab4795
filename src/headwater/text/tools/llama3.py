"""Llama 3: the whole answer is `{"name": ..., "parameters": {...}}`, several of them separated by `;`, perhaps after `<|python_tag|>`."""

from __future__ import annotations

from headwater.text.tools.api import CallNumbers, Delta, TextDelta
from headwater.text.tools.scanner import CallScanner

TAG = "<|python_tag|>"


class Llama3Parser:
    """See ToolParser. An answer that begins otherwise, or with JSON that is no call, is text to its end."""

    def __init__(self, numbers: CallNumbers) -> None:
        self._numbers = numbers
        self._held = ""
        self._state = "start"                                       # start, call, after, text
        self._lead = ""                                             # what stood before the object, should it be no call
        self._scanner: CallScanner | None = None

    @property
    def calls(self) -> int:
        return self._numbers.count

    def push(self, text: str) -> list[Delta]:
        self._held += text
        out: list[Delta] = []
        while self._held and self._step(out):
            pass
        return out

    def finish(self) -> list[Delta]:
        out: list[Delta] = []
        if self._state == "call" and self._scanner is not None and not self._scanner.started:
            self._held = self._lead + self._scanner.raw + self._held
        if self._state != "after" or self._held.strip(" \n;"):
            self._text(out)
        self._held, self._state = "", "text"
        return out

    def _step(self, out: list[Delta]) -> bool:
        if self._state == "text":
            self._text(out)
            return False
        if self._state == "call":
            return self._step_call(out)
        seen = self._held.lstrip(" \n\t;" if self._state == "after" else None)
        if self._state == "start" and len(seen) < len(TAG) and TAG.startswith(seen):
            return False
        body = seen.removeprefix(TAG).lstrip() if self._state == "start" else seen
        if not body:
            return False
        if not body.startswith("{"):
            self._state = "text"
            return True
        self._lead, self._held = self._held[: len(self._held) - len(body)], body
        self._state, self._scanner = "call", CallScanner(self._numbers, bare_ok=False)
        return True

    def _step_call(self, out: list[Delta]) -> bool:
        scanner = self._scanner
        assert scanner is not None
        n = scanner.feed(self._held, out)
        self._held = self._held[n:]
        if scanner.failed:
            if not scanner.started:
                self._held = self._lead + scanner.raw + self._held
            self._state = "text"
        elif scanner.done:
            self._state = "after"
        return True

    def _text(self, out: list[Delta]) -> None:
        if self._held:
            out.append(TextDelta(self._held))
            self._held = ""
