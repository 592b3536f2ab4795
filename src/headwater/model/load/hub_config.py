"""ModelConfig from a hub-style `config.json`, in its older form (rope_theta, rope_scaling) and its newer one (rope_parameters)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.core.errors import FormatError
from headwater.model.config import LIMITS, DeltaConfig, ModelConfig, Pooling
from headwater.model.load.facts import Facts
from headwater.model.rope import RopeConfig

MODEL_TYPES = {
    "llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "gemma3_text": "gemma3", "gemma3": "gemma3", "bert": "bert",
    "qwen3_5_text": "hybrid", "qwen3_5": "hybrid",
}
# what the model type's own library assumes where config.json is silent (published Gemma 3 files leave most of it out)
_SILENT: dict[str, dict[str, Any]] = {
    "gemma3": {
        "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262_208, "max_position_embeddings": 131_072,
        "sliding_window": 4096, "query_pre_attn_scalar": 256, "tie_word_embeddings": True,
    },
    "hybrid": {"head_dim": 256},
}
_THETA = {"gemma3": 1e6}
_SCALING_NAMES = {"default": "none", "su": "longrope"}


def config_from_hub(label: str, values: Mapping[str, Any], pooling: Pooling = "none", normalise: bool = True) -> ModelConfig:
    """values: the parsed config.json; pooling, normalise: from the folder's other files, for encoders.

    Raises FormatError naming the key for anything missing, mistyped or inconsistent.
    """
    f = Facts(label, values)
    kind = f.text("model_type")
    if kind not in MODEL_TYPES:
        raise FormatError(f"{label}: model_type '{kind[:60]}' is not supported; supported: {', '.join(sorted(MODEL_TYPES))}", field="model_type")
    if f.has("quantization_config"):
        raise f.wrong("quantization_config", "is set: quantised safetensors are not supported; take the unquantised weights or a GGUF file")
    outer_tied = f.flag("tie_word_embeddings", False) if f.has("tie_word_embeddings") else None
    if f.has("text_config"):                                         # models with a vision tower keep the language part here
        f = f.under("text_config")
    family = MODEL_TYPES[kind]
    f = f.with_defaults(_SILENT.get(family, {}))
    for key in ("num_local_experts", "num_experts"):
        if f.has(key):
            raise f.wrong(key, "is set: mixture-of-experts models are not supported")
    layers = f.integer("num_hidden_layers", low=1, high=LIMITS["layers"])
    dim = f.integer("hidden_size", low=1, high=LIMITS["dim"])
    heads = f.integer("num_attention_heads", low=1, high=LIMITS["heads"])
    if not f.has("head_dim") and dim % heads:
        raise f.wrong("num_attention_heads", f"is {heads}, which does not divide hidden_size {dim}")
    head_dim = f.integer("head_dim", dim // heads, low=1, high=LIMITS["head_dim"])
    common: dict[str, Any] = {
        "family": family, "label": label, "source": "hub", "name": str(values.get("_name_or_path") or "")[:200],
        "layers": layers, "dim": dim, "heads": heads,
        "kv_heads": f.integer("num_key_value_heads", heads, low=1, high=LIMITS["heads"]), "head_dim": head_dim,
        "vocab": f.integer("vocab_size", low=1, high=LIMITS["vocab"]), "ffn": f.integer("intermediate_size", low=1, high=LIMITS["ffn"]),
        "context": f.integer("max_position_embeddings", low=1, high=LIMITS["context"]),
    }
    if family == "bert":
        return _bert(f, common, pooling, normalise)
    _check_activation(f, family)
    common["tied"] = f.flag("tie_word_embeddings", False) if outer_tied is None else outer_tied
    common["eps"] = f.number("rms_norm_eps", 1e-6)
    common["rope"] = _rope(f, "full_attention", head_dim, common["context"], _THETA.get(family, 1e4), 0.25 if family == "hybrid" else 1.0)
    common |= _layers(f, family, layers, head_dim, common)
    return ModelConfig(**common)


def _check_activation(f: Facts, family: str) -> None:
    key = "hidden_activation" if family == "gemma3" else "hidden_act"
    fine = ("gelu_pytorch_tanh",) if family == "gemma3" else ("silu", "swish")
    if f.text(key, fine[0]) not in fine:
        raise f.wrong(key, f"is '{f.text(key)[:40]}'; this family computes {fine[0]}")


def _layers(f: Facts, family: str, layers: int, head_dim: int, common: dict[str, Any]) -> dict[str, Any]:
    """What differs from layer to layer, and the family's own scales."""
    context = common["context"]
    types = f.texts("layer_types", layers) if f.has("layer_types") else ()
    known = {"full_attention", "sliding_attention", "linear_attention"} if family == "hybrid" else {"full_attention", "sliding_attention"}
    if set(types) - known:
        raise f.wrong("layer_types", f"names '{min(set(types) - known)[:40]}'; known: {', '.join(sorted(known))}")
    out: dict[str, Any] = {}
    window = f.integer("sliding_window", 0, high=LIMITS["context"]) if family in ("gemma3", "llama") or f.flag("use_sliding_window", False) else 0
    if family == "gemma3":
        pattern = f.integer("sliding_window_pattern", 6, low=1, high=LIMITS["layers"])
        types = types or tuple("sliding_attention" if (i + 1) % pattern else "full_attention" for i in range(layers))
        out = {
            "embed_scale": common["dim"] ** 0.5, "attn_scale": f.positive("query_pre_attn_scalar", float(head_dim)) ** -0.5,
            "attn_softcap": f.number("attn_logit_softcapping", 0.0), "logit_softcap": f.number("final_logit_softcapping", 0.0),
            "rope_local": _rope(f, "sliding_attention", head_dim, context, f.number("rope_local_base_freq", 1e4), 1.0),
        }
    elif family == "hybrid":
        every = f.integer("full_attention_interval", 4, low=1, high=LIMITS["layers"])
        types = types or tuple("linear_attention" if (i + 1) % every else "full_attention" for i in range(layers))
        out = {"kinds": tuple("delta" if t == "linear_attention" else "attention" for t in types), "delta": _delta(f)}
    elif window and not types:
        first = f.integer("max_window_layers", 28 if family != "llama" else 0, high=LIMITS["layers"])
        types = tuple("sliding_attention" if i >= first else "full_attention" for i in range(layers))
    return out | {"windows": tuple(window if t == "sliding_attention" else 0 for t in types)}


