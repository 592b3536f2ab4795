"""What is known about the tokens of a model: their texts, bytes, kinds, and the ids with a meaning."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

# kinds of tokens, numbered as in GGUF files
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


def _printable_bytes() -> dict[str, int]:
    """GPT-2's map of the 256 bytes to printable characters, reversed: bytes that print keep their character, the others follow at 256."""
    keep = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(b): b for b in keep}
    for n, b in enumerate(b for b in range(256) if b not in set(keep)):
        table[chr(256 + n)] = b
    return table


BYTE_OF_CHAR = _printable_bytes()
BYTE_TOKEN = re.compile("<0x([0-9A-Fa-f]{2})>")


@dataclass(slots=True)
class Vocabulary:
    """tokens: text of each id as stored. types: uint8[n], kinds above.

    spelling: how normal tokens are stored: in GPT-2's printable "bytes", in text with U+2581 for "spaces", or as a "wordpiece"
    (a space goes before each that does not begin with ##).

    special_ids_by_text: control tokens, found in text when specials are parsed and left out of decoded text.
    turn_end_ids: every id that ends generation. fim: fill-in-the-middle roles.
    add_bos, add_eos, add_space_prefix: what encoding with specials puts around and in front of the text.
    """

    tokens: Sequence[str]
    types: np.ndarray
    spelling: Literal["bytes", "spaces", "wordpiece"]
    special_ids_by_text: Mapping[str, int]
    bos_id: int | None = None
    eos_id: int | None = None
    pad_id: int | None = None
    unk_id: int | None = None
    turn_end_ids: frozenset[int] = frozenset()
    fim: Mapping[str, int] = field(default_factory=dict)
    add_bos: bool = False
    add_eos: bool = False
    add_space_prefix: bool = False
    _all: list[str] | None = None
    _special: frozenset[int] | None = None

    def all_tokens(self) -> list[str]:
        """All token texts as a list, decoded once."""
        if self._all is None:
            self._all = list(self.tokens)
        return self._all

    def text(self, token: int) -> str:
        """The token as stored in the vocabulary."""
        return self.tokens[token]

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids that decoding leaves out unless told otherwise."""
        if self._special is None:
            self._special = frozenset(self.special_ids_by_text.values())
        return self._special

    def token_bytes(self, token: int) -> bytes:
        """The bytes that a token stands for in text; for a control token its name."""
        text, kind = self.tokens[token], self.types[token]
        if kind == BYTE and (byte := BYTE_TOKEN.fullmatch(text)):
            return bytes((int(byte[1], 16),))
        if kind != NORMAL:
            return text.encode("utf-8", "replace")
        if self.spelling == "spaces":
            return text.replace("\u2581", " ").encode("utf-8", "replace")
        if self.spelling == "wordpiece":
            return (text[2:] if text.startswith("##") else " " + text).encode("utf-8", "replace")
        try:
            return bytes([BYTE_OF_CHAR[c] for c in text])
        except KeyError:                                            # an added token stored as a normal one: it is spelled in plain text
            return text.encode("utf-8", "replace")
