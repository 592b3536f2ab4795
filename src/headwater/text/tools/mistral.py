"""Mistral: `[TOOL_CALLS] [{"name": ..., "arguments": {...}}, ...]`, or since version 11 `[TOOL_CALLS]name[ARGS]{...}` for each call."""

from __future__ import annotations

import json
import re
import secrets
import string

from headwater.text.markers import certain
from headwater.text.tools.api import CallNumbers, Delta, TextDelta
from headwater.text.tools.scanner import CallScanner

START, ARGS = "[TOOL_CALLS]", "[ARGS]"
_HEAD = re.compile(r"\s*([A-Za-z_][\w.\-]*)\s*(?:\[CALL_ID\][A-Za-z0-9]*)?\s*(?:\[ARGS\])?\s*(?={)")
_HEAD_CHARS = re.compile(r"[\w.\-\[\]\s]*")


def new_id() -> str:
    """Nine letters and digits, the only ids that Mistral's templates accept."""
    return "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(9))


class MistralParser:
    """See ToolParser."""

    def __init__(self, numbers: CallNumbers) -> None:
        self._numbers = numbers
        self._held = ""
        self._state = "text"                                        # text, start, list, call, named
        self._scanner: CallScanner | None = None
        self._in_list = False

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
            self._held = START + ("[" if self._in_list else "") + self._unwrapped(self._scanner.raw) + self._held
        elif self._state == "start":
            self._held = START + self._held
        elif self._state == "list":
            self._held = ""
        if self._held:
            out.append(TextDelta(self._held))
        self._held, self._state = "", "text"
        return out

    def _step(self, out: list[Delta]) -> bool:
        return getattr(self, f"_step_{self._state}")(out)

    def _step_text(self, out: list[Delta]) -> bool:
        at = self._held.find(START)
        ready = self._held[:at].rstrip() if at >= 0 else self._held[: certain(self._held, (START,))].rstrip()
        if ready:
            out.append(TextDelta(ready))
        if at < 0:
            self._held = self._held[len(ready) :]
            return False
        self._held, self._state = self._held[at + len(START) :], "start"
        return True

    def _step_start(self, out: list[Delta]) -> bool:
        body = self._held.lstrip()
        if not body:
            return False
        if body[0] == "[" and not ARGS.startswith(body[: len(ARGS)]):
            self._held, self._state, self._in_list = body[1:], "list", True
            return True
        head = _HEAD.match(self._held)
        if head is None:
            if _HEAD_CHARS.fullmatch(self._held) and len(self._held) < 300:
                return False
            self._held, self._state = START + self._held, "over"
            return True
        # the arguments alone follow: read them as the object that the older form writes
        self._wrap = f'{{"name": {json.dumps(head[1])}, "arguments": '
        self._scanner, self._in_list = CallScanner(self._numbers), False
        self._scanner.feed(self._wrap, out)
        self._held, self._state = self._held[head.end() :], "call"
        return True

    _wrap = ""

    def _unwrapped(self, raw: str) -> str:
        return raw if self._in_list else raw.removeprefix(self._wrap)

    def _step_list(self, out: list[Delta]) -> bool:
        body = self._held.lstrip(" \n\t\r,")
        self._held = body
        if not body:
            return False
        if body[0] == "{":
            self._scanner, self._state = CallScanner(self._numbers), "call"
        else:
            self._held = body.removeprefix("]").lstrip()
            self._state = "text"
        return True

    def _step_call(self, out: list[Delta]) -> bool:
        scanner = self._scanner
        assert scanner is not None
        if self._in_list:
            self._held = self._held[scanner.feed(self._held, out) :]
            if scanner.done or scanner.failed:
                if scanner.failed and not scanner.started:
                    self._held = START + "[" + scanner.raw + self._held
                self._state = "list" if scanner.done else "over"
            return True
        while self._held and not scanner.failed:
            self._held = self._held[scanner.feed(self._held[0], out) :]
            if scanner.at_top_after_value():
                scanner.feed("}", out)
                self._state = "text"
                return True
        if scanner.failed:
            self._state = "over"
        return True

    def _step_over(self, out: list[Delta]) -> bool:
        """Nothing that follows is a call."""
        out.append(TextDelta(self._held))
        self._held = ""
        return False
