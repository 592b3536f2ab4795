"""The memory behind blocks and slots: one anonymous mapping per array, touched only when a block is first written."""

from __future__ import annotations

import mmap
from math import prod

import numpy as np

from headwater.core.errors import CapacityError
from headwater.core.kvspec import BLOCK_TOKENS, CacheGroup, KVSpec
from headwater.kernels.kv_formats import block_bytes
from headwater.kernels.program import KVArrays, StateArrays

HUGE_FROM_BLOCKS = 128                                              # blocks in use from which huge pages pay


def lazy_array(shape: tuple[int, ...], dtype: np.dtype | type, maps: list[mmap.mmap]) -> np.ndarray:
    """A zeroed array whose pages cost memory when they are first written. Its mapping joins `maps`.

    numpy's own zeros would do the same for big arrays, but gives no say over page size. Raises CapacityError when the kernel refuses the mapping.
    """
    dtype = np.dtype(dtype)
    size = prod(shape) * dtype.itemsize
    if size == 0:
        return np.zeros(shape, dtype)
    try:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0))
    except OSError as e:
        raise CapacityError(f"--kv-memory: the system refuses {size / 2**20:,.0f} MiB for the KV cache ({e.strerror}); try less") from None
    maps.append(memory)
    return np.frombuffer(memory, dtype).reshape(shape)


def group_arrays(group: CacheGroup, blocks: int, maps: list[mmap.mmap]) -> KVArrays:
    """The arrays of one cache group, shaped as `kernels.reference_attention.new_cache` says."""
    head = (group.layers, blocks, group.kv_heads)
    if group.format != "f16":
        k, v = (lazy_array((*head, block_bytes(group.format, group.head_dim, key=key)), np.uint8, maps) for key in (True, False))
        return KVArrays(k, v, group.format)
    k = lazy_array((*head, group.head_dim, BLOCK_TOKENS), np.float16, maps)
    v = lazy_array((*head, BLOCK_TOKENS, group.head_dim), np.float16, maps)
    return KVArrays(k, v, group.format)


class KVPool:
    """kv: one KVArrays per cache group, in the order of `KVSpec.groups`, with `scratch` blocks behind those that the scheduler
    gives out; state: float32[layers, slots, *shape] per recurrent state.

    Huge pages are asked for once a pool is really used: every layer has its own region, so the first token of a small run would zero two
    huge pages per layer, more time and memory than all its keys and values.
    """

    def __init__(self, spec: KVSpec, blocks: tuple[int, ...], slots: int, scratch: int = 0) -> None:
        self.spec = spec
        self.blocks = blocks
        self.slots = slots
        self._maps: list[mmap.mmap] = []
        self._huge = not hasattr(mmap, "MADV_HUGEPAGE")
        self.kv = [group_arrays(g, n + scratch, self._maps) for g, n in zip(spec.groups, blocks, strict=True)]
        self.state = StateArrays({s.name: lazy_array((s.layers, slots, *s.shape), np.float32, self._maps) for s in spec.states})

    def used(self, highest_block: int) -> None:
        """A step touches blocks up to this one (blocks are given out from the lowest)."""
        if not self._huge and highest_block >= HUGE_FROM_BLOCKS:
            self._huge = True
            for memory in self._maps:
                if len(memory) >= 2**25:
                    memory.madvise(mmap.MADV_HUGEPAGE)

    @property
    def bytes(self) -> int:
        """Address space reserved; resident memory grows as blocks are written."""
        return sum(a.k.nbytes + a.v.nbytes for a in self.kv) + sum(a.nbytes for a in self.state.arrays.values())
