"""The block formats of GGUF files in numpy: raw bytes -> codes and scales (`decode`) -> float32 (`dequantise_ggml`).

Formats as documented by the ggml project; every one decomposes into `Codes`, the form that the packed layouts keep without loss.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

# elements and bytes of one block
BLOCK_BYTES: dict[str, tuple[int, int]] = {
    "F32": (1, 4), "F16": (1, 2), "BF16": (1, 2), "Q8_0": (32, 34), "Q4_0": (32, 18), "Q4_1": (32, 20), "Q5_0": (32, 22), "Q5_1": (32, 24),
    "Q2_K": (256, 84), "Q3_K": (256, 110), "Q4_K": (256, 144), "Q5_K": (256, 176), "Q6_K": (256, 210), "IQ4_NL": (32, 18), "IQ4_XS": (256, 136),
}
TYPE_IDS: dict[int, str] = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K",
    20: "IQ4_NL", 23: "IQ4_XS", 30: "BF16",
}
IQ4_VALUES = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int8)


@dataclass(slots=True)
class Codes:
    """A quantised matrix taken apart: value = (q - offset) · d · sub + minimum · submin, d and minimum one per `span` columns.

    q: uint8[rows, cols]; d, minimum: float16[rows, cols / span]; sub (int16), submin (int16): [rows, cols / gran], None where all ones.
    minimum is None for formats without one; it carries its sign (the K formats subtract, so theirs is stored negated).
    """

    q: np.ndarray
    offset: int
    span: int
    gran: int
    d: np.ndarray
    minimum: np.ndarray | None = None
    sub: np.ndarray | None = None
    submin: np.ndarray | None = None

    def scales(self) -> tuple[np.ndarray, np.ndarray | None]:
        """float32[rows, cols / gran] scale and minimum of every sub-block; the products are exact in float32."""
        return _two_level(self.d, self.sub, self.span // self.gran), (
            None if self.minimum is None else _two_level(self.minimum, self.submin, self.span // self.gran))

    def values(self) -> np.ndarray:
        """float32[rows, cols]."""
        scale, minimum = self.scales()
        x = (self.q.astype(np.float32) - np.float32(self.offset)).reshape(*scale.shape, self.gran) * scale[..., None]
        if minimum is not None:
            x += minimum[..., None]
        return x.reshape(self.q.shape)


def _two_level(d: np.ndarray, sub: np.ndarray | None, repeat: int) -> np.ndarray:
    wide = np.repeat(d.astype(np.float32), repeat, axis=1)
    return wide if sub is None else wide * sub.astype(np.float32)


def type_name(ggml_type: str | int) -> str:
    """'Q4_1' for 'Q4_1', 'q4_1' or 3. Raises ValueError naming the known ones."""
    name = TYPE_IDS.get(ggml_type, str(ggml_type)) if isinstance(ggml_type, int) else ggml_type.upper()
    if name not in BLOCK_BYTES:
        raise ValueError(f"tensor type {ggml_type} is not supported; supported: {', '.join(BLOCK_BYTES)}")
    return name


def row_bytes(ggml_type: str | int, cols: int) -> int:
    """Bytes of one row. Raises ValueError when cols does not fill whole blocks."""
    name = type_name(ggml_type)
    elements, size = BLOCK_BYTES[name]
    if cols <= 0 or cols % elements:
        raise ValueError(f"{name}: {cols} columns do not fill blocks of {elements}")
    return cols // elements * size


def raw_rows(ggml_type: str | int, raw: np.ndarray, rows: int, cols: int) -> np.ndarray:
    """Check a raw buffer and return it as uint8[rows, bytes per row], without a copy where possible."""
    flat = np.ascontiguousarray(raw).reshape(-1).view(np.uint8)
    want = rows * row_bytes(ggml_type, cols)
    if rows <= 0 or flat.size != want:
        raise ValueError(f"{type_name(ggml_type)} [{rows}, {cols}] takes {want:,} bytes, the buffer has {flat.size:,}")
    return flat.reshape(rows, -1)


def dequantise_ggml(ggml_type: str | int, raw: np.ndarray, rows: int, cols: int) -> np.ndarray:
    """uint8 file bytes of a [rows, cols] tensor -> float32[rows, cols]."""
    name = type_name(ggml_type)
    data = raw_rows(name, raw, rows, cols)
    if name == "F32":
        return data.view("<f4").astype(np.float32)
    if name == "F16":
        return data.view("<f2").astype(np.float32)
    if name == "BF16":
        return (data.view("<u2").astype(np.uint32) << 16).view(np.float32)
    return decode(name, data, rows, cols).values()


def decode(ggml_type: str | int, raw: np.ndarray, rows: int, cols: int) -> Codes:
    """File bytes of a block format -> Codes. F32, F16 and BF16 have no codes (ValueError)."""
    name = type_name(ggml_type)
    if name not in _DECODERS:
        raise ValueError(f"{name} is not a block format")
    elements, size = BLOCK_BYTES[name]
    blocks = raw_rows(name, raw, rows, cols).reshape(rows, cols // elements, size)
    return _DECODERS[name](blocks)


def _half(b: np.ndarray, at: int) -> np.ndarray:
    return np.ascontiguousarray(b[..., at : at + 2]).view("<f2")[..., 0]


def _flat(q: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(q).reshape(q.shape[0], -1)


def _nibbles(b: np.ndarray) -> np.ndarray:
    """[..., 16] bytes -> [..., 32]: the low nibbles, then the high ones."""
    return np.concatenate((b & 15, b >> 4), axis=-1)


def _bits32(b: np.ndarray) -> np.ndarray:
    """[..., 4] bytes -> [..., 32] bits, lowest first."""
    return np.unpackbits(b, axis=-1, bitorder="little")


def _q8_0(b: np.ndarray) -> Codes:
    return Codes(_flat(b[..., 2:] ^ 0x80), 128, 32, 32, _half(b, 0))


def _q4_0(b: np.ndarray) -> Codes:
    return Codes(_flat(_nibbles(b[..., 2:])), 8, 32, 32, _half(b, 0))


def _q4_1(b: np.ndarray) -> Codes:
    return Codes(_flat(_nibbles(b[..., 4:])), 0, 32, 32, _half(b, 0), _half(b, 2))


def _q5_0(b: np.ndarray) -> Codes:
    return Codes(_flat(_nibbles(b[..., 6:]) | _bits32(b[..., 2:6]) << 4), 16, 32, 32, _half(b, 0))


def _q5_1(b: np.ndarray) -> Codes:
    return Codes(_flat(_nibbles(b[..., 8:]) | _bits32(b[..., 4:8]) << 4), 0, 32, 32, _half(b, 0), _half(b, 2))


def _iq4_nl(b: np.ndarray) -> Codes:
    return Codes(_flat(IQ4_VALUES[_nibbles(b[..., 2:])].view(np.uint8) ^ 0x80), 128, 32, 32, _half(b, 0))


def _iq4_xs(b: np.ndarray) -> Codes:
    high = np.ascontiguousarray(b[..., 2:4]).view("<u2").astype(np.int16) >> np.arange(0, 16, 2, dtype=np.int16) & 3
    low = np.stack((b[..., 4:8] & 15, b[..., 4:8] >> 4), axis=-1).reshape(*b.shape[:2], 8)
    q = IQ4_VALUES[_nibbles(b[..., 8:].reshape(*b.shape[:2], 8, 16))].view(np.uint8) ^ 0x80
    return Codes(_flat(q), 128, 256, 32, _half(b, 0), sub=_flat((low | high << 4).astype(np.int16) - 32))


def _six_bit_pairs(s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The 12 scale bytes of Q4_K and Q5_K -> eight 6-bit scales and eight 6-bit minima (int16)."""
    scale = np.concatenate((s[..., :4] & 63, s[..., 8:12] & 15 | s[..., :4] >> 6 << 4), axis=-1)
    minimum = np.concatenate((s[..., 4:8] & 63, s[..., 8:12] >> 4 | s[..., 4:8] >> 6 << 4), axis=-1)
    return scale.astype(np.int16), minimum.astype(np.int16)


