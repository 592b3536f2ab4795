"""Reads one JSON object `{"name": ..., "arguments": {...}}` character by character and gives its arguments away as they come."""

from __future__ import annotations

import json

from headwater.text.tools.api import CallNumbers, Delta

_NAMES = frozenset(("name", "function"))
_ARGUMENTS = frozenset(("arguments", "parameters", "args"))
_OPEN, _CLOSE = {"{": "}", "[": "]"}, frozenset("}]")
MAX_DEPTH = 200


class CallScanner:
    """State of one object. `raw`: all that was read. `done`: the object is complete. `failed`: it is none, or no call.

    The call starts (its first delta is made) when its name and the beginning of its arguments are known, so that JSON which merely has a
    name is not taken for one; `bare_ok` also starts a call without arguments when the object ends.
    """

    def __init__(self, numbers: CallNumbers, bare_ok: bool = True) -> None:
        self._numbers, self._bare_ok = numbers, bare_ok
        self.raw = ""
        self.done = self.failed = self.started = False
        self._name: str | None = None
        self._arguments: str | None = None                          # raw text not yet given away; None before the key was seen
        self._stack: list[str] = []
        self._expect = "{"                                          # at the top: { key : value , or end
        self._key = self._value = ""
        self._string = self._escape = False
        self._given = 0                                             # how much of the arguments is out

    def feed(self, text: str, out: list[Delta]) -> int:
        """Read from `text` until the object ends or fails; returns how many characters were read."""
        for n, ch in enumerate(text):
            self.raw += ch
            self._read(ch)
            if self.failed or self.done:
                self._give(out)
                return n + 1
        self._give(out)
        return len(text)

    def at_top_after_value(self) -> bool:
        """Whether a value has just ended at the top level of the object."""
        return len(self._stack) == 1 and self._expect == ","

    def _read(self, ch: str) -> None:
        if self._string:
            self._value += ch
            if self._escape:
                self._escape = False
            elif ch == "\\":
                self._escape = True
            elif ch == '"':
                self._string = False
                if len(self._stack) == 1:
                    self._end_string()
            return
        if len(self._stack) > 1:
            self._nested(ch)
        elif self._expect == "value":
            self._begin_value(ch)
        elif ch.isspace():
            return
        elif self._expect == "{" and ch == "{":
            self._stack, self._expect = ["}"], "key"
        elif self._expect == "key" and ch == '"':
            self._string, self._value = True, ch
        elif self._expect == ":" and ch == ":":
            self._expect, self._value = "value", ""
        elif self._expect == "," and ch == ",":
            self._expect = "key"
        elif ch == "}" and (self._expect == "," or (self._expect == "key" and not self._key)):
            self._end_object()
        else:
            self.failed = True

    def _nested(self, ch: str) -> None:
        self._value += ch
        if ch == '"':
            self._string = True
        elif ch in _OPEN:
            self._stack.append(_OPEN[ch])
            self.failed = len(self._stack) > MAX_DEPTH
        elif ch in _CLOSE:
            if self._stack.pop() != ch:
                self.failed = True
            elif len(self._stack) == 1:
                self._end_value()

    def _begin_value(self, ch: str) -> None:
        """At the top level inside a value that is not (yet) a string or a container: white space, a number, a word."""
        if not self._value and ch.isspace():
            return
        if not self._value and ch == '"':
            self._string, self._value = True, ch
        elif not self._value and ch in _OPEN:
            self._value = ch
            self._stack.append(_OPEN[ch])
            if self._key in _ARGUMENTS and ch == "{" and self._arguments is None:
                self._arguments = ""
        elif ch in ",}" or ch.isspace():
            self._end_value()
            if ch == "}":
                self._end_object()
            elif ch == ",":
                self._expect = "key"
        else:
            self._value += ch

    def _end_string(self) -> None:
        if self._expect == "key":
            self._key, self._expect = self._decode(self._value), ":"
        else:
            self._end_value()

    def _end_value(self) -> None:
        self._expect = ","
        if self._key in _NAMES and self._name is None:
            self._name = self._decode(self._value)
        elif self._key in _ARGUMENTS and self._arguments is None:   # not an object: JSON text in a string, null, or nonsense
            text = self._decode(self._value) if self._value.startswith('"') else self._value
            self._arguments, self._given = ("{}" if text in ("null", "") else text), 0
        elif self._key in _ARGUMENTS:
            self._arguments = self._value

    def _decode(self, literal: str) -> str:
        try:
            value = json.loads(literal)
        except ValueError:
            value = None
        if not isinstance(value, str):
            self.failed = True
            return ""
        return value

    def _end_object(self) -> None:
        bare = self._arguments is None
        if not self._name or (bare and not self._bare_ok) or not self._numbers.known(self._name):
            self.failed = True
            return
        if bare:
            self._arguments = "{}"
        self.done = True

    def _give(self, out: list[Delta]) -> None:
        if self._name is None or self._arguments is None or (self.failed and not self.started):
            return
        if not self.started:
            if not self._numbers.known(self._name):
                return
            self.started = True
            out.append(self._numbers.start(self._name))
        whole = self._value if self._key in _ARGUMENTS and self._expect == "value" else self._arguments
        if len(whole) > self._given:
            out.append(self._numbers.more(whole[self._given :]))
            self._given = len(whole)
