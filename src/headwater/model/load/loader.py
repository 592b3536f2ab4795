"""Load a model: container -> facts -> page (checked, planned) -> packed weights -> page again with the weights in it.

The page runs twice. The first run checks every tensor's presence and shape and yields the memory plan without reading a weight; the second
records the program. Nothing of the source file stays mapped afterwards.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from headwater.core.errors import FormatError, UserInputError
from headwater.core.kvspec import KVSpec
from headwater.kernels.layouts import aligned
from headwater.kernels.program import Program
from headwater.kernels.weights import Part, Weight, dequantise_ggml, pack, quantise
from headwater.model.config import ModelConfig
from headwater.model.families import FAMILIES
from headwater.model.load.dialect import Dialect
from headwater.model.load.folder import HubFolder, is_hub_folder
from headwater.model.load.gguf import open_gguf
from headwater.model.load.gguf_config import config_from_gguf, with_rope_divisors
from headwater.model.load.hub_config import config_from_hub
from headwater.model.load.safetensors import open_safetensors
from headwater.model.load.tensors import Container, FileTensors, Matrix, MatrixPart
from headwater.model.plan import QUANTISED_AS, WEIGHT_OPTIONS, MemoryPlan, packed_nbytes, packed_type, plan_program, vector_bytes
from headwater.model.stretch import stretched

Progress = Callable[[int, int, str], None]
STRIP_ROWS = 4096
TABLES = ("token_embd.weight", "output.weight", "embed_tokens.weight", "lm_head.weight", "word_embeddings.weight")


@dataclass(frozen=True, slots=True)
class TokenizerSource:
    """Where the tokenizer comes from: the metadata of a GGUF file, or the folder with tokenizer.json."""

    kind: Literal["gguf", "hub"]
    metadata: Mapping[str, Any] = field(default_factory=dict, repr=False)
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What loading did. encodings: (encoding in the file, layout in memory) -> matrices. file_bytes, weight_bytes: on disk, in memory."""

    encodings: Mapping[tuple[str, str], int]
    file_bytes: int
    weight_bytes: int


@dataclass(frozen=True, slots=True)
class Model:
    """A loaded model. identity: hash over the tables and samples of every tensor and the weight option; part of the KV identity."""

    config: ModelConfig
    program: Program
    kvspec: KVSpec
    tokenizer: TokenizerSource
    plan: MemoryPlan
    report: LoadReport
    identity: str
    generation: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(slots=True)
class Source:
    """An open model file with its facts, before any weight is read. Close it, or use it as a context."""

    file: Container
    config: ModelConfig
    tokenizer: TokenizerSource
    generation: Mapping[str, Any]

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *exc: object) -> None:
        self.file.close()


def open_source(path: str | Path | Sequence[str | Path], rope_scaling: str = "") -> Source:
    """Open a .gguf file (or its parts in order), a .safetensors model's folder, or a file inside such a folder.

    rope_scaling: `METHOD:factor=F` for a context beyond the model's own (`model/stretch.py`); empty = as the file says.
    Raises FormatError or UserInputError, one line, for anything that is not a supported model.
    """
    source = _open(path)
    try:
        source.config = stretched(source.config, rope_scaling)
    except BaseException:
        source.file.close()
        raise
    return source


def _open(path: str | Path | Sequence[str | Path]) -> Source:
    paths = [Path(path)] if isinstance(path, str | Path) else [Path(p) for p in path]
    if not paths:
        raise UserInputError("model: no file given", field="model")
    if len(paths) == 1 and (paths[0].is_dir() or paths[0].name.endswith((".safetensors", ".safetensors.index.json"))):
        return _open_folder(paths[0] if paths[0].is_dir() else paths[0].parent)
    for p in paths:
        if not p.exists():
            raise UserInputError(f"model: {p} does not exist", field="model")
    file = open_gguf(paths[0] if len(paths) == 1 else paths)
    try:
        config = config_from_gguf(file.name, file.metadata, file.tensors)
        if "rope_freqs.weight" in file.tensors and config.rope:
            info = file.tensors["rope_freqs.weight"]
            config = with_rope_divisors(config, dequantise_ggml(info.ggml_type, file.raw(info.name), 1, int(np.prod(info.shape)))[0])
    except BaseException:
        file.close()
        raise
    return Source(file, config, TokenizerSource("gguf", file.metadata), {})


def _open_folder(folder: Path) -> Source:
    if not is_hub_folder(folder):
        raise UserInputError(f"model: {folder} holds no config.json; a folder from a model hub or a .gguf file is needed", field="model")
    described = HubFolder.read(folder)
    config = config_from_hub(f"{folder.name}/config.json", described.config, described.pooling, described.normalise)
    file = open_safetensors(folder)
    return Source(file, config, TokenizerSource("hub", folder=folder), described.generation)


def plan_model(
    path: str | Path | Sequence[str | Path], weights: str = "as-is", kv_format: str = "f16", rope_scaling: str = "",
) -> MemoryPlan:
    """The memory plan of a model without loading it; every tensor is checked on the way."""
    with open_source(path, rope_scaling) as source:
        return _check(source, weights, kv_format)[1]


