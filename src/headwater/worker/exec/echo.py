"""The echo family: a model without weights whose logits are a hash of everything a row can see through its blocks, window and state slot.

It keeps the contract of a real model bit for bit (any chunking, batch, fork or cache hit gives the same logits) and notices every wrong block: each
position stores a hash of its token, and a query sums what it reads. Serving, caches, forks, drafts and grammars are tested on it in milliseconds.
"""

from __future__ import annotations

import numpy as np

from headwater.core.executor import Caps
from headwater.core.kvspec import BLOCK_TOKENS, CacheGroup, KVSpec, StateSpec
from headwater.kernels.program import Replay, Step
from headwater.worker.branches import SCRATCH_BLOCKS

ECHO_VOCABULARY = 320                                               # 256 bytes, then special tokens
ECHO_EOS = 256
ECHO_CONTEXT = 4096
ECHO_EOS_RATE = 200                                                 # tokens, on average, until a greedy stream ends its turn
_U = np.uint64
_EMPTY = _U(0xDEADBEEFCAFEF00D)                                     # what a never written slot reads as: shows up in the sum


def mix(x: np.ndarray) -> np.ndarray:
    """uint64 -> uint64, the splitmix64 finaliser (Steele, Lea, Flood 2014)."""
    x = (x ^ (x >> _U(30))) * _U(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> _U(27))) * _U(0x94D049BB133111EB)
    return x ^ (x >> _U(31))


def echo_spec(window: int = 0, state: bool = False) -> KVSpec:
    """One full group; a window group of `window` positions and a recurrent state where asked for."""
    groups = (CacheGroup("full", 1, 1, 2),) + ((CacheGroup("window", 1, 1, 2, window),) if window else ())
    return KVSpec(groups, (StateSpec("chain", 1, (2,)),) if state else ())


