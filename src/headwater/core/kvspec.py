"""What a model must remember, per layer: the only model facts that schedulers, caches and memory plans see."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal

BLOCK_TOKENS = 16                 # positions per block; equals kernels.program.BLOCK_TOKENS (ADR 001)

_ELEMENT_BYTES = {"f16": 2.0, "q8": 1.0 + 2.0 / 32}


@dataclass(frozen=True, slots=True)
class CacheGroup:
    """Layers that share one KV shape and one life-time rule.

    kind: `full` keeps every position, `window` only what a query within `window` newest positions can still read.
    format: `f16`, or `q8` (int8 with one float16 scale per 32 channels of a token).
    """

    kind: Literal["full", "window"]
    layers: int
    kv_heads: int
    head_dim: int
    window: int = 0
    format: str = "f16"

    @property
    def bytes_per_token(self) -> int:
        """K and V bytes of one position in all layers of the group."""
        return int(2 * self.layers * self.kv_heads * self.head_dim * _ELEMENT_BYTES[self.format])

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
    def can_cut(self) -> bool:
        """Whether a row can be cut back to any earlier position without a checkpoint."""
        return not self.states and all(g.kind == "full" for g in self.groups)