def _q4_k(b: np.ndarray) -> Codes:
    sub, submin = _six_bit_pairs(b[..., 4:16])
    qs = b[..., 16:].reshape(*b.shape[:2], 4, 32)
    q = np.stack((qs & 15, qs >> 4), axis=-2)
    return Codes(_flat(q), 0, 256, 32, _half(b, 0), -_half(b, 2), _flat(sub), _flat(submin))


def _q5_k(b: np.ndarray) -> Codes:
    sub, submin = _six_bit_pairs(b[..., 4:16])
    qs = b[..., 48:].reshape(*b.shape[:2], 4, 32)
    high = (b[..., None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None] & 1).reshape(*b.shape[:2], 4, 2, 32)
    q = np.stack((qs & 15, qs >> 4), axis=-2) | high << 4
    return Codes(_flat(q), 0, 256, 32, _half(b, 0), -_half(b, 2), _flat(sub), _flat(submin))


def _two_bit(b: np.ndarray) -> np.ndarray:
    """[..., 64] bytes -> [..., 2, 4, 32]: halves of 128, four two-bit planes, 32 columns."""
    return b.reshape(*b.shape[:2], 2, 1, 32) >> np.arange(0, 8, 2, dtype=np.uint8)[:, None] & 3


def _q6_k(b: np.ndarray) -> Codes:
    ql = b[..., :128].reshape(*b.shape[:2], 2, 1, 64)
    low = np.concatenate((ql & 15, ql >> 4), axis=-2).reshape(*b.shape[:2], 2, 4, 32)
    q = low | _two_bit(b[..., 128:192]) << 4
    return Codes(_flat(q), 32, 256, 16, _half(b, 208), sub=_flat(b[..., 192:208].view(np.int8).astype(np.int16)))


