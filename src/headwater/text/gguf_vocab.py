"""From GGUF metadata to a vocabulary and its encoder: byte-level BPE and SentencePiece BPE, merged by the `tokenizers` library."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tokenizers import Regex, models, pre_tokenizers
from tokenizers import Tokenizer as HfTokenizer

from headwater.core.errors import FormatError
from headwater.text.pretokenize import PreTokenizer, pre_tokenizer
from headwater.text.specials import SpecialSplitter, fill_in_the_middle, turn_ends
from headwater.text.vocab import BYTE, CONTROL, NORMAL, UNKNOWN, USER_DEFINED, Vocabulary

KEY = "tokenizer.ggml."
_SPACE = "\u2581"                                                    # SentencePiece's visible space
_SPECIAL_KEYS = {"bos": "bos_token_id", "eos": "eos_token_id", "pad": "padding_token_id", "unk": "unknown_token_id"}
_TURN_END_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")


class GgufEncoder:
    """Splits at special tokens, then merges each piece of text.

    `merge` has no special tokens of its own, so that text is never mistaken for one when `parse_special` is off.
    """

    def __init__(self, vocab: Vocabulary, merge: HfTokenizer, escape_spaces: bool) -> None:
        self._vocab, self._merge, self._escape = vocab, merge, escape_spaces
        types = vocab.types
        user = {vocab.text(int(i)): int(i) for i in np.flatnonzero(types == USER_DEFINED)}
        self._user_defined = SpecialSplitter(user)
        self._all = SpecialSplitter({**user, **vocab.special_ids_by_text})

    def encode(self, text: str, add_special: bool, parse_special: bool) -> list[int]:
        """See Tokenizer.encode."""
        v = self._vocab
        ids = [v.bos_id] if add_special and v.add_bos and v.bos_id is not None else []
        after_special = True
        for piece in (self._all if parse_special else self._user_defined).split(text):
            if isinstance(piece, int):
                ids.append(piece)
                after_special = True
                continue
            if self._escape:
                if v.add_space_prefix and after_special:
                    piece = " " + piece
                piece = piece.replace(" ", _SPACE)
            ids += self._merge.encode(piece, add_special_tokens=False).ids
            after_special = False
        if add_special and v.add_eos and v.eos_id is not None:
            ids.append(v.eos_id)
        return ids


def build(metadata: Mapping[str, Any], file: str = "GGUF") -> tuple[Vocabulary, GgufEncoder]:
    """Vocabulary and encoder from the `tokenizer.ggml.*` keys. Raises FormatError naming the key that is missing or wrong."""
    model = metadata.get(KEY + "model")
    tokens = metadata.get(KEY + "tokens")
    if not isinstance(tokens, Sequence) or isinstance(tokens, str) or not len(tokens):
        raise FormatError(f"{file}: '{KEY}tokens' is missing or not a list of strings", field=KEY + "tokens")
    if model == "gpt2":
        pre = pre_tokenizer(str(metadata.get(KEY + "pre", "default")), file)
    elif model == "gemma4":
        pre = pre_tokenizer("gemma4", file)
    elif model == "llama":
        pre = None
    else:
        raise FormatError(f"{file}: '{KEY}model' is {str(model)[:40]!r}; supported: gpt2, llama, gemma4", field=KEY + "model")
    collects = gc.isenabled()
    gc.disable()                                                    # hundreds of thousands of tuples would be visited again and again
    try:
        vocab = _vocabulary(metadata, tokens, pre, file)
        merge = _sentencepiece(vocab, metadata, file) if pre is None else _bpe(vocab, metadata, pre, file)
    except (FormatError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as e:                                      # whatever a hostile vocabulary trips, panics of the library included
        raise FormatError(f"{file}: the tokenizer's vocabulary and merges do not fit ({' '.join(str(e).split())[:200]})", field=KEY) from None
    finally:
        if collects:
            gc.enable()
    return vocab, GgufEncoder(vocab, merge, escape_spaces=pre is None or not pre.byte_level)


def _vocabulary(metadata: Mapping[str, Any], tokens: Sequence[str], pre: PreTokenizer | None, file: str) -> Vocabulary:
    n = len(tokens)
    types = metadata.get(KEY + "token_type")
    types = np.full(n, NORMAL, np.int32) if types is None else np.asarray(types)
    if types.shape != (n,) or types.dtype.kind not in "iu":
        raise FormatError(f"{file}: '{KEY}token_type' has {types.size:,} entries, the vocabulary {n:,}", field=KEY + "token_type")
    ids: dict[str, int | None] = {}
    for role, key in _SPECIAL_KEYS.items():
        ids[role] = _token_id(metadata, key, n, file)
    if pre is None:                                                 # what SentencePiece models mean when they say nothing
        for role, default in (("unk", 0), ("bos", 1), ("eos", 2)):
            ids[role] = default if ids[role] is None and default < n else ids[role]
    special = np.flatnonzero((types == CONTROL) | (types == UNKNOWN))
    by_text = {tokens[int(i)]: int(i) for i in special}
    user = {tokens[int(i)]: int(i) for i in np.flatnonzero(types == USER_DEFINED)}
    named = [i for i in (_token_id(metadata, key, n, file) for key in _TURN_END_KEYS) if i is not None]
    ends = turn_ends({**user, **by_text}, named + ([ids["eos"]] if ids["eos"] is not None else []))
    return Vocabulary(
        tokens=tokens,
        types=types.astype(np.uint8),
        spelling="bytes" if pre is not None and pre.byte_level else "spaces",
        special_ids_by_text={**by_text, **{tokens[i]: i for i in ends}},
        bos_id=ids["bos"],
        eos_id=ids["eos"],
        pad_id=ids["pad"],
        unk_id=ids["unk"],
        turn_end_ids=ends,
        fim=fill_in_the_middle({**user, **by_text}),
        add_bos=_flag(metadata, "add_bos_token", pre is None or pre.add_bos) or (pre is not None and not pre.byte_level),
        add_eos=_flag(metadata, "add_eos_token", False),
        add_space_prefix=pre is None and _flag(metadata, "add_space_prefix", True),
    )


def _flag(metadata: Mapping[str, Any], key: str, default: bool) -> bool:
    value = metadata.get(KEY + key, default)
    return value if isinstance(value, bool) else default


def _token_id(metadata: Mapping[str, Any], key: str, n: int, file: str) -> int | None:
    value = metadata.get(KEY + key)
    if value is None or (isinstance(value, int) and value in (-1, 0xFFFFFFFF)):  # both are written for "none"
        return None
    if not isinstance(value, int) or not 0 <= value < n:
        raise FormatError(f"{file}: '{KEY}{key}' is {value!r}, the vocabulary has {n:,} tokens", field=KEY + key)
    return value


def _merge_vocab(vocab: Vocabulary) -> dict[str, int]:
    """Text -> id of the tokens that merging may yield: neither control tokens nor padding."""
    tokens = vocab.all_tokens()
    table = dict(zip(tokens, range(len(tokens)), strict=True))
    for i in np.flatnonzero((vocab.types != NORMAL) & (vocab.types != USER_DEFINED) & (vocab.types != BYTE)).tolist():
        if table.get(tokens[i]) == i:
            del table[tokens[i]]
    return table


def _bpe(vocab: Vocabulary, metadata: Mapping[str, Any], pre: PreTokenizer, file: str) -> HfTokenizer:
    merges = metadata.get(KEY + "merges")
    if not isinstance(merges, Sequence) or isinstance(merges, str):
        raise FormatError(f"{file}: '{KEY}merges' is missing or not a list of strings", field=KEY + "merges")
    pairs = _pairs(merges, file)
    table = _merge_vocab(vocab)
    tok = HfTokenizer(models.BPE(table, pairs, ignore_merges=pre.ignore_merges, byte_fallback=not pre.byte_level))
    cuts: list[Any] = [pre_tokenizers.Split(Regex(p), "isolated") for p in pre.patterns]
    if pre.byte_level:
        cuts.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
    tok.pre_tokenizer = pre_tokenizers.Sequence(cuts)
    return tok


def _pairs(merges: Sequence[str], file: str) -> list[tuple[str, str]]:
    """Each merge is two tokens with a space between; the first may begin with one. The list may offer `joined`, see StringArray."""
    joined = getattr(merges, "joined", lambda: None)()
    if joined is not None:                                          # nearly always one space in each: cut them all at once
        raw = np.frombuffer(joined.encode(), np.uint8)
        cuts = raw[(raw == 0) | (raw == ord(" "))]
        if len(cuts) == 2 * len(merges) - 1 and not cuts[1::2].any() and cuts[::2].all():
            flat = joined.replace("\0", " ").split(" ")
            return list(zip(flat[::2], flat[1::2], strict=True))
    pairs = []
    for i, m in enumerate(merges):
        cut = m.find(" ", 1)
        if cut < 0:
            raise FormatError(f"{file}: '{KEY}merges' item {i} is {m[:40]!r}; 'token token' would be right", field=KEY + "merges")
        pairs.append((m[:cut], m[cut + 1 :]))
    return pairs


def _sentencepiece(vocab: Vocabulary, metadata: Mapping[str, Any], file: str) -> HfTokenizer:
    scores = np.asarray(metadata.get(KEY + "scores", ()))
    if scores.shape != (len(vocab.tokens),) or scores.dtype.kind != "f":
        raise FormatError(f"{file}: '{KEY}scores' has {scores.size:,} entries, the vocabulary {len(vocab.tokens):,}", field=KEY + "scores")
    table = _merge_vocab(vocab)
    return HfTokenizer(models.BPE(table, _merges_by_score(vocab, table, scores), byte_fallback=True))


def _merges_by_score(vocab: Vocabulary, table: dict[str, int], scores: np.ndarray) -> list[tuple[str, str]]:
    """The merges that SentencePiece's BPE would make, best first: it joins the neighbours whose joint piece scores highest.

    Written as a list of pairs: each way to cut a piece into two pieces of the vocabulary, in the order of the pieces' scores.
    """
    tokens = vocab.all_tokens()
    normal = np.flatnonzero(vocab.types == NORMAL)
    pairs: list[tuple[str, str]] = []
    for i in normal[np.argsort(-scores[normal], kind="stable")].tolist():
        p = tokens[i]
        pairs += [(p[:k], p[k:]) for k in range(1, len(p)) if p[:k] in table and p[k:] in table]
    return pairs
