"""Tokenizer: text to ids and back, from GGUF metadata or a hub-style tokenizer.json."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Protocol

from headwater.core.errors import UserInputError
from headwater.text.vocab import Vocabulary


class Encoder(Protocol):
    """Text to ids; one for each source of tokenizers."""

    def encode(self, text: str, add_special: bool, parse_special: bool) -> list[int]: ...


class Tokenizer:
    """Thread-safe after construction.

    vocab: the tokens and the ids with a meaning. chat_template: the model's own template or None.
    """

    def __init__(self, vocab: Vocabulary, encoder: Encoder, chat_template: str | None = None) -> None:
        self.vocab, self._encoder, self.chat_template = vocab, encoder, chat_template
        self.token_bytes = lru_cache(maxsize=1 << 15)(vocab.token_bytes)

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, Any], file: str = "GGUF") -> Tokenizer:
        """From the `tokenizer.*` keys of a GGUF file. Raises FormatError naming the key that is missing or wrong."""
        from headwater.text import gguf_vocab

        vocab, encoder = gguf_vocab.build(metadata, file)
        template = metadata.get("tokenizer.chat_template")
        return cls(vocab, encoder, template if isinstance(template, str) else None)

    @classmethod
    def from_json(cls, path: Path | str) -> Tokenizer:
        """From a tokenizer.json or the folder that holds it; the config files beside it are read when they are there.

        Raises FormatError naming the file and what is wrong with it.
        """
        from headwater.text import hub_vocab

        return cls(*hub_vocab.build(Path(path)))

    @property
    def vocab_size(self) -> int:
        """Number of ids. The model's output may be wider (padding)."""
        return len(self.vocab.tokens)

    @property
    def bos_id(self) -> int | None:
        return self.vocab.bos_id

    @property
    def eos_id(self) -> int | None:
        return self.vocab.eos_id

    @property
    def turn_end_ids(self) -> frozenset[int]:
        """Every id that ends generation: end of text, of turn, of message."""
        return self.vocab.turn_end_ids

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids of control tokens; `decode` leaves them out."""
        return self.vocab.special_ids

    def encode(self, text: str, add_special: bool = True, parse_special: bool = True) -> list[int]:
        """Ids of `text`.

        add_special: put the beginning (and end) token around it where the model wants them. A rendered chat template already holds
        them: encode it without. parse_special: the names of control tokens in the text become those tokens, else they stay text.
        Raises UserInputError for a lone surrogate, which is no text. A byte for which the vocabulary has no token (some lack rare control
        characters) is left out, as the model's own tokenizer does.
        """
        try:
            text.encode()
        except UnicodeEncodeError as e:
            raise UserInputError(f"the text holds a lone surrogate (U+{ord(text[e.start]):04X}) at character {e.start}", field="text") from None
        return self._encoder.encode(text, add_special, parse_special)

    def encode_batch(self, texts: Iterable[str], add_special: bool = True, parse_special: bool = True) -> list[list[int]]:
        """Ids of each text."""
        return [self.encode(t, add_special, parse_special) for t in texts]

    def decode(self, ids: Sequence[int], skip_special: bool = True, at_start: bool = True) -> str:
        """Text of `ids`; bytes that are no UTF-8 become U+FFFD.

        at_start: the ids begin a text, so a space that encoding puts in front of a text is taken off again.
        """
        from headwater.text.detok import StreamDecoder

        decoder = StreamDecoder(self, skip_special=skip_special, at_start=at_start)
        return decoder.push(ids) + decoder.finish()

    def token_id(self, text: str) -> int | None:
        """Id of a control or other token by its stored text (`<|im_end|>`), None when there is none."""
        return self._ids_by_text.get(text)

    @cached_property
    def _ids_by_text(self) -> dict[str, int]:
        tokens = self.vocab.all_tokens()
        return {**dict(zip(tokens, range(len(tokens)), strict=True)), **self.vocab.special_ids_by_text}

    @cached_property
    def bytes_table(self) -> list[bytes]:
        """The bytes of every id, for grammars and token healing; made on first use."""
        return [self.vocab.token_bytes(i) for i in range(self.vocab_size)]

    def check_ids(self, ids: Sequence[int], field: str) -> None:
        """Raise UserInputError naming the first id that is not in the vocabulary."""
        n = self.vocab_size
        for i, t in enumerate(ids):
            if not 0 <= t < n:
                raise UserInputError(f"{field}[{i}] is {t}; token ids go from 0 to {n - 1}", field=field)
