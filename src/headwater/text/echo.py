"""Text of the echo family: one token per byte, then a few control tokens; a chat template in the ChatML manner."""

from __future__ import annotations

import numpy as np

from headwater.text.specials import SpecialSplitter, fill_in_the_middle
from headwater.text.tokenizer import Tokenizer
from headwater.text.vocab import BYTE, CONTROL, USER_DEFINED, Vocabulary

_NAMED = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>")
_FIM = ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>")
TEMPLATE = """
{%- for m in messages -%}
<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant
{% endif -%}
"""


class ByteEncoder:
    """UTF-8 bytes are ids 0 to 255."""

    def __init__(self, specials: dict[str, int]) -> None:
        self._splitter = SpecialSplitter(specials)

    def encode(self, text: str, add_special: bool, parse_special: bool) -> list[int]:
        """See Tokenizer.encode; the echo family puts nothing around a text."""
        if not parse_special:
            return list(text.encode())
        ids: list[int] = []
        for piece in self._splitter.split(text):
            ids += [piece] if isinstance(piece, int) else list(piece.encode())
        return ids


def echo_tokenizer(vocabulary: int) -> Tokenizer:
    """A tokenizer of `vocabulary` ids (at least 269): bytes, control tokens, padding that never comes up."""
    names = [*_NAMED, *_FIM, *(f"<|reserved_{i}|>" for i in range(vocabulary - 256 - len(_NAMED) - len(_FIM)))]
    specials = {name: 256 + i for i, name in enumerate(names)}
    markers = {n: i for n, i in specials.items() if n not in _NAMED[3:]}
    vocab = Vocabulary(
        tokens=[*(f"<0x{b:02X}>" for b in range(256)), *names],
        types=np.array([BYTE] * 256 + [USER_DEFINED if n in _NAMED[3:] else CONTROL for n in names], np.uint8),
        spelling="bytes",
        special_ids_by_text=markers,
        eos_id=256,
        turn_end_ids=frozenset((256, 258)),
        fim=fill_in_the_middle(specials),
    )
    return Tokenizer(vocab, ByteEncoder(specials), TEMPLATE)
