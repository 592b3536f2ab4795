"""ModelConfig from GGUF metadata. Key names: the GGUF specification (docs/gguf.md of the ggml repository)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from headwater.core.errors import FormatError
from headwater.model.config import LIMITS, POOLINGS, DeltaConfig, ModelConfig
from headwater.model.load.facts import Facts
from headwater.model.rope import RopeConfig

# architecture -> family; what they differ in stands in the functions below
ARCHITECTURES = {
    "llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "gemma3": "gemma3", "bert": "bert", "qwen35": "hybrid",
}


def config_from_gguf(label: str, metadata: Mapping[str, Any], tensors: Mapping[str, Any]) -> ModelConfig:
    """label: file name for errors. tensors: name -> TensorInfo; only asked where the metadata leaves something open.

    Raises FormatError naming the key for anything missing, mistyped or inconsistent.
    """
    arch = Facts(label, metadata).text("general.architecture")
    if arch not in ARCHITECTURES:
        known = ", ".join(sorted(ARCHITECTURES))
        raise FormatError(f"{label}: architecture '{arch[:60]}' is not supported; supported: {known}", field="general.architecture")
    f = Facts(label, metadata, f"{arch}.")
    if f.integer("expert_count", 0):
        raise f.wrong("expert_count", "is set: mixture-of-experts models are not supported")
    shape = _shape(f, tensors)
    family = ARCHITECTURES[arch]
    common: dict[str, Any] = {
        "family": family, "label": label, "source": "gguf", "name": Facts(label, metadata).text("general.name", ""), **shape,
        "interleaved": family == "llama", "logit_scale": f.number("logit_scale", 1.0),
        "attn_softcap": f.number("attn_logit_softcapping", 0.0), "logit_softcap": f.number("final_logit_softcapping", 0.0),
    }
    if family == "bert":
        return _bert(f, common, tensors)
    common["eps"] = f.number("attention.layer_norm_rms_epsilon")
    common["rope"] = _rope(f, shape["head_dim"], 1e6 if family == "gemma3" else 1e4)
    common["attn_scale"] = f.number("attention.scale", 0.0)
    if family == "gemma3":
        common |= _gemma3(f, common)
    elif family == "hybrid":
        common |= _hybrid(f, shape["layers"])
    elif f.has("attention.sliding_window"):
        common["windows"] = f.integers("attention.sliding_window", shape["layers"], high=LIMITS["context"])
    return ModelConfig(**common)


def with_rope_divisors(config: ModelConfig, divisors: np.ndarray) -> ModelConfig:
    """Llama 3 files keep their frequency scaling as a tensor of divisors, float32[dims / 2]."""
    assert config.rope is not None
    return replace(config, rope=replace(config.rope, divisors=tuple(float(d) for d in divisors)))


def _shape(f: Facts, tensors: Mapping[str, Any]) -> dict[str, int]:
    layers = f.integer("block_count", low=1, high=LIMITS["layers"])
    layers -= f.integer("nextn_predict_layers", 0, high=layers - 1)  # blocks that only guess further tokens come last
    dim = f.integer("embedding_length", low=1, high=LIMITS["dim"])
    heads = _same_in_all(f, "attention.head_count", layers, None)
    kv_heads = _same_in_all(f, "attention.head_count_kv", layers, heads)
    head_dim = f.integer("attention.key_length", dim // heads, low=1, high=LIMITS["head_dim"])
    if f.integer("attention.value_length", head_dim) != head_dim:
        raise f.wrong("attention.value_length", f"differs from the key length {head_dim}; models with two head sizes are not supported")
    if not f.has("attention.key_length") and dim % heads:
        raise f.wrong("attention.head_count", f"is {heads}, which does not divide the embedding length {dim}")
    embedding = tensors.get("token_embd.weight")
    vocab = f.integer("vocab_size", embedding.shape[0] if embedding is not None and len(embedding.shape) == 2 else None, low=1, high=LIMITS["vocab"])
    if vocab is None:
        raise f.wrong("vocab_size", "is missing and there is no token_embd.weight to tell it")
    return {
        "vocab": vocab, "dim": dim, "layers": layers, "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim,
        "ffn": _same_in_all(f, "feed_forward_length", layers, None),
        "context": f.integer("context_length", low=1, high=LIMITS["context"]),
    }


def _same_in_all(f: Facts, key: str, layers: int, default: int | None) -> int:
    """A number that the format allows to differ per layer and that ours must not; 0 marks layers without (hybrids) and is skipped."""
    if default is not None and not f.has(key):
        return default
    values = {v for v in f.integers(key, layers, high=LIMITS["ffn"]) if v}
    if len(values) != 1:
        raise f.wrong(key, f"differs between layers ({', '.join(map(str, sorted(values)[:4])) or 'all 0'}); one value for all is supported")
    return values.pop()


def _rope(f: Facts, head_dim: int, default_base: float) -> RopeConfig:
    kind = f.text("rope.scaling.type", "none")
    factor = f.number("rope.scaling.factor", 0.0) or 1.0
    if kind == "none" and f.has("rope.scale_linear"):                # the key of files older than rope.scaling.*
        kind, factor = "linear", f.number("rope.scale_linear")
    return RopeConfig(
        theta=f.number("rope.freq_base", default_base), dims=f.integer("rope.dimension_count", head_dim, high=LIMITS["head_dim"]),
        scaling=kind, factor=factor, original_context=f.integer("rope.scaling.original_context_length", f.integer("context_length")),
        beta_fast=f.number("rope.scaling.yarn_beta_fast", 32.0), beta_slow=f.number("rope.scaling.yarn_beta_slow", 1.0),
        attention_factor=_attention_factor(f, kind, factor),
    )


def _attention_factor(f: Facts, kind: str, factor: float) -> float | None:
    """In GGUF the attention factor of YaRN comes on top of what the method prescribes; ours replaces it."""
    given = f.number("rope.scaling.yarn_attn_factor", f.number("rope.scaling.attn_factor", 1.0))
    if given == 1.0:
        return None
    prescribed = RopeConfig(theta=2.0, dims=2, scaling=kind, factor=factor, original_context=2).mscale() if kind == "yarn" and factor > 0 else 1.0
    return given * prescribed


def _gemma3(f: Facts, common: dict[str, Any]) -> dict[str, Any]:
    """Every sixth layer sees everything and uses the wide base; the file names neither (upstream configuration: pattern 6, local base 10,000)."""
    window, layers = f.integer("attention.sliding_window", 0, high=LIMITS["context"]), common["layers"]
    pattern = f.integer("attention.sliding_window_pattern", 6, low=1, high=LIMITS["layers"])
    rope = common["rope"]
    return {
        "windows": tuple(0 if (i + 1) % pattern == 0 else window for i in range(layers)),
        "rope_local": RopeConfig(theta=f.number("rope.freq_base_swa", f.number("rope.local.freq_base", 1e4)), dims=rope.dims),
        "embed_scale": common["dim"] ** 0.5,
        # the 27B model alone (62 layers) scales by embedding / heads; files do not say it
        "attn_scale": common["attn_scale"] or (common["dim"] / common["heads"] if layers == 62 else common["head_dim"]) ** -0.5,
    }


def _hybrid(f: Facts, layers: int) -> dict[str, Any]:
    every = f.integer("full_attention_interval", 4, low=1, high=LIMITS["layers"])
    recurrent = [(i + 1) % every != 0 for i in range(layers)]
    if f.has("attention.recurrent_layers"):
        recurrent = list(f.flags("attention.recurrent_layers", layers + f.integer("nextn_predict_layers", 0, high=64)))[:layers]
    value_heads, inner = f.integer("ssm.time_step_rank", high=4096, low=1), f.integer("ssm.inner_size", high=LIMITS["ffn"], low=1)
    if inner % value_heads:
        raise f.wrong("ssm.inner_size", f"is {inner}, not a multiple of the {value_heads} heads in ssm.time_step_rank")
    return {
        "kinds": tuple("delta" if r else "attention" for r in recurrent),
        "delta": DeltaConfig(
            key_heads=f.integer("ssm.group_count", low=1, high=4096), value_heads=value_heads, key_dim=f.integer("ssm.state_size", low=1, high=4096),
            value_dim=inner // value_heads, conv_width=f.integer("ssm.conv_kernel", low=2, high=64),
        ),
    }


def _bert(f: Facts, common: dict[str, Any], tensors: Mapping[str, Any]) -> ModelConfig:
    types = tensors.get("token_types.weight")
    pooling = POOLINGS[f.integer("pooling_type", 1, high=len(POOLINGS) - 1)]
    return ModelConfig(
        **common, eps=f.number("attention.layer_norm_epsilon"), rope=None, tied=True, causal=f.flag("attention.causal", False),
        token_types=types.shape[0] if types is not None and len(types.shape) == 2 else 0, pooling=pooling, normalise=True,
    )
