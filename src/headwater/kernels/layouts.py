"""The packed weight layouts: what the kernels stream. `encode` and `decode` are the numpy definition; the native packer writes the same bytes.

A matrix is cut into groups of 16 output rows; a lane of the kernels is one row. Block layouts: a group is a sequence of chunks along the
columns, each a header of scales followed by blocks of 32 columns. A block holds its codes by quad (four consecutive columns): one 64-byte
vector has 16 rows x 4 columns. Eight-bit codes: vector j = quad j. Four-bit: vector i = quad 2i in the low nibbles, quad 2i + 1 in the high
ones. The fifth bit of all quads is one vector (bit j of a byte = quad j), bits five and six are two (bits 2(j mod 4) = quad j of vector
j / 4); two-bit codes use the same two vectors alone. Float layouts: a group is [cols][16].

Headers, 16 rows each, multiples of 64 bytes: one-level layouts d (and minimum) float16; two-level layouts d, minimum float16, then 8-bit
sub-scales [256 / gran][16], then sub-minima. Rows beyond the last are zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from headwater.kernels.ggml import Codes

LANES = 16
BLOCK = 32


@dataclass(frozen=True, slots=True)
class Layout:
    """One packed layout. bits per code, gran columns per scale, offset subtracted from a code, blocks per chunk; `id` as in csrc/weights/layout.h."""

    name: str
    id: int
    bits: int
    gran: int = 32
    offset: int = 0
    two_level: bool = False
    has_min: bool = False

    @property
    def is_float(self) -> bool:
        return self.name in FLOAT_TYPES

    @property
    def blocks(self) -> int:
        """Blocks per chunk: a super-block of eight, or as many as fill a 64-byte header."""
        return 8 if self.two_level else 1 if self.has_min else 2

    @property
    def block_bytes(self) -> int:
        return LANES * BLOCK * self.bits // 8

    @property
    def header_bytes(self) -> int:
        """Two-level headers: 64 for d and minimum, then sub-scales and sub-minima."""
        return 64 + (2 if self.has_min else 1) * (256 // self.gran) * LANES if self.two_level else 64

    @property
    def chunk_bytes(self) -> int:
        return self.header_bytes + self.blocks * self.block_bytes

    def nbytes(self, rows: int, cols: int) -> int:
        """Size of a packed [rows, cols] matrix."""
        groups = -(-rows // LANES)
        if self.is_float:
            return groups * LANES * cols * (self.bits // 8)
        return groups * -(-cols // (BLOCK * self.blocks)) * self.chunk_bytes


FLOAT_TYPES: dict[str, np.dtype[Any]] = {"f32": np.dtype("<f4"), "f16": np.dtype("<f2"), "bf16": np.dtype("<u2")}
LAYOUTS: dict[str, Layout] = {
    layout.name: layout
    for layout in (
        Layout("f32", 0, 32), Layout("f16", 1, 16), Layout("bf16", 2, 16),
        Layout("q8", 3, 8, offset=128),
        Layout("q4", 4, 4, offset=8),
        Layout("q4m", 5, 4, has_min=True),
        Layout("q5", 6, 5, offset=16),
        Layout("q5m", 7, 5, has_min=True),
        Layout("q8s", 8, 8, offset=128, two_level=True),
        Layout("q4k", 9, 4, two_level=True, has_min=True),
        Layout("q5k", 10, 5, two_level=True, has_min=True),
        Layout("q6k", 11, 6, gran=16, offset=32, two_level=True),
        Layout("q2k", 12, 2, gran=16, two_level=True, has_min=True),
    )
}
LAYOUT_OF: dict[str, str] = {  # which layout keeps a file format without loss
    "F32": "f32", "F16": "f16", "BF16": "bf16", "Q8_0": "q8", "IQ4_NL": "q8", "Q4_0": "q4", "Q4_1": "q4m", "Q5_0": "q5", "Q5_1": "q5m",
    "IQ4_XS": "q8s", "Q4_K": "q4k", "Q5_K": "q5k", "Q6_K": "q6k", "Q3_K": "q6k", "Q2_K": "q2k",
}


def aligned(nbytes: int) -> np.ndarray:
    """Zeroed uint8[nbytes] that starts on a 64-byte border."""
    whole = np.zeros(nbytes + 64, np.uint8)
    start = -whole.ctypes.data % 64
    return whole[start : start + nbytes]


def encode_floats(layout: Layout, x: np.ndarray) -> np.ndarray:
    """x [rows, cols] in the layout's element type (bf16 as uint16) -> packed uint8."""
    rows, cols = x.shape
    out = aligned(layout.nbytes(rows, cols))
    groups = out.view(FLOAT_TYPES[layout.name]).reshape(-1, cols, LANES)
    for lane in range(LANES):
        part = x[lane::LANES]
        groups[: len(part), :, lane] = part
    return out


def decode_floats(layout: Layout, data: np.ndarray, rows: int, cols: int) -> np.ndarray:
    """Inverse of encode_floats, as float32[rows, cols]."""
    groups = data.view(FLOAT_TYPES[layout.name]).reshape(-1, cols, LANES)
    x = groups.transpose(0, 2, 1).reshape(-1, cols)[:rows]
    return (x.astype(np.uint32) << 16).view(np.float32) if layout.name == "bf16" else x.astype(np.float32)