def _q2_k(b: np.ndarray) -> Codes:
    s = b[..., :16]
    sub, submin = _flat((s & 15).astype(np.int16)), _flat((s >> 4).astype(np.int16))
    return Codes(_flat(_two_bit(b[..., 16:80])), 0, 256, 16, _half(b, 80), -_half(b, 82), sub, submin)


def _q3_k(b: np.ndarray) -> Codes:
    high = (b[..., None, :32] >> np.arange(8, dtype=np.uint8)[:, None] & 1).reshape(*b.shape[:2], 2, 4, 32)
    s = b[..., 96:108]
    low = np.concatenate((s[..., :8] & 15, s[..., :8] >> 4), axis=-1)
    top = (s[..., None, 8:] >> np.arange(0, 8, 2, dtype=np.uint8)[:, None] & 3).reshape(*b.shape[:2], 16)
    # three-bit codes with offset 4, kept as the six-bit codes with offset 32 that mean the same
    q = (_two_bit(b[..., 32:96]) | high << 2) + np.uint8(28)
    return Codes(_flat(q), 32, 256, 16, _half(b, 108), sub=_flat((low | top << 4).astype(np.int16) - 32))


_DECODERS: dict[str, Callable[[np.ndarray], Codes]] = {
    "Q8_0": _q8_0, "Q4_0": _q4_0, "Q4_1": _q4_1, "Q5_0": _q5_0, "Q5_1": _q5_1, "IQ4_NL": _iq4_nl, "IQ4_XS": _iq4_xs,
    "Q2_K": _q2_k, "Q3_K": _q3_k, "Q4_K": _q4_k, "Q5_K": _q5_k, "Q6_K": _q6_k,
}
