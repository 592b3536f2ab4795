"""Streaming decoder: token ids in, text out, never half a character."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.text.tokenizer import Tokenizer


class StreamDecoder:
    """Text of a growing sequence of ids. Whatever the cuts, the pieces join to what decoding everything at once gives.

    Bytes that can no longer become a character turn into U+FFFD at once; a character that may still be completed is held back until it is,
    or until `finish`.

    skip_special: leave control tokens out. at_start: the ids begin a text (drop the space that SentencePiece models put in front).
    """

    def __init__(self, tokenizer: Tokenizer, *, skip_special: bool = True, at_start: bool = False) -> None:
        self._bytes = tokenizer.token_bytes
        self._size = tokenizer.vocab_size
        self._skip = tokenizer.special_ids if skip_special else frozenset()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._drop_space = at_start and tokenizer.vocab.add_space_prefix

    def push(self, ids: Iterable[int]) -> str:
        """Append ids and return the text that is now certain. Ids beyond the vocabulary (padding of the output matrix) have no text."""
        raw = b"".join([self._bytes(i) for i in map(int, ids) if i not in self._skip and 0 <= i < self._size])
        if self._drop_space and raw:
            self._drop_space = False
            raw = raw.removeprefix(b" ")
        return self._decoder.decode(raw)

    def finish(self) -> str:
        """End of the sequence: what was held back, as U+FFFD when it is no character. The decoder starts anew."""
        text = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return text
