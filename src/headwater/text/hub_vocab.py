"""From a hub-style folder to a vocabulary and its encoder: tokenizer.json is read by the `tokenizers` library as it stands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import numpy as np
from tokenizers import Tokenizer as HfTokenizer

from headwater.core.errors import FormatError
from headwater.text.specials import fill_in_the_middle, turn_ends
from headwater.text.vocab import BYTE, BYTE_TOKEN, CONTROL, NORMAL, UNUSED, USER_DEFINED, Vocabulary

MAX_FILE = 128 << 20
MAX_ID = 1 << 22


class HubEncoder:
    """The library's own encoding; a second tokenizer for text whose control tokens stay text is made when it is first needed."""

    def __init__(self, tokenizer: HfTokenizer) -> None:
        self._special = tokenizer
        self._plain: HfTokenizer | None = None

    def encode(self, text: str, add_special: bool, parse_special: bool) -> list[int]:
        """See Tokenizer.encode."""
        if parse_special:
            return self._special.encode(text, add_special_tokens=add_special).ids
        if self._plain is None:
            plain = HfTokenizer.from_str(self._special.to_str())
            plain.encode_special_tokens = True
            self._plain = plain
        return self._plain.encode(text, add_special_tokens=add_special).ids


def build(path: Path) -> tuple[Vocabulary, HubEncoder, str | None]:
    """path: tokenizer.json or its folder. Returns vocabulary, encoder, chat template. Raises FormatError naming the file."""
    file = path / "tokenizer.json" if path.is_dir() else path
    tok = _load(file)
    tok.no_truncation()                                             # a length limit stored in the file would cut prompts silently
    tok.no_padding()
    config = read_config(file.with_name("tokenizer_config.json"))
    special_map = read_config(file.with_name("special_tokens_map.json"))
    tokens, types = _tokens(tok, file.name)
    by_text = {tokens[i]: i for i in np.flatnonzero(types == CONTROL).tolist()}
    user = {tokens[i]: i for i in np.flatnonzero(types == USER_DEFINED).tolist()}
    ids = {}
    for role in ("bos", "eos", "pad", "unk"):
        text = _token_text(config.get(f"{role}_token", special_map.get(f"{role}_token")))
        ids[role] = None if text is None else tok.token_to_id(text)
    named = _eos_ids(file, len(tokens)) + ([ids["eos"]] if ids["eos"] is not None else [])
    spelling, drops_space = _spelling(tok)
    around = tok.encode("", add_special_tokens=True).ids
    vocab = Vocabulary(
        tokens=tokens,
        types=types,
        spelling=spelling,
        special_ids_by_text=by_text,
        bos_id=ids["bos"],
        eos_id=ids["eos"],
        pad_id=ids["pad"],
        unk_id=ids["unk"],
        turn_end_ids=turn_ends({**user, **by_text}, named),
        fim=fill_in_the_middle({**user, **by_text}),
        add_bos=bool(around) and around[0] == ids["bos"],
        add_eos=bool(around) and around[-1] == ids["eos"],
        add_space_prefix=drops_space,
    )
    return vocab, HubEncoder(tok), _chat_template(file, config)


def _load(file: Path) -> HfTokenizer:
    _check_size(file)
    try:
        return HfTokenizer.from_file(str(file))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as e:                                      # bare exceptions and panics of the library
        raise FormatError(f"{file.name}: not a tokenizer ({' '.join(str(e).split())[:200]})", field=file.name) from None


def _check_size(file: Path) -> None:
    if not file.is_file():
        raise FormatError(f"{file}: no such file", field=file.name)
    if file.stat().st_size > MAX_FILE:
        raise FormatError(f"{file.name}: {file.stat().st_size:,} bytes; at most {MAX_FILE:,} are allowed", field=file.name)


def read_config(file: Path) -> dict[str, Any]:
    """A small JSON file beside the tokenizer; {} when it is missing. Raises FormatError when it is no JSON object."""
    if not file.is_file():
        return {}
    _check_size(file)
    try:
        value = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as e:
        raise FormatError(f"{file.name}: not valid JSON ({' '.join(str(e).split())[:120]})", field=file.name) from None
    if not isinstance(value, dict):
        raise FormatError(f"{file.name}: not a JSON object", field=file.name)
    return value


def _tokens(tok: HfTokenizer, file: str) -> tuple[list[str], np.ndarray]:
    vocab = tok.get_vocab(with_added_tokens=True)
    added = tok.get_added_tokens_decoder()
    size = max([*vocab.values(), *added], default=-1) + 1
    if not 0 < size <= MAX_ID:
        raise FormatError(f"{file}: token ids up to {size - 1:,}; 1 to {MAX_ID:,} tokens would be right", field=file)
    tokens, types = [""] * size, np.full(size, UNUSED, np.uint8)
    for text, i in vocab.items():
        tokens[i] = text
    types[list(vocab.values())] = NORMAL
    falls_back = "ByteFallback" in _state(tok.decoder)
    for i, text in enumerate(tokens):
        if falls_back and text.startswith("<0x") and BYTE_TOKEN.fullmatch(text):
            types[i] = BYTE
    for i, token in added.items():
        tokens[i], types[i] = token.content, CONTROL if token.special else USER_DEFINED
    return tokens, types


def _state(part: Any) -> str:
    """A component of a tokenizer as JSON text, which is also how the library pickles it."""
    return "" if part is None else part.__getstate__().decode()


def _spelling(tok: HfTokenizer) -> tuple[Literal["bytes", "spaces", "wordpiece"], bool]:
    """How normal tokens are stored, and whether decoding takes one space off the front of a text."""
    decoder = _state(tok.decoder)
    if '"WordPiece"' in decoder:
        return "wordpiece", True
    if '"ByteLevel"' in decoder:
        return "bytes", False
    strips = '"Strip"' in decoder or ('"Metaspace"' in decoder and '"never"' not in decoder)
    return "spaces", strips


def _token_text(value: Any) -> str | None:
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


def _eos_ids(file: Path, size: int) -> list[int]:
    """The ids that generation_config.json or config.json call end tokens."""
    for name in ("generation_config.json", "config.json"):
        value = read_config(file.with_name(name)).get("eos_token_id")
        if value is None:
            continue
        ids = value if isinstance(value, list) else [value]
        for i in ids:
            if not isinstance(i, int) or not 0 <= i < size:
                raise FormatError(f"{name}: 'eos_token_id' holds {i!r}; token ids go from 0 to {size - 1}", field="eos_token_id")
        return ids
    return []


def _chat_template(file: Path, config: dict[str, Any]) -> str | None:
    """chat_template.jinja beside the tokenizer wins over tokenizer_config.json; among named ones `default` is the chat's."""
    alone = file.with_name("chat_template.jinja")
    if alone.is_file():
        _check_size(alone)
        return alone.read_text(encoding="utf-8", errors="replace")
    value = config.get("chat_template")
    if isinstance(value, list):
        named = {t.get("name"): t.get("template") for t in value if isinstance(t, dict)}
        value = named.get("default")
    return value if isinstance(value, str) else None
