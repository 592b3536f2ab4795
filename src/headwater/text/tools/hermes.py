"""Hermes and Qwen: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, once for each call, between or after text."""

from __future__ import annotations

from headwater.text.markers import certain
from headwater.text.tools.api import CallNumbers, Delta, TextDelta
from headwater.text.tools.scanner import CallScanner

START, END = "<tool_call>", "</tool_call>"


class HermesParser:
    """See ToolParser. White space between text and calls is layout and is left out."""

    def __init__(self, numbers: CallNumbers) -> None:
        self._numbers = numbers
        self._held = ""
        self._state = "text"                                        # text, call, after
        self._trim = False
        self._scanner: CallScanner | None = None

    @property
    def calls(self) -> int:
        return self._numbers.count

    def push(self, text: str) -> list[Delta]:
        self._held += text
        out: list[Delta] = []
        while self._step(out, final=False):
            pass
        return out

    def finish(self) -> list[Delta]:
        out: list[Delta] = []
        while self._step(out, final=True):
            pass
        if self._state == "call" and self._scanner is not None and not self._scanner.started:
            self._text(out, START + self._scanner.raw)
        elif self._state == "call" and self._scanner is None:
            self._text(out, START + self._held)
        self._held, self._state, self._scanner = "", "text", None
        return out

    def _step(self, out: list[Delta], final: bool) -> bool:
        """One move; False when nothing more can be said yet."""
        if self._state == "text":
            return self._step_text(out, final)
        if self._state == "after":
            rest = self._held.lstrip()
            if not final and len(rest) < len(END) and END.startswith(rest):
                return False
            self._held = rest.removeprefix(END)
            self._state, self._trim = "text", True
            return True
        return self._step_call(out)

    def _step_text(self, out: list[Delta], final: bool) -> bool:
        at = self._held.find(START)
        if at >= 0:
            self._text(out, self._held[:at].rstrip())
            self._held, self._state, self._scanner = self._held[at + len(START) :], "call", None
            return True
        keep = len(self._held) if final else certain(self._held, (START,))
        ready = self._held[:keep]
        if not final:
            ready = ready.rstrip()                                  # may stand before a call
        self._text(out, ready)
        self._held = "" if final else self._held[len(ready) :]
        return False

    def _step_call(self, out: list[Delta]) -> bool:
        if self._scanner is None:
            self._scanner = CallScanner(self._numbers)
        if not self._held:
            return False
        scanner = self._scanner
        n = scanner.feed(self._held, out)
        self._held = self._held[n:]
        if scanner.failed:
            if not scanner.started:
                self._trim = False
                self._text(out, START + scanner.raw)
            self._state = "text"
        elif scanner.done:
            self._state = "after"
        return True

    def _text(self, out: list[Delta], text: str) -> None:
        if self._trim:
            text = text.lstrip()
            self._trim = not text
        if text:
            out.append(TextDelta(text))
