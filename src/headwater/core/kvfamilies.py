"""KV bytes per token of published model families, computed from their shapes and held against known figures."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.core.kvspec import CacheGroup, KVSpec


@dataclass(frozen=True, slots=True)
class Family:
    """A published model. known: bytes per token by the authors, or by hand from their public configuration; None where nobody gives one.
    basis: where shape and figure come from.

    Left out, as in the published figures: sliding windows (constant per sequence), drafters, allocator padding.
    """

    name: str
    how: str
    spec: KVSpec
    known: int | None
    basis: str


def _grouped(layers: int, kv_heads: int, head_dim: int) -> KVSpec:
    return KVSpec((CacheGroup("full", layers, kv_heads, head_dim),))


def _latent(layers: int, width: int) -> KVSpec:
    return KVSpec((CacheGroup("full", layers, 1, width, vectors=1),))


def _single(layers: int, width: int, format: str, stride: int = 1) -> CacheGroup:
    return CacheGroup("full", layers, 1, width, format=format, vectors=1, stride=stride)


def _csa2(layers: int, stride: int) -> tuple[CacheGroup, ...]:
    """Main entry of 512 channels in FP4 and an index key of 128 in MXFP4 (DeepSeek-V4.1-Flash)."""
    return _single(layers, 512, "fp4", stride), _single(layers, 128, "mxfp4", stride)


def _fp8_entry(layers: int, stride: int) -> tuple[CacheGroup, ...]:
    """448 channels in FP8 and 64 rotary ones in 16 bits: 584 bytes (DeepSeek-V4-Flash)."""
    return _single(layers, 448, "fp8-56", stride), _single(layers, 64, "f16", stride)


FAMILIES = (
    Family("Llama-2-7B", "multi-head", _grouped(32, 32, 128), 524_288, "public configuration"),
    Family("DeepSeek-67B (V1)", "grouped query", _grouped(95, 8, 128), 389_120, "public configuration"),
    Family("Llama-3.1-70B", "grouped query", _grouped(80, 8, 128), 327_680, "public configuration"),
    Family("Llama-3.1-8B", "grouped query", _grouped(32, 8, 128), 131_072, "public configuration"),
    Family("Qwen3-0.6B", "grouped query", _grouped(28, 8, 128), 114_688, "public configuration"),
    Family("Qwen2.5-0.5B", "grouped query", _grouped(24, 2, 64), 12_288, "public configuration"),
    Family("SmolLM2-135M", "grouped query", _grouped(30, 3, 64), 23_040, "public configuration"),
    Family("DeepSeek-V3", "latent", _latent(61, 576), 70_272, "arXiv 2412.19437"),
    Family("DeepSeek-V2", "latent", _latent(60, 576), 69_120, "arXiv 2405.04434"),
    Family("DeepSeek-V3.2", "latent and index key, FP8", KVSpec((
        _single(61, 512, "fp8-128"), _single(61, 64, "f16"), _single(61, 128, "fp8-128"))), 48_068, "public FP8 layout, 656 + 132 bytes a layer"),
    Family("DeepSeek-V4-Flash", "compressed 4x and 128x, FP8", KVSpec((
        *_fp8_entry(21, 4), _single(21, 128, "mxfp4", 4), *_fp8_entry(20, 128))), None, "public model documentation"),
    Family("DeepSeek-V4.1-Flash", "shared across layers, FP4", KVSpec((*_csa2(3, 2), *_csa2(1, 1))), 890, "arXiv 2609.19969, section 4"),
)
