"""Errors that speak to the person who can act: one line, the field, the numbers, a guess at the cause."""

from pathlib import Path
from typing import Any


def printable(text: str) -> str:
    """The text with characters that do not print (line breaks among them) escaped."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class HeadwaterError(Exception):
    """Ours to fix unless a subclass says otherwise. `exit_code` is what the command line returns."""

    exit_code = 1


class UserInputError(HeadwaterError):
    """The caller's input is wrong; the message names the field or file and what would be right.

    field: dotted name of the request field (`messages[2].content`) or the file name; used as OpenAI's `param`. What the input itself brought into
    the message cannot break the line: characters that do not print are escaped.
    """

    exit_code = 2

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(printable(message))
        self.field = field


def expect(field: str, value: object, kinds: Any, wanted: str) -> None:
    """Raises UserInputError where an argument is none of `kinds` (a type or several); wanted: what would be right."""
    if not isinstance(value, kinds):
        raise UserInputError(f"{field}: must be {wanted}, got {type(value).__name__}", field)


def expect_writable(option: str, path: Path | None) -> None:
    """Before long work: raises UserInputError naming the option where results could not be written to `path`."""
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        wrong = "is a folder; name a file in it" if path.is_dir() else "its folder does not exist"
        raise UserInputError(f"--{option} {path}: {wrong}", field=option)


class FormatError(UserInputError):
    """A file from outside is malformed. `FormatError("model.gguf: tensor 'x' ends at byte 9 but the file has 8 bytes")`."""


class ContextLengthError(UserInputError):
    """Prompt (plus the wanted tokens) does not fit the context; the message gives both numbers."""


class CapacityError(HeadwaterError):
    """Refused by load, not by fault; try again after `retry_after` seconds."""

    def __init__(self, message: str, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after
