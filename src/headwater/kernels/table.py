"""Which kernel runs for each operation, what else there is, and why; `headwater doctor` prints it."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.kernels import native

PRODUCTS = {
    "amx": "tdpbssd on tiles of 16 tokens x 16 rows from 24 tokens on, the float step of one block over the tile of the next; below, as avx512",
    "avx512": "vpdpbusd on sixteen output rows a register, tiles of 6 tokens x 2 groups; AVX-512 VNNI found",
    "avx2": "vpmaddubsw with 16-bit block sums where codes allow it, tiles of 4 tokens x 1 group",
    "portable": "plain loops over sixteen lanes, any x86-64",
}
CODES = {                                  # attention over whole numbers of 15 bits in two halves (ADR 011)
    "amx": "tdpbssd on tiles of 16 query rows x 16 positions or channels from 8 query rows on; below, as avx512",
    "avx512": "vpdpbusd, tiles of 4 query rows x 2 vectors; AVX-512 VNNI found",
    "avx2": "vpmaddubsw, tiles of 2 query rows x 1 vector",
    "portable": "plain loops over sixteen lanes, any x86-64",
}
LANES = {
    "amx": "sixteen lanes in one zmm register",
    "avx512": "sixteen lanes in one zmm register",
    "avx2": "sixteen lanes in two ymm registers",
    "portable": "sixteen lanes as floats, std::fma",
}
OPS = {                                    # operation -> how it is made natively; every one has a definition in reference*.py
    "linear": "products", "linear_rows": "products", "embed": "lanes", "rms_norm": "lanes", "layer_norm": "lanes", "gated_rms_norm": "lanes",
    "silu_mul": "lanes", "gelu_mul": "lanes", "gelu": "lanes", "sigmoid_mul": "lanes", "softcap": "lanes", "add": "lanes", "scale": "lanes",
    "position_embed": "lanes", "reads": "lanes", "rope": "lanes", "attend": "lanes", "attend i16": "codes",
    "short_conv": "lanes", "gated_delta": "lanes", "sample": "lanes",
}


@dataclass(frozen=True, slots=True)
class Choice:
    """op runs as `chosen`; `candidates` are all that exist, best first; why: one line."""

    op: str
    candidates: tuple[str, ...]
    chosen: str
    why: str


def choices() -> list[Choice]:
    """One entry per operation, for the instruction set in use now."""
    isas = ("amx", "avx512", "avx2", "portable")
    if not native.available():
        return [Choice(op, ("reference",), "reference", "the native module is missing or switched off") for op in OPS]
    lib = native.library()
    isa, best = lib.isa(), lib.detected_isa()
    usable = (*isas[isas.index(best) :], "reference")
    forced = "" if isa == best else f" (chosen by HEADWATER_ISA; this processor could run {best})"
    hows = {"products": PRODUCTS, "codes": CODES, "lanes": LANES}
    return [Choice(op, usable, isa, hows[how][isa] + forced) for op, how in OPS.items()]
