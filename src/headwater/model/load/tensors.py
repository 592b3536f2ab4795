"""A model file as the pages see it: every look-up is checked against the shape that the page states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from headwater.core.errors import FormatError
from headwater.kernels.ggml import BLOCK_BYTES, dequantise_ggml
from headwater.kernels.layouts import LAYOUT_OF
from headwater.model.config import ModelConfig
from headwater.model.load.dialect import Dialect
from headwater.model.load.mapped import TensorInfo


class Container(Protocol):
    """An open GGUF or safetensors file."""

    name: str
    nbytes: int
    tensors: dict[str, TensorInfo]

    @property
    def metadata(self) -> Mapping[str, Any]: ...
    def raw(self, name: str) -> np.ndarray: ...
    def read_ahead(self) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class MatrixPart:
    """A matrix of the file: its name there, encoding, shape, and whether the page wants its rows in another order."""

    name: str
    ggml_type: str
    rows: int
    cols: int
    nbytes: int
    reorder: bool = False


@dataclass(frozen=True, slots=True)
class Matrix:
    """What a page asks for as one weight: matrices on top of each other. Stands for the weight while a page is checked."""

    parts: tuple[MatrixPart, ...]
    cols: int

    @property
    def rows(self) -> int:
        return sum(p.rows for p in self.parts)


class FileTensors:
    """`layers.Tensors` over a container; `weight_of` turns a checked request into whatever stands for the weight."""

    def __init__(self, file: Container, config: ModelConfig, dialect: Dialect, weight_of: Callable[[Matrix], Any], prefix: str = "",
                 read: set[str] | None = None) -> None:
        self._file, self._config, self._dialect, self._weight_of, self._prefix = file, config, dialect, weight_of, prefix
        self.read: set[str] = set() if read is None else read

    def under(self, prefix: str) -> FileTensors:
        return FileTensors(self._file, self._config, self._dialect, self._weight_of, self._prefix + prefix, self.read)

    def has(self, name: str) -> bool:
        return self._dialect.file_name(self._prefix + name) in self._file.tensors

    def vector(self, name: str, size: int) -> np.ndarray:
        return self._floats(name, (size,))

    def table(self, name: str, rows: int, cols: int) -> np.ndarray:
        return self._floats(name, (rows, cols))

    def matrix(self, name: str, rows: int, cols: int) -> Any:
        return self._weight_of(Matrix((self._part(name, rows, cols),), cols))

    def stack(self, cols: int, *named_rows: tuple[str, int]) -> Any:
        return self._weight_of(Matrix(tuple(self._part(name, rows, cols) for name, rows in named_rows), cols))

    def raw(self, part: MatrixPart) -> np.ndarray:
        """uint8[rows, bytes per row] in the order that the page wants."""
        raw = self._file.raw(part.name).reshape(part.rows, -1)
        if part.reorder:
            order = self._dialect.row_order("attn_q.weight")
            assert order is not None
            return raw[order]
        return raw

    def _part(self, name: str, rows: int, cols: int) -> MatrixPart:
        full = self._prefix + name
        info = self._find(full, (rows, cols))
        return MatrixPart(info.name, info.ggml_type, rows, cols, info.nbytes, reorder=self._dialect.row_order(full) is not None)

    def _floats(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        full = self._prefix + name
        info = self._find(full, shape)
        values = dequantise_ggml(info.ggml_type, self._file.raw(info.name), 1 if len(shape) == 1 else shape[0], shape[-1]).reshape(shape)
        return np.ascontiguousarray(self._dialect.values(full, values), np.float32)

    def _find(self, full: str, shape: tuple[int, ...]) -> TensorInfo:
        stored = self._dialect.file_name(full)
        info = self._file.tensors.get(stored)
        expected = " x ".join(f"{n:,}" for n in shape)
        if info is None:
            raise FormatError(f"{self._file.name}: tensor '{stored}' ({expected}) is missing; family {self._config.family} needs it", field=stored)
        if _squeeze(info.shape) != _squeeze(shape):
            found = " x ".join(f"{n:,}" for n in info.shape) or "a scalar"
            raise FormatError(f"{self._file.name}: tensor '{stored}' is {found}; expected {expected} from the model's metadata", field=stored)
        if info.ggml_type not in LAYOUT_OF:
            known = ", ".join(LAYOUT_OF)
            raise FormatError(f"{self._file.name}: tensor '{stored}' is stored as {info.ggml_type}; supported: {known}", field=stored)
        values, _ = BLOCK_BYTES[info.ggml_type]
        if shape[-1] % values:
            what = f"{info.ggml_type} needs rows of a multiple of {values}"
            raise FormatError(f"{self._file.name}: tensor '{stored}' is {expected}; {what}", field=stored)
        self.read.add(stored)
        return info


def _squeeze(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n for n in shape if n != 1)