class EchoForward:
    """blocks: per group; context in tokens; eos_rate: about one in so many greedy tokens is the end-of-turn id (0 = never)."""

    def __init__(self, blocks: int = 512, context: int = 4096, *, window: int = 0, state: bool = False, slots: int = 0, eos_rate: int = 0) -> None:
        spec = echo_spec(window, state)
        name = f"echo/window={window}/state={int(state)}/eos={eos_rate}"
        self.caps = Caps(spec, (blocks,) * len(spec.groups), slots, context, ECHO_VOCABULARY, name)
        self._kv = [np.full((n + SCRATCH_BLOCKS) * BLOCK_TOKENS, _EMPTY) for n in self.caps.blocks]
        self._state = np.full(slots, _EMPTY)
        self._kept: list[np.ndarray] = []
        self._ids = mix(np.arange(1, ECHO_VOCABULARY + 1, dtype=np.uint64) * _U(0x9E3779B97F4A7C15))
        printable = np.zeros(ECHO_VOCABULARY, np.float32)
        printable[32:127] = 8.0                                     # readable text most of the time
        if eos_rate:
            printable[ECHO_EOS] = 8.0 * (96.0 / eos_rate) ** (1 / 96)   # P(it beats 95 uniform draws) = (1 - gap / 8)^96 / 96
        else:
            printable[ECHO_EOS] = -100.0
        printable[ECHO_EOS + 1 :] = -100.0                          # the other special tokens are never drawn
        self._bias = printable

    def hidden(self, step: Step) -> np.ndarray:
        """float32[n_reads, 4]: the 64-bit hash of each read token in four exact 16-bit pieces."""
        token_hash = mix((step.tokens.astype(np.uint64) << _U(32)) ^ step.positions.astype(np.uint64) ^ _U(0x5851F42D4C957F2D))
        self._kept = [] if step.keep is None else [token_hash[step.row_start[r] : step.row_start[r + 1]] for r in step.keep.tolist()]
        seen = np.zeros(len(step.tokens), np.uint64)
        rows = [slice(int(a), int(b)) for a, b in zip(step.row_start[:-1], step.row_start[1:], strict=True)]
        for g, group in enumerate(self.caps.spec.groups):
            for r, span in enumerate(rows):                         # write all rows first: siblings in one step see the same memory
                self._kv[g][self._slots(step, g, r, step.positions[span])] = token_hash[span]
            for r, span in enumerate(rows):
                seen[span] += self._read(step, g, r, step.positions[span], group.window)
        if self.caps.spec.states:
            for r, span in enumerate(rows):
                seen[span] ^= self._advance(step, r, token_hash[span])
        h = mix(seen)[step.reads]
        pieces = (h[:, None] >> (np.arange(4, dtype=np.uint64) * _U(16))) & _U(0xFFFF)
        return pieces.astype(np.float32)

    def _slots(self, step: Step, group: int, row: int, positions: np.ndarray) -> np.ndarray:
        blocks = step.tables[group][row, positions // BLOCK_TOKENS]
        if (blocks < 0).any():
            raise IndexError(f"echo: group {group}, plan row {row}: position {int(positions[blocks < 0][0])} has no block")
        return blocks.astype(np.int64) * BLOCK_TOKENS + positions % BLOCK_TOKENS

    def _read(self, step: Step, group: int, row: int, positions: np.ndarray, window: int) -> np.ndarray:
        """Sum over what each query sees: all positions up to its own, or the last `window` of them."""
        first, last = int(positions[0]), int(positions[-1])
        low = max(0, first - window + 1) if window else 0
        stored = self._kv[group][self._slots(step, group, row, np.arange(low, last + 1))]
        total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(stored, dtype=np.uint64)])
        upto = total[positions - low + 1]
        return upto - total[np.maximum(positions - window + 1 - low, 0)] if window else upto

    def _advance(self, step: Step, row: int, tokens: np.ndarray) -> np.ndarray:
        """Chain hash in token order, from the row's slot and back into it."""
        assert step.state_in is not None and step.state_out is not None
        out = self._chain(int(step.state_in[row]), tokens)
        if step.state_out[row] >= 0:
            self._state[step.state_out[row]] = out[-1]
        return out

    def _chain(self, slot: int, tokens: np.ndarray) -> np.ndarray:
        """The state after each of the tokens."""
        state = self._state[slot : slot + 1].copy() if slot >= 0 else np.zeros(1, np.uint64)
        out = np.empty_like(tokens)
        for i in range(len(tokens)):
            state = mix(state ^ tokens[i : i + 1])
            out[i] = state[0]
        return out

    def replay(self, rows: Replay) -> None:
        for r, n, source, target in zip(rows.which.tolist(), rows.counts.tolist(), rows.state_in.tolist(), rows.state_out.tolist(), strict=True):
            self._state[target] = self._chain(source, self._kept[r][:n])[-1]

    def logits(self, hidden: np.ndarray) -> np.ndarray:
        pieces = hidden.astype(np.uint64) << (np.arange(4, dtype=np.uint64) * _U(16))
        h = np.bitwise_or.reduce(pieces, axis=1)
        noise = mix(h[:, None] ^ self._ids)
        return (noise >> _U(40)).astype(np.float32) * np.float32(8.0 / 2**24) + self._bias

    def label_logits(self, hidden: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return self.logits(hidden[None])[0, labels]

    def copy_blocks(self, copies: np.ndarray) -> None:
        for group, source, target in copies.tolist():
            kv = self._kv[group].reshape(-1, BLOCK_TOKENS)
            kv[target] = kv[source]

    def copy_states(self, copies: np.ndarray) -> None:
        for source, target in copies.tolist():
            self._state[target] = self._state[source]

    def export_row(self, tables: list[np.ndarray], tokens: int) -> list[np.ndarray]:
        slots = [t.astype(np.int64)[:, None] * BLOCK_TOKENS + np.arange(BLOCK_TOKENS) for t in tables]
        return [kv[s.reshape(-1)[:tokens]] for kv, s in zip(self._kv, slots, strict=True)]

    def import_row(self, tables: list[np.ndarray], start: int, stop: int, arrays: list[np.ndarray]) -> None:
        at = np.arange(start, stop)
        for kv, table, array in zip(self._kv, tables, arrays, strict=True):
            kv[table[at // BLOCK_TOKENS].astype(np.int64) * BLOCK_TOKENS + at % BLOCK_TOKENS] = array[start:stop]

    def row_arrays(self, tokens: int) -> list[tuple[tuple[int, ...], np.dtype]]:
        return [((tokens,), np.dtype(np.uint64))] * len(self._kv)

    def close(self) -> None:
        self._kv = []
