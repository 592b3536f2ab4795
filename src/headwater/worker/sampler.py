"""Sampling glue: gathers each draw's parameters, history and bans, and calls the kernel once per step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headwater.kernels.sampling import Draws, RaggedIds
from headwater.worker.inputs import Inputs

FAILURES = {1: "the model's logits are not finite at this position", 2: "no token is allowed here (grammar, allowed_token_ids and bans exclude all)"}
NO_IDS = np.zeros(0, np.int32)
NO_VALUES = np.zeros(0, np.float32)


class Sampler:
    """vocabulary: width of the logits."""

    def __init__(self, vocabulary: int) -> None:
        self._vocabulary = vocabulary

    def draws(self, rows: np.ndarray, lengths: np.ndarray, inputs: Inputs, bits: np.ndarray | None) -> Draws:
        """rows: int32[n] table rows; lengths: known tokens of each = position of the drawn token.

        bits: uint32[n, words] of grammar masks or None.
        """
        c = inputs.columns
        mask_row, masks = _masks(rows, inputs, bits, self._vocabulary)
        bias = [inputs.bias.get(r, (NO_IDS, NO_VALUES)) for r in rows.tolist()] if inputs.bias else []
        banned = [_banned(r, n, inputs) for r, n in zip(rows.tolist(), lengths.tolist(), strict=True)] if c["min_tokens"][rows].any() else []
        counts = [_counts(r, n, inputs) for r, n in zip(rows.tolist(), lengths.tolist(), strict=True)] if c["penalised"][rows].any() else []
        return Draws(
            c["temperature"][rows], c["top_k"][rows], c["top_p"][rows], c["min_p"][rows], c["repetition_penalty"][rows], c["presence_penalty"][rows],
            c["frequency_penalty"][rows], c["seed"][rows], lengths.astype(np.int64), c["logprobs"][rows],
            _ragged(counts, len(rows), np.int32, np.int32), _ragged(bias, len(rows), np.float32),
            _ragged([(b,) for b in banned], len(rows)), mask_row, masks,
        )


def _ragged(parts: Sequence[tuple[np.ndarray, ...]], rows: int, *dtypes: type) -> RaggedIds:
    """parts[r]: ids, then one array of values per dtype."""
    if not parts:
        return RaggedIds.none(rows, *dtypes)
    start = np.zeros(rows + 1, np.int32)
    np.cumsum([len(p[0]) for p in parts], out=start[1:])
    columns = [np.concatenate([p[i] for p in parts]) for i in range(1 + len(dtypes))]
    return RaggedIds(start, columns[0].astype(np.int32), tuple(v.astype(t) for v, t in zip(columns[1:], dtypes, strict=True)))


def _banned(row: int, length: int, inputs: Inputs) -> np.ndarray:
    """Stop ids, until min_tokens were drawn."""
    c = inputs.columns
    return inputs.inits[row].stop_ids if length - c["prompt_len"][row] < c["min_tokens"][row] else NO_IDS


def _counts(row: int, length: int, inputs: Inputs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """ids, times in the prompt, times behind it; empty where the row has no penalties."""
    if not inputs.columns["penalised"][row]:
        return NO_IDS, NO_IDS, NO_IDS
    ids, place = np.unique(inputs.history[row, :length], return_inverse=True)
    cut = min(int(inputs.columns["prompt_len"][row]), length)
    return ids, np.bincount(place[:cut], minlength=len(ids)), np.bincount(place[cut:], minlength=len(ids))


def _masks(rows: np.ndarray, inputs: Inputs, bits: np.ndarray | None, vocabulary: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Grammar bits and allowed_token_ids, both must allow a token. -> mask of each draw (-1 = none), uint32[masks, words]."""
    if not inputs.allowed:
        return (np.full(len(rows), -1, np.int32), None) if bits is None else (np.arange(len(rows), dtype=np.int32), bits)
    if bits is None:
        bits = np.full((len(rows), -(-vocabulary // 32)), 0xFFFFFFFF, np.uint32)
    for d, row in enumerate(rows.tolist()):
        if row in inputs.allowed:
            bits[d] &= inputs.allowed[row]
    return np.arange(len(rows), dtype=np.int32), bits
