"""Packed weights: file bytes re-encoded without loss into the layouts of `layouts.py`, and matrices stacked from parts.

    part = pack("Q4_1", raw, rows=576, cols=576)
    qkv = Weight([q_part, k_part, v_part])          # stacked along output rows; the parts may have different layouts
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headwater.kernels import ggml, layouts
from headwater.kernels.ggml import Codes, dequantise_ggml
from headwater.kernels.layouts import LAYOUT_OF, LAYOUTS, Layout

__all__ = ["Part", "Weight", "dequantise_ggml", "pack", "pack_floats", "quantise"]


@dataclass(frozen=True, slots=True)
class Part:
    """A packed [rows, cols] matrix in one layout; data: uint8, 64-byte aligned. source: the format that it came from."""

    layout: Layout
    rows: int
    cols: int
    data: np.ndarray = field(repr=False)
    source: str

    def __post_init__(self) -> None:
        want = self.layout.nbytes(self.rows, self.cols)
        if self.data.dtype != np.uint8 or self.data.size != want or self.data.ctypes.data % 64:
            raise ValueError(f"layout {self.layout.name} [{self.rows}, {self.cols}] takes {want:,} aligned bytes, got {self.data.size:,}")

    @property
    def nbytes(self) -> int:
        return self.data.size

    def codes(self) -> Codes:
        """Codes and scales of a block layout (ValueError for float layouts)."""
        if self.layout.is_float:
            raise ValueError(f"layout {self.layout.name} has no codes")
        return layouts.decode(self.layout, self.data, self.rows, self.cols)

    def dequantise(self) -> np.ndarray:
        """float32[rows, cols], the exact values of the source."""
        if self.layout.is_float:
            return layouts.decode_floats(self.layout, self.data, self.rows, self.cols)
        return self.codes().values()


class Weight:
    """Parts stacked along output rows: y = x · Wᵀ, W [rows, cols]."""

    __slots__ = ("_native", "cols", "parts", "rows")

    def __init__(self, parts: Sequence[Part] | Part) -> None:
        self.parts: tuple[Part, ...] = (parts,) if isinstance(parts, Part) else tuple(parts)
        if not self.parts or len({p.cols for p in self.parts}) != 1:
            raise ValueError(f"a weight needs parts of one width, got {[(p.rows, p.cols) for p in self.parts]}")
        self.cols = self.parts[0].cols
        self.rows = sum(p.rows for p in self.parts)
        self._native: Any = None

    def __repr__(self) -> str:
        return f"Weight([{self.rows}, {self.cols}], {' + '.join(p.layout.name for p in self.parts)}, {self.nbytes:,} bytes)"

    @property
    def nbytes(self) -> int:
        return sum(p.nbytes for p in self.parts)

    @property
    def native(self) -> Any:
        """The native handle (it keeps the arrays alive); made once."""
        if self._native is None:
            from headwater.kernels.native import library

            self._native = library().Weight([(p.layout.id, p.rows, p.cols, p.data) for p in self.parts])
        return self._native

    def dequantise(self) -> np.ndarray:
        """float32[rows, cols]."""
        return np.concatenate([p.dequantise() for p in self.parts])

    def gather(self, ids: np.ndarray) -> np.ndarray:
        """Rows `ids` dequantised: float32[len(ids), cols]; numpy definition of the embedding."""
        ids = np.asarray(ids)
        if ids.size and (ids.min() < 0 or ids.max() >= self.rows):
            raise ValueError(f"row ids must lie in [0, {self.rows}), got [{ids.min()}, {ids.max()}]")
        out = np.empty((len(ids), self.cols), np.float32)
        start = 0
        for part in self.parts:
            mine = (ids >= start) & (ids < start + part.rows)
            if mine.any():
                out[mine] = _rows(part, ids[mine] - start)
            start += part.rows
        return out


def _rows(part: Part, ids: np.ndarray) -> np.ndarray:
    """Dequantise only the 16-row groups that hold `ids`."""
    groups, where = np.unique(ids // layouts.LANES, return_inverse=True)
    data = part.data.reshape(-1, part.layout.nbytes(layouts.LANES, part.cols))[groups].reshape(-1)
    picked = layouts.aligned(data.size)
    picked[:] = data
    values = Part(part.layout, len(groups) * layouts.LANES, part.cols, picked, part.source).dequantise()
    return values[where * layouts.LANES + ids % layouts.LANES]


def pack(ggml_type: str | int, raw: np.ndarray, rows: int, cols: int) -> Part:
    """File bytes of a [rows, cols] tensor -> Part, without loss, natively with all threads when the module is there.

    Raises ValueError for an unknown type, a width that does not fill blocks, or a buffer of another size.
    """
    name = ggml.type_name(ggml_type)
    data = ggml.raw_rows(name, raw, rows, cols)
    layout = LAYOUTS[LAYOUT_OF[name]]
    from headwater.kernels import native

    if native.available():
        return Part(layout, rows, cols, native.library().pack(name, data.reshape(-1), rows, cols), name)
    if layout.is_float:
        return Part(layout, rows, cols, layouts.encode_floats(layout, data.view(layouts.FLOAT_TYPES[layout.name])), name)
    return Part(layout, rows, cols, layouts.encode(layout, ggml.decode(name, data, rows, cols)), name)


def pack_floats(x: np.ndarray) -> Part:
    """float32 or float16 [rows, cols] -> Part of the same values; uint16 is taken as bfloat16 bits."""
    if x.ndim != 2:
        raise ValueError(f"a weight has two dimensions, got shape {x.shape}")
    name = {"float32": "F32", "float16": "F16", "uint16": "BF16"}.get(x.dtype.name)
    if name is None:
        raise ValueError(f"cannot pack {x.dtype}; want float32, float16 or bfloat16 bits as uint16")
    return pack(name, np.ascontiguousarray(x).reshape(-1).view(np.uint8), *x.shape)


def quantise(x: np.ndarray, how: str) -> Part:
    """float [rows, cols] -> Part. 'q8': Q8_0 (amax / 127 per 32 columns); 'q4': Q4_1 (range / 15 and minimum per 32 columns).

    Raises ValueError for another `how`, values that are not finite or too large for float16 scales, and widths that are no multiple of 32.
    """
    if how not in ("q8", "q4"):
        raise ValueError(f"quantise: '{how}' is not a target; known: q8, q4")
    if x.ndim != 2 or x.shape[1] % 32 or not x.size:
        raise ValueError(f"quantise: needs [rows, a multiple of 32 columns], got {x.shape}")
    rows, cols = x.shape
    raw = np.concatenate([_quantise_rows(np.asarray(x[i : i + 1024], np.float32), how) for i in range(0, rows, 1024)])
    return pack("Q8_0" if how == "q8" else "Q4_1", raw, rows, cols)


def _quantise_rows(x: np.ndarray, how: str) -> np.ndarray:
    """float32[rows, cols] -> file bytes of Q8_0 or Q4_1, flat."""
    blocks = x.reshape(-1, 32)
    with np.errstate(over="ignore", invalid="ignore"):
        if how == "q8":
            scale = (np.abs(blocks).max(axis=1, keepdims=True) / np.float32(127)).astype(np.float16)
            low = np.zeros_like(scale)
        else:
            low = blocks.min(axis=1, keepdims=True).astype(np.float16)
            scale = ((blocks.max(axis=1, keepdims=True) - low.astype(np.float32)) / np.float32(15)).astype(np.float16)
    if not (np.isfinite(scale).all() and np.isfinite(low).all()):
        raise ValueError("quantise: a value is not finite or exceeds the range of float16 scales")
    step = scale.astype(np.float32)
    q = np.rint(np.divide(blocks - low.astype(np.float32), step, out=np.zeros_like(blocks), where=step > 0))
    out = np.empty((len(blocks), 34 if how == "q8" else 20), np.uint8)
    out[:, :2] = scale.view(np.uint8)
    if how == "q8":
        out[:, 2:] = np.clip(q, -127, 127).astype(np.int8).view(np.uint8)
    else:
        codes = np.clip(q, 0, 15).astype(np.uint8)
        out[:, 2:4] = low.view(np.uint8)
        out[:, 4:] = codes[:, :16] | codes[:, 16:] << 4
    return out.reshape(-1)
