"""Sampling glue: gathers each draw's parameters, history and bans, and calls the kernel once per step."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from headwater.kernels import native, reference_sampling
from headwater.worker.inputs import Inputs

FAILURES = {1: "the model's logits are not finite at this position", 2: "no token is allowed here (grammar, allowed_token_ids and bans exclude all)"}
NO_IDS = np.zeros(0, np.int32)


class Sampled(Protocol):
    """The fields of `kernels.sampling.Drawn` that the runner reads."""

    tokens: np.ndarray
    status: np.ndarray
    logprobs: np.ndarray
    top_ids: np.ndarray
    top_logprobs: np.ndarray


class Sampler:
    """vocabulary: width of the logits."""

    def __init__(self, vocabulary: int) -> None:
        self._vocabulary = vocabulary
        self._native = native.available()

    def draw(self, logits: np.ndarray, rows: np.ndarray, lengths: np.ndarray, inputs: Inputs, bits: np.ndarray | None) -> Sampled:
        """logits: float32[n, vocabulary] (kept); rows: int32[n] table rows; lengths: known tokens of each = position of the drawn token.

        bits: uint32[n, words] of grammar masks or None.
        """
        if not self._native:
            return _draw_reference(logits, rows, lengths, inputs, bits)
        from headwater.kernels.sampling import Draws, RaggedIds, sample

        c = inputs.columns
        mask_row, masks = _masks(rows, inputs, bits, self._vocabulary)
        bias = [inputs.bias.get(r, (NO_IDS, NO_IDS)) for r in rows.tolist()] if inputs.bias else []
        banned = [_banned(r, n, inputs) for r, n in zip(rows.tolist(), lengths.tolist(), strict=True)] if c["min_tokens"][rows].any() else []
        counts = [_counts(r, n, inputs) for r, n in zip(rows.tolist(), lengths.tolist(), strict=True)] if c["penalised"][rows].any() else []
        return sample(logits, Draws(
            c["temperature"][rows], c["top_k"][rows], c["top_p"][rows], c["min_p"][rows], c["repetition_penalty"][rows], c["presence_penalty"][rows],
            c["frequency_penalty"][rows], c["seed"][rows], lengths.astype(np.int64), c["logprobs"][rows],
            _ragged(RaggedIds, counts, len(rows), np.int32, np.int32), _ragged(RaggedIds, bias, len(rows), np.float32),
            _ragged(RaggedIds, [(b,) for b in banned], len(rows)), mask_row, masks,
        ))


def _ragged(kind: type, parts: list[tuple[np.ndarray, ...]], rows: int, *dtypes: type) -> object:
    """parts[r]: ids, then one array of values per dtype."""
    if not parts:
        return kind.none(rows, *dtypes)  # type: ignore[attr-defined]
    start = np.zeros(rows + 1, np.int32)
    np.cumsum([len(p[0]) for p in parts], out=start[1:])
    columns = [np.concatenate([p[i] for p in parts]) for i in range(1 + len(dtypes))]
    return kind(start, columns[0].astype(np.int32), tuple(v.astype(t) for v, t in zip(columns[1:], dtypes, strict=True)))


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


def _draw_reference(logits: np.ndarray, rows: np.ndarray, lengths: np.ndarray, inputs: Inputs, bits: np.ndarray | None) -> Sampled:
    """The numpy definition, row by row."""
    from headwater.worker.reads import log_sum_exp, top_k

    c = inputs.columns
    n, width = len(rows), max(0, int(c["logprobs"][rows].max(initial=0)))
    drawn = _Arrays(n, width)
    mask_row, masks = _masks(rows, inputs, bits, logits.shape[1])
    for d, (r, length) in enumerate(zip(rows.tolist(), lengths.tolist(), strict=True)):
        allowed = None
        if masks is not None and mask_row[d] >= 0:
            allowed = np.unpackbits(masks[mask_row[d]].view(np.uint8), bitorder="little", count=logits.shape[1]).astype(bool)
        bias_ids, bias = inputs.bias.get(r, (NO_IDS, NO_IDS))
        ids, in_prompt, in_output = _counts(r, length, inputs)
        row = reference_sampling.Row(
            float(c["temperature"][r]), int(c["top_k"][r]), float(c["top_p"][r]), float(c["min_p"][r]), float(c["repetition_penalty"][r]),
            float(c["presence_penalty"][r]), float(c["frequency_penalty"][r]), int(c["seed"][r]), length,
            tuple(zip(ids.tolist(), in_prompt.tolist(), in_output.tolist(), strict=True)), tuple(zip(bias_ids.tolist(), bias.tolist(), strict=True)),
            tuple(_banned(r, length, inputs).tolist()), allowed,
        )
        drawn.tokens[d] = reference_sampling.draw(logits[d], row)[0]
        if drawn.tokens[d] < 0:
            drawn.status[d] = 2 if (logits[d] < np.inf).all() else 1
        elif c["logprobs"][r] >= 0:
            lse = log_sum_exp(logits[d : d + 1])[0]
            top = top_k(logits[d], int(c["logprobs"][r]))
            drawn.logprobs[d] = logits[d, drawn.tokens[d]] - lse
            drawn.top_ids[d, : len(top)] = top
            drawn.top_logprobs[d, : len(top)] = logits[d, top] - lse
    return drawn


class _Arrays:
    """What the kernel would have filled."""

    def __init__(self, n: int, width: int) -> None:
        self.tokens, self.status = np.zeros(n, np.int32), np.zeros(n, np.int32)
        self.logprobs = np.zeros(n, np.float32)
        self.top_ids, self.top_logprobs = np.full((n, width), -1, np.int32), np.zeros((n, width), np.float32)