def _delta(f: Facts) -> DeltaConfig:
    return DeltaConfig(
        key_heads=f.integer("linear_num_key_heads", 16), value_heads=f.integer("linear_num_value_heads", 32),
        key_dim=f.integer("linear_key_head_dim", 128), value_dim=f.integer("linear_value_head_dim", 128),
        conv_width=f.integer("linear_conv_kernel_dim", 4),
    )


def _rope(f: Facts, kind: str, head_dim: int, context: int, theta: float, partial: float) -> RopeConfig:
    """kind: which entry of rope_parameters, where it has one per kind of layer."""
    if f.has("rope_parameters"):
        params = f.under("rope_parameters")
        params = params.under(kind) if params.has(kind) else params
    elif kind == "full_attention":
        params, theta = f.under("rope_scaling"), f.number("rope_theta", theta)
    else:
        params = Facts(f.label, {}, "rope_scaling.")
    scaling = params.text("rope_type", params.text("type", "default"))
    theta, dims = params.number("rope_theta", theta), head_dim * params.number("partial_rotary_factor", f.number("partial_rotary_factor", partial))
    original = params.integer("original_max_position_embeddings", f.integer("original_max_position_embeddings", context))
    default_factor = context / original if scaling in ("longrope", "su", "yarn") and original else 1.0
    divisors: tuple[float, ...] = ()
    if scaling in ("longrope", "su"):
        # the factors may depend on nothing but the model (ADR 001): whoever can go beyond the original context uses the long ones throughout
        divisors = params.numbers("long_factor" if context > original else "short_factor", int(dims) // 2)
    if scaling == "llama3" and not params.has("factor"):
        raise params.wrong("factor", "is missing")
    return RopeConfig(
        theta=theta, dims=int(dims), scaling=_SCALING_NAMES.get(scaling, scaling), factor=params.number("factor", default_factor),
        original_context=original, low_freq_factor=params.number("low_freq_factor", 1.0), high_freq_factor=params.number("high_freq_factor", 4.0),
        beta_fast=params.number("beta_fast", 0.0) or 32.0, beta_slow=params.number("beta_slow", 0.0) or 1.0,
        truncate=params.flag("truncate", True), attention_factor=_attention_factor(params, scaling, default_factor), divisors=divisors,
    )


def _attention_factor(params: Facts, scaling: str, default_factor: float) -> float | None:
    given = params.number("attention_factor", None) if params.has("attention_factor") else None
    above, below = params.number("mscale", 0.0), params.number("mscale_all_dim", 0.0)
    if given is not None or scaling != "yarn" or not (above and below):
        return given
    factor = params.number("factor", default_factor)
    if not 1.0 < factor <= 1e6 or not (0 < above < 1e3 and 0 < below < 1e3):
        return None
    unit = RopeConfig(theta=2.0, dims=2, scaling="yarn", factor=factor).mscale() - 1.0
    return (unit * above + 1.0) / (unit * below + 1.0)


def _bert(f: Facts, common: dict[str, Any], pooling: Pooling, normalise: bool) -> ModelConfig:
    if f.text("hidden_act", "gelu") != "gelu":
        raise f.wrong("hidden_act", f"is '{f.text('hidden_act')[:40]}'; this family computes gelu")
    if f.text("position_embedding_type", "absolute") != "absolute":
        raise f.wrong("position_embedding_type", "must be 'absolute'")
    return ModelConfig(
        **common, eps=f.number("layer_norm_eps", 1e-12), rope=None, tied=True, causal=False,
        token_types=f.integer("type_vocab_size", 2, high=1 << 16), pooling=pooling if pooling != "none" else "mean",
        normalise=normalise,
    )
