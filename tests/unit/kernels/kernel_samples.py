"""Random weights of every file format with sane scales, and the instruction sets of this machine."""

import numpy as np

from headwater.kernels import ggml, native

SCALE_AT = {
    "Q8_0": (0,), "Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2),
    "Q6_K": (208,), "IQ4_NL": (0,), "IQ4_XS": (0,),
}
BLOCK_TYPES = tuple(SCALE_AT)
ALL_TYPES = tuple(ggml.BLOCK_BYTES)


def isas() -> list[str]:
    """Instruction sets that can run here, best first."""
    names = ["amx", "avx512", "avx2", "portable"]
    return names[names.index(native.library().detected_isa()) :] if native.available() else []


def raw_tensor(rng: np.random.Generator, name: str, rows: int, cols: int) -> np.ndarray:
    """File bytes of a random [rows, cols] tensor: all codes occur, scales are finite and small."""
    if name in ("F32", "F16"):
        return rng.normal(0, 1, (rows, cols)).astype("<f4" if name == "F32" else "<f2").view(np.uint8)
    if name == "BF16":
        return (rng.normal(0, 1, (rows, cols)).astype("<f4").view("<u4") >> 16).astype("<u2").view(np.uint8)
    elements, size = ggml.BLOCK_BYTES[name]
    raw = rng.integers(0, 256, (rows, cols // elements, size), dtype=np.uint8)
    for at in SCALE_AT[name]:
        raw[..., at : at + 2] = rng.normal(0, 0.01, raw.shape[:2]).astype("<f2")[..., None].view(np.uint8)
    return raw


def width(name: str, blocks: int) -> int:
    """A legal number of columns."""
    return blocks * max(32, ggml.BLOCK_BYTES[name][0])
