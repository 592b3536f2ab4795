"""Sampling glue: gathers each draw's parameters, history and bans, and calls the kernel once per step."""

from __future__ import annotations

import numpy as np

from headwater.worker.inputs import Inputs

_U = np.uint64


def _mix(x: np.ndarray) -> np.ndarray:
    x = (x ^ (x >> _U(30))) * _U(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> _U(27))) * _U(0x94D049BB133111EB)
    return x ^ (x >> _U(31))


class Sampler:
    def __init__(self, vocabulary: int) -> None:
        self._vocabulary = vocabulary

    def draw(self, logits: np.ndarray, rows: np.ndarray, lengths: np.ndarray, inputs: Inputs, bits: np.ndarray | None) -> np.ndarray:
        """logits: float32[n, vocabulary], changed in place; rows: table rows; lengths: known tokens of each. -> int32[n], -1 where logits are NaN."""
        out = np.empty(len(rows), np.int32)
        c = inputs.columns
        for d, (row, n) in enumerate(zip(rows.tolist(), lengths.tolist(), strict=True)):
            x = logits[d]
            p = inputs.inits[row].params
            history = inputs.history[row, :n]
            if p.repetition_penalty != 1.0:
                seen = np.unique(history)
                x[seen] = np.where(x[seen] > 0, x[seen] / p.repetition_penalty, x[seen] * p.repetition_penalty)
            if p.presence_penalty or p.frequency_penalty:
                ids, counts = np.unique(history[c["prompt_len"][row] :], return_counts=True)
                x[ids] -= (p.frequency_penalty * counts + p.presence_penalty).astype(np.float32)
            for token, bias in p.logit_bias.items():
                x[token] += bias
            if p.allowed_token_ids is not None:
                keep = np.zeros(len(x), bool)
                keep[p.allowed_token_ids] = True
                x[~keep] = -np.inf
            if n - c["prompt_len"][row] < p.min_tokens:
                x[inputs.inits[row].stop_ids] = -np.inf
            if bits is not None:
                x[~np.unpackbits(bits[d].view(np.uint8), bitorder="little", count=len(x)).astype(bool)] = -np.inf
            if p.greedy:
                out[d] = int(np.argmax(x))
                continue
            u = _mix(c["seed"][row : row + 1] + _U((n * 0x9E3779B97F4A7C15) & (2**64 - 1)))[0] >> _U(11)
            q = np.exp((x - x.max()).astype(np.float64) / p.temperature)
            q /= q.sum()
            out[d] = int(np.searchsorted(np.cumsum(q), float(u) / 2**53, side="right"))
        return out
