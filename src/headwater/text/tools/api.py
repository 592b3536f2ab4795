"""What every tool-call parser offers, the table of formats, and how calls are numbered."""

from __future__ import annotations

import importlib
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from headwater.core.errors import UserInputError


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Text outside of any call, never empty."""

    text: str


@dataclass(frozen=True, slots=True)
class CallDelta:
    """A piece of call `index` (from 0, in order). The first piece has id and name, later ones only a fragment of the arguments;
    the fragments of a call join to the JSON text of its arguments."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""


Delta = TextDelta | CallDelta


class ToolParser(Protocol):
    """Text in, deltas out. Joined by kind and call, the deltas do not depend on the cuts of the stream. Text that turns out to be no
    call after all comes out as text, complete."""

    calls: int

    def push(self, text: str) -> list[Delta]: ...
    def finish(self) -> list[Delta]: ...


class CallNumbers:
    """Hands out index and id of calls. names: functions that exist, None when unknown."""

    def __init__(self, names: Iterable[str] | None = None, new_id: Callable[[], str] | None = None) -> None:
        self.count = 0
        self._names = None if names is None else frozenset(names)
        self._new_id = new_id or (lambda: f"call_{uuid.uuid4().hex[:24]}")

    def known(self, name: str) -> bool:
        """Whether `name` can be meant; True when the functions are not known."""
        return self._names is None or name in self._names

    def start(self, name: str) -> CallDelta:
        """The first delta of the next call."""
        self.count += 1
        return CallDelta(self.count - 1, self._new_id(), name)

    def more(self, arguments: str) -> CallDelta:
        """A fragment for the call that started last."""
        return CallDelta(self.count - 1, arguments=arguments)


FORMATS = {
    "hermes": "headwater.text.tools.hermes:HermesParser",
    "llama3_json": "headwater.text.tools.llama3:Llama3Parser",
    "mistral": "headwater.text.tools.mistral:MistralParser",
    "pythonic": "headwater.text.tools.pythonic:PythonicParser",
}


def tool_parser(name: str, functions: Iterable[str] | None = None, new_id: Callable[[], str] | None = None) -> ToolParser:
    """A new parser for one answer. functions: names of the tools of the request. Raises UserInputError with the known formats."""
    if name not in FORMATS:
        raise UserInputError(f"--tool-parser {name}: one of {', '.join(FORMATS)} would be right", field="tool_parser")
    module_name, _, cls = FORMATS[name].partition(":")
    module = importlib.import_module(module_name)
    return getattr(module, cls)(CallNumbers(functions, new_id or getattr(module, "new_id", None)))


def detect_format(chat_template: str | None) -> str | None:
    """The format whose markers a chat template uses; None when it shows none."""
    text = chat_template or ""
    if "<tool_call>" in text:
        return "hermes"
    if "[TOOL_CALLS]" in text:
        return "mistral"
    if "<|python_start|>" in text:
        return "pythonic"
    if "<|python_tag|>" in text or ('"parameters"' in text and "ipython" in text):
        return "llama3_json"
    return None
