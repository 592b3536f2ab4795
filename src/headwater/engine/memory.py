"""How much memory there is, and how keys, values and states share it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

from headwater.core.errors import UserInputError
from headwater.core.kvspec import BLOCK_TOKENS, KVSpec

UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
CHECKPOINT_TOKENS = 1024                                            # one window and one state are kept per so many tokens
SHARE = 0.5                                                         # of what is free after the weights, when nobody says how much
CONTEXTS = 32                                                       # and no more than so many full contexts


def parse_bytes(text: str | int, field: str) -> int:
    """`4G`, `512MiB`, `2e9` or a number of bytes -> bytes. Raises UserInputError."""
    if isinstance(text, int) and not isinstance(text, bool) and text > 0:
        return text
    size = r"\s*([0-9]+(?:\.[0-9]+)?(?:e[0-9]+)?)\s*([kmgt]?)(?:i?b)?\s*"
    found = re.fullmatch(size, text, re.IGNORECASE) if isinstance(text, str) else None
    if found is None:
        raise UserInputError(f"{field}: '{text}' is not a size; right would be 4G, 512MiB or a number of bytes", field)
    return int(float(found[1]) * UNITS[found[2].lower()])


def available_bytes(proc: Path = Path("/proc/meminfo"), cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Memory that this process can still take: the system's MemAvailable, or what its cgroup has left where that is less."""
    try:
        free = next(int(line.split()[1]) * 1024 for line in proc.read_text().splitlines() if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        free = 4 * 2**30
    for limit, used in (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes")):
        try:
            cap = (cgroup / limit).read_text().strip()
            if cap.isdigit():
                free = min(free, max(0, int(cap) - int((cgroup / used).read_text())))
        except (OSError, ValueError):
            continue
    return free


@dataclass(frozen=True, slots=True)
class KVMemory:
    """blocks per cache group, recurrent slots, and the bytes they take once all are written."""

    blocks: tuple[int, ...]
    slots: int
    bytes: int


def share_kv(spec: KVSpec, budget: int, context: int) -> KVMemory:
    """Divide `budget` bytes. Window groups get what their rows and one checkpoint per CHECKPOINT_TOKENS can use of it.

    Raises UserInputError where not even one context of tokens fits.
    """
    slots = 0
    if spec.states:
        slots = max(8, min(256, int(budget * 0.25) // spec.bytes_per_slot))
    left = budget - slots * spec.bytes_per_slot
    shares = [1.0 if g.kind == "full" else min(1.0, g.window / CHECKPOINT_TOKENS + 0.25) for g in spec.groups]
    per_block = sum(share * g.bytes_per_block for share, g in zip(shares, spec.groups, strict=True))
    n = int(left // per_block) if per_block else 0
    n = min(n, CONTEXTS * -(-context // BLOCK_TOKENS) * 8)
    blocks = tuple(max(1, int(n * share)) for share in shares)
    one_row = -(-context // BLOCK_TOKENS) + 1
    if spec.groups and n < one_row:
        need = math.ceil(one_row * per_block) + slots * spec.bytes_per_slot
        raise UserInputError(
            f"--kv-memory: {budget / 2**20:,.0f} MiB hold {n * BLOCK_TOKENS:,} tokens, one context is {context:,}; "
            f"give at least {math.ceil(need / 2**20):,}M or a shorter --context", "kv_memory",
        )
    return KVMemory(blocks, slots, sum(b * g.bytes_per_block for b, g in zip(blocks, spec.groups, strict=True)) + slots * spec.bytes_per_slot)


def default_kv_budget(spec: KVSpec, context: int, free: int) -> int:
    """Bytes for keys and values when nobody says how much: SHARE of what is free, at most CONTEXTS contexts, at least one."""
    per_token = sum(g.bytes_per_token for g in spec.groups)
    one = (context + 2 * BLOCK_TOKENS) * per_token + 9 * spec.bytes_per_slot
    return max(one, min(int(free * SHARE), one * CONTEXTS))