def encode(layout: Layout, codes: Codes) -> np.ndarray:
    """Codes -> packed uint8."""
    rows, cols = codes.q.shape
    if (codes.offset, codes.gran, codes.minimum is not None, codes.sub is not None) != (layout.offset, layout.gran, layout.has_min, layout.two_level):
        raise ValueError(f"layout {layout.name} cannot hold these codes (offset {codes.offset}, {codes.gran} columns a scale)")
    n_groups, n_chunks = -(-rows // LANES), -(-cols // (BLOCK * layout.blocks))
    out = aligned(layout.nbytes(rows, cols))
    chunks = out.reshape(n_groups, n_chunks, layout.chunk_bytes)
    q = _grouped(codes.q, n_groups, n_chunks * layout.blocks * BLOCK)
    chunks[..., layout.header_bytes :] = _pack_bits(layout, q).reshape(n_groups, n_chunks, -1)
    header = chunks[..., : layout.header_bytes]
    per_chunk = 1 if layout.two_level else layout.blocks
    _put(header, 0, _grouped(codes.d, n_groups, n_chunks * per_chunk), n_chunks)
    if codes.minimum is not None:
        _put(header, 32, _grouped(codes.minimum, n_groups, n_chunks), n_chunks)
    subs = [s for s in (codes.sub, codes.submin) if s is not None]
    for i, sub in enumerate(subs):
        _put(header, 64 + i * (256 // layout.gran) * LANES, _grouped(sub.astype(np.uint8), n_groups, n_chunks * (256 // layout.gran)), n_chunks)
    return out


def decode(layout: Layout, data: np.ndarray, rows: int, cols: int) -> Codes:
    """Inverse of encode."""
    n_groups, n_chunks = -(-rows // LANES), -(-cols // (BLOCK * layout.blocks))
    chunks = data.reshape(n_groups, n_chunks, layout.chunk_bytes)
    q = _unpack_bits(layout, chunks[..., layout.header_bytes :].reshape(n_groups, n_chunks * layout.blocks, layout.block_bytes))
    per_chunk = 1 if layout.two_level else layout.blocks
    span = 256 if layout.two_level else BLOCK

    def take(at: int, dtype: str, count: int, want: int) -> np.ndarray:
        size = np.dtype(dtype).itemsize * LANES * count
        raw = np.ascontiguousarray(chunks[..., at : at + size]).view(dtype).reshape(n_groups, n_chunks * count, LANES)
        return np.ascontiguousarray(raw.transpose(0, 2, 1)).reshape(n_groups * LANES, -1)[:rows, :want]

    subs = 256 // layout.gran
    codes = Codes(q[:rows, :cols], layout.offset, span, layout.gran, take(0, "<f2", per_chunk, cols // span))
    if layout.has_min:
        codes.minimum = take(32, "<f2", 1, cols // span)
    if layout.two_level:
        codes.sub = take(64, "u1" if layout.has_min else "i1", subs, cols // layout.gran).astype(np.int16)
        if layout.has_min:
            codes.submin = take(64 + subs * LANES, "u1", subs, cols // layout.gran).astype(np.int16)
    return codes


def _grouped(x: np.ndarray, n_groups: int, width: int) -> np.ndarray:
    """[rows, n] -> zero-padded [groups, width, 16]."""
    padded = np.zeros((n_groups * LANES, width), x.dtype)
    padded[: x.shape[0], : x.shape[1]] = x
    return np.ascontiguousarray(padded.reshape(n_groups, LANES, width).transpose(0, 2, 1))


def _put(header: np.ndarray, at: int, values: np.ndarray, n_chunks: int) -> None:
    raw = values.reshape(values.shape[0], n_chunks, -1).view(np.uint8)
    header[..., at : at + raw.shape[-1]] = raw


def _pack_bits(layout: Layout, q: np.ndarray) -> np.ndarray:
    """q uint8[groups, cols, 16] -> [groups, blocks, block_bytes]."""
    quads = q.reshape(q.shape[0], -1, 8, 4, LANES).transpose(0, 1, 2, 4, 3).reshape(q.shape[0], -1, 8, 64)     # [group, block, quad, row · column]
    if layout.bits == 8:
        return quads.reshape(*quads.shape[:2], -1)
    parts = []
    if layout.bits >= 4:
        low = quads & 15
        parts.append(low[:, :, 0::2] | low[:, :, 1::2] << 4)
    high = quads >> 4 if layout.bits > 4 else quads
    if layout.bits == 5:
        parts.append((high << np.arange(8, dtype=np.uint8)[:, None]).sum(axis=2, dtype=np.uint8)[:, :, None])
    elif layout.bits in (2, 6):
        planes = high.reshape(*high.shape[:2], 2, 4, 64) << np.arange(0, 8, 2, dtype=np.uint8)[:, None]
        parts.append(planes.sum(axis=3, dtype=np.uint8))
    return np.concatenate(parts, axis=2).reshape(*quads.shape[:2], -1)


def _unpack_bits(layout: Layout, blocks: np.ndarray) -> np.ndarray:
    """[groups, blocks, block_bytes] -> uint8[rows, cols]."""
    vectors = blocks.reshape(*blocks.shape[:2], -1, 64)
    if layout.bits == 8:
        quads = vectors
    else:
        quads = np.zeros((*vectors.shape[:2], 8, 64), np.uint8)
        if layout.bits >= 4:
            quads[:, :, 0::2] = vectors[:, :, :4] & 15
            quads[:, :, 1::2] = vectors[:, :, :4] >> 4
        if layout.bits == 5:
            quads |= (vectors[:, :, 4:5] >> np.arange(8, dtype=np.uint8)[:, None] & 1) << 4
        elif layout.bits in (2, 6):
            planes = vectors[:, :, -2:, None] >> np.arange(0, 8, 2, dtype=np.uint8)[:, None] & 3
            quads |= planes.reshape(quads.shape) << (4 if layout.bits == 6 else 0)
    g, b = quads.shape[:2]
    return np.ascontiguousarray(quads.reshape(g, b, 8, LANES, 4).transpose(0, 3, 1, 2, 4)).reshape(g * LANES, b * BLOCK)
