"""Pythonic calls (Llama 3.2 and 4): `[f(a=1, b="x"), g()]`, perhaps between `<|python_start|>` and `<|python_end|>`."""

from __future__ import annotations

import ast
import json
import re

from headwater.text.tools.api import CallNumbers, Delta, TextDelta

START, END = "<|python_start|>", "<|python_end|>"
_LIST = re.compile(r"\[\s*[A-Za-z_][\w.]*\s*\(")
_LIST_PREFIX = re.compile(r"\[\s*(?:[A-Za-z_][\w.]*\s*)?")
MAX_CALL = 1 << 16                                                  # characters of one call
_PAIRS = {"(": ")", "[": "]", "{": "}"}


class PythonicParser:
    """See ToolParser. A call comes out when its parenthesis closes. An answer that does not begin with a call is text to its end."""

    def __init__(self, numbers: CallNumbers) -> None:
        self._numbers = numbers
        self._held = ""
        self._state = "start"                                       # start, list, ended, text

    @property
    def calls(self) -> int:
        return self._numbers.count

    def push(self, text: str) -> list[Delta]:
        self._held += text
        out: list[Delta] = []
        while self._held and self._step(out, final=False):
            pass
        return out

    def finish(self) -> list[Delta]:
        out: list[Delta] = []
        while self._held and self._step(out, final=True):
            pass
        if self._state == "list":                                   # an open list: what follows its last complete call is text
            self._held = self._lead + self._held if not self._numbers.count else self._held.strip(" ,]\n")
        if self._held:
            out.append(TextDelta(self._held))
        self._held, self._state = "", "text"
        return out

    def _step(self, out: list[Delta], final: bool) -> bool:
        if self._state == "text":
            out.append(TextDelta(self._held))
            self._held = ""
            return False
        if self._state == "start":
            return self._step_start(final)
        if self._state == "ended":
            rest = self._held.lstrip()
            if not rest or (not final and len(rest) < len(END) and END.startswith(rest)):
                self._held = "" if final else rest
                return False
            self._held, self._state = rest.removeprefix(END).lstrip(), "text"
            return True
        return self._step_list(out)

    def _step_start(self, final: bool) -> bool:
        seen = self._held.lstrip()
        if not final and len(seen) < len(START) and START.startswith(seen):
            return False
        body = seen.removeprefix(START).lstrip()
        if _LIST.match(body):
            self._state = "list"
            self._lead, self._held = self._held[: len(self._held) - len(body)] + "[", body[1:]
            return True
        if not final and (not body or (_LIST_PREFIX.fullmatch(body) and len(body) < 200)):
            return False
        self._state = "text"
        return True

    _lead = ""

    def _step_list(self, out: list[Delta]) -> bool:
        rest = self._held.lstrip(" ,\n\t")
        if rest.startswith("]"):
            self._held, self._state = rest[1:], "ended"
            return True
        end = _end_of_call(rest)
        if end is None and len(rest) <= MAX_CALL:
            return False
        call = _parse(rest[:end]) if end is not None else None
        if call is None or not self._numbers.known(call[0]):
            if not self._numbers.count:
                rest = self._lead + rest
            self._held, self._state = rest, "text"
            return True
        out.append(self._numbers.start(call[0]))
        out.append(self._numbers.more(call[1]))
        self._held = rest[end:]
        return True


def _end_of_call(text: str) -> int | None:
    """Index after the parenthesis that closes the call at the start of `text`; None while it is open."""
    stack: list[str] = []
    quote = ""
    skip = False
    for i, ch in enumerate(text):
        if skip:
            skip = False
        elif quote:
            if ch == "\\":
                skip = True
            elif ch == quote:
                quote = ""
        elif ch in "'\"":
            quote = ch
        elif ch in _PAIRS:
            stack.append(_PAIRS[ch])
        elif ch in ")]}":
            if not stack or stack.pop() != ch:
                return i + 1                                        # unbalanced: the parser that follows refuses it
            if not stack:
                return i + 1
    return None


def _parse(text: str) -> tuple[str, str] | None:
    """Name and JSON arguments of one call of keyword literals; None when it is anything else."""
    try:
        node = ast.parse(text.strip(), mode="eval").body
        if not isinstance(node, ast.Call) or node.args:
            return None
        arguments = {k.arg: _literal(k.value) for k in node.keywords}
        name = ast.unparse(node.func)
        if None in arguments or not re.fullmatch(r"[A-Za-z_][\w.]*", name):
            return None
        return name, json.dumps(arguments, ensure_ascii=False, allow_nan=False)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None


class _JsonWords(ast.NodeTransformer):
    """JSON's true, false and null are a frequent slip."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        words = {"true": True, "false": False, "null": None}
        return ast.copy_location(ast.Constant(words[node.id]), node) if node.id in words else node


def _literal(node: ast.expr) -> object:
    return ast.literal_eval(_JsonWords().visit(node))
