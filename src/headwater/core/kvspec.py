"""What a model must remember, per layer: the only model facts that schedulers, caches and memory plans see."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Literal

BLOCK_TOKENS = 16                 # positions per block; equals kernels.program.BLOCK_TOKENS (ADR 001)

# what our own caches hold; r: behind a Hadamard rotation
CACHE_FORMATS = ("f16", "i16", "q8", "q8r", "k8v4", "k8v4r", "int4", "int4r", "fp4", "fp4r")

ELEMENT_BYTES = {                 # stored bytes per channel, scales included; those that no cache of ours holds are published models'
    "f16": 2.0,
    "i16": 2.0,                   # whole numbers of 15 bits, and four bytes of scale per head and token
    "q8": 1.0 + 2.0 / 32,
    "fp4": 0.5 + 1.0 / 16,        # E2M1, an E4M3 scale per 16 channels
    "int4": 0.5 + 4.0 / 32,       # 0..15, float16 scale and minimum per 32 channels
    "q8r": 1.0 + 2.0 / 32, "fp4r": 0.5 + 1.0 / 16, "int4r": 0.5 + 4.0 / 32,
    "k8v4": 0.75 + 3.0 / 32, "k8v4r": 0.75 + 3.0 / 32,       # keys as q8, values as int4
    "mxfp4": 0.5 + 1.0 / 32,      # E2M1, a power of two per 32 channels
    "fp8-128": 1.0 + 4.0 / 128,   # eight bits, a float32 scale per 128 channels
    "fp8-56": 1.0 + 1.0 / 56,     # eight bits; 448 channels carry seven one-byte scales padded to eight
}


@dataclass(frozen=True, slots=True)
class CacheGroup:
    """Layers that share one KV shape and one life-time rule.

    kind: `full` keeps every position, `window` only what a query within `window` newest positions can still read.
    format: one of `CACHE_FORMATS`, stored as `kernels/kv_formats.py` says; `ELEMENT_BYTES` has those of published models too.
    vectors: stored per head and entry: keys and values are two, a latent or an index key is one. stride: positions that one entry stands for.
    index_bytes: of an attention index, per position in all layers; kept, shared and dropped with the blocks.
    """

    kind: Literal["full", "window"]
    layers: int
    kv_heads: int
    head_dim: int
    window: int = 0
    format: str = "f16"
    vectors: int = 2
    stride: int = 1
    index_bytes: int = 0

    @property
    def bytes_per_token(self) -> int:
        """Stored bytes of one position in all layers of the group, its share of an index included."""
        scale = 4 if self.format == "i16" else 0                    # bytes of one head's vector
        vectors = self.vectors * self.layers * self.kv_heads
        return int((vectors * self.head_dim * ELEMENT_BYTES[self.format] + vectors * scale) / self.stride) + self.index_bytes

    @property
    def head_bytes_per_block(self) -> int:
        """Bytes of one block of keys of one kv head of one layer; of values too, but in k8v4."""
        if self.format in ("k8v4", "k8v4r"):
            return int(BLOCK_TOKENS * self.head_dim * ELEMENT_BYTES["q8"])
        if self.format in ("q8", "q8r"):                            # the last group of 32 channels may be short and has its scale all the same
            return BLOCK_TOKENS * (self.head_dim + 2 * -(-self.head_dim // 32))
        scales = 4 * BLOCK_TOKENS if self.format == "i16" else 0
        return int(BLOCK_TOKENS * self.head_dim * ELEMENT_BYTES[self.format]) + scales

    @property
    def bytes_per_block(self) -> int:
        return self.bytes_per_token * BLOCK_TOKENS


@dataclass(frozen=True, slots=True)
class StateSpec:
    """A recurrent state: float32[layers, slots, *shape]; one slot per row, one per checkpoint."""

    name: str
    layers: int
    shape: tuple[int, ...]

    @property
    def bytes_per_slot(self) -> int:
        return 4 * self.layers * prod(self.shape)


@dataclass(frozen=True, slots=True)
class KVSpec:
    """All cache groups (in the order of `Step.tables`) and recurrent states of a model."""

    groups: tuple[CacheGroup, ...] = ()
    states: tuple[StateSpec, ...] = ()

    @property
    def bytes_per_token(self) -> int:
        """Growth per position of the groups that keep everything."""
        return sum(g.bytes_per_token for g in self.groups if g.kind == "full")

    @property
    def bytes_per_slot(self) -> int:
        return sum(s.bytes_per_slot for s in self.states)

    @property
    def layout(self) -> str:
        """What stored states must agree in: everything but indices, which are made again."""
        return repr(KVSpec(tuple(replace(g, index_bytes=0) for g in self.groups), self.states))

    @property
    def can_cut(self) -> bool:
        """Whether a row can be cut back to any earlier position without a checkpoint."""
        return not self.states and all(g.kind == "full" for g in self.groups)