def load_model(
    path: str | Path | Sequence[str | Path], weights: str = "as-is", progress: Progress | None = None, kv_format: str = "f16",
    rope_scaling: str = "",
) -> Model:
    """Load a model into packed weights and a recorded program.

    weights: 'as-is', or 'q8' / 'q4' to quantise float matrices on the way (under 'q4' the embedding and the output matrix become q8).
    progress: called as progress(bytes done, bytes in all, tensor name).
    Raises FormatError or UserInputError, one line naming the file and the tensor or key.
    """
    with open_source(path, rope_scaling) as source:
        return load_source(source, weights, progress, kv_format)


def load_source(source: Source, weights: str = "as-is", progress: Progress | None = None, kv_format: str = "f16") -> Model:
    """`load_model` for a file that is open already; who opened it closes it."""
    source.file.read_ahead()
    matrices, plan, dialect = _check(source, weights, kv_format)
    packed = _pack_all(source, dialect, matrices, weights, progress)
    tensors = FileTensors(source.file, source.config, dialect, packed.__getitem__)
    program = FAMILIES[source.config.family](source.config, tensors)
    report = LoadReport(
        Counter((p.source, p.layout.name) for w in packed.values() for p in w.parts), source.file.nbytes, sum(w.nbytes for w in packed.values())
    )
    identity = _identity(source, weights)
    return Model(source.config, program, source.config.kvspec(kv_format), source.tokenizer, plan, report, identity, source.generation)


def _check(source: Source, weights: str, kv_format: str) -> tuple[list[Matrix], MemoryPlan, Dialect]:
    """Run the page on stand-ins: all tensors are there in the right shape and none is left over."""
    if weights not in WEIGHT_OPTIONS:
        raise UserInputError(f"--weights {weights}: one of {', '.join(WEIGHT_OPTIONS)}", field="weights")
    config, file = source.config, source.file
    dialect = Dialect(config, file.tensors)
    wanted: dict[Matrix, Matrix] = {}
    tensors = FileTensors(file, config, dialect, lambda m: wanted.setdefault(m, m))
    program = FAMILIES[config.family](config, tensors)
    left = dialect.unread(tensors.read)
    if left:
        raise FormatError(
            f"{file.name}: tensor '{left[0][:120]}' is not part of family {config.family} ({len(left)} such); a variant that is not supported?",
            field=left[0],
        )
    matrices = list(wanted)
    total = sum(packed_nbytes(m, weights, table=_is_table(m)) for m in matrices)
    return matrices, plan_program(program, total, vector_bytes(program), config.kvspec(kv_format)), dialect


def _is_table(matrix: Matrix) -> bool:
    return matrix.parts[0].name.endswith(TABLES)


def _pack_all(source: Source, dialect: Dialect, matrices: list[Matrix], weights: str, progress: Progress | None) -> dict[Matrix, Weight]:
    total = sum(p.nbytes for m in matrices for p in m.parts)
    done = 0
    packed: dict[Matrix, Weight] = {}
    tensors = FileTensors(source.file, source.config, dialect, packed.__getitem__)
    for matrix in matrices:
        parts: list[Part] = []
        for p in matrix.parts:
            parts.append(_pack(source.file.name, p, tensors.raw(p), packed_type(p, weights, table=_is_table(matrix))))
            done += p.nbytes
            if progress:
                progress(done, total, p.name)
        packed[matrix] = Weight(parts)
    return packed


def _pack(file: str, part: MatrixPart, raw: np.ndarray, target: str) -> Part:
    try:
        if target == part.ggml_type:
            return pack(target, raw, part.rows, part.cols)
        return _quantise(part, raw, next(option for option, kind in QUANTISED_AS.items() if kind == target))
    except ValueError as e:
        raise FormatError(f"{file}: tensor '{part.name}': {e}", field=part.name) from None


def _quantise(part: MatrixPart, raw: np.ndarray, how: str) -> Part:
    """In strips, so that no large matrix ever stands in memory as float32: strips of whole row groups lie one after the other in a layout."""
    data: np.ndarray | None = None
    at = 0
    for start in range(0, part.rows, STRIP_ROWS):
        rows = min(STRIP_ROWS, part.rows - start)
        strip = quantise(dequantise_ggml(part.ggml_type, raw[start : start + rows], rows, part.cols), how)
        if rows == part.rows:
            return strip
        if data is None:
            data = aligned(strip.layout.nbytes(part.rows, part.cols))
        data[at : at + strip.nbytes] = strip.data
        at += strip.nbytes
    assert data is not None
    return Part(strip.layout, part.rows, part.cols, data, strip.source)


def _identity(source: Source, weights: str) -> str:
    """Hash of the facts, the tensor table and the first and last 2 KiB of every tensor; whole-file hashes are the catalog's business."""
    h = hashlib.blake2b(digest_size=16)
    h.update(repr((replace(source.config, label="", name=""), weights)).encode())      # the same file under another name is the same model
    for name in sorted(source.file.tensors):
        t = source.file.tensors[name]
        h.update(f"{t.name} {t.ggml_type} {t.shape} {t.nbytes}\n".encode())
        raw = source.file.raw(name)
        h.update(raw[:2048].tobytes() + raw[-2048:].tobytes())
    return h.hexdigest()
