"""Small models with generated weights, written as files: the same bytes on every machine, so that recorded logits can be checked without torch.

Weights come from the raw words of PCG64, which numpy promises never to change; no random number method is involved.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from weight_files import BOOL, F32, STRING, U32, gguf_file, safetensors_file

VOCAB, DIM, FFN, LAYERS = 96, 64, 96, 2
_BASE: dict[str, Any] = {
    "vocab_size": VOCAB, "hidden_size": DIM, "intermediate_size": FFN, "num_hidden_layers": LAYERS, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
    "bos_token_id": None, "eos_token_id": None, "pad_token_id": None,
}
_LLAMA = _BASE | {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "rope_theta": 10000.0}
_SIXTEEN = {"original_max_position_embeddings": 16}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": _LLAMA,
    "llama3": _LLAMA | {"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0} | _SIXTEEN},
    "linear": _LLAMA | {"rope_scaling": {"rope_type": "linear", "factor": 4.0}},
    "yarn": _LLAMA | {"rope_scaling": {"rope_type": "yarn", "factor": 4.0} | _SIXTEEN},
    "longrope": _LLAMA | {
        "rope_scaling": {
            "rope_type": "longrope", "short_factor": [1.0] * 8, "long_factor": [1.0, 1.1, 1.3, 1.7, 2.0, 3.0, 5.0, 9.0], "factor": 32.0,
        } | _SIXTEEN,
    },
    "mistral": _LLAMA | {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": 7},
    "qwen2": _BASE | {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "rope_theta": 1000000.0, "tie_word_embeddings": True},
    "qwen3": _BASE | {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "rope_theta": 1000000.0, "head_dim": 32},
    "gemma3": _BASE | {
        "model_type": "gemma3_text", "architectures": ["Gemma3ForCausalLM"], "tie_word_embeddings": True, "sliding_window": 8, "rms_norm_eps": 1e-6,
        "layer_types": ["sliding_attention", "full_attention"], "query_pre_attn_scalar": 24, "final_logit_softcapping": 20.0,
        "rope_parameters": {
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
    },
    "bert": {
        "model_type": "bert", "architectures": ["BertModel"], "vocab_size": VOCAB, "hidden_size": DIM, "intermediate_size": FFN,
        "num_hidden_layers": LAYERS, "num_attention_heads": 4, "max_position_embeddings": 64, "type_vocab_size": 2, "hidden_act": "gelu",
        "layer_norm_eps": 1e-12, "pad_token_id": 0,
    },
    "hybrid": _BASE | {
        "model_type": "qwen3_5_text", "architectures": ["Qwen3_5ForCausalLM"], "num_hidden_layers": 4, "full_attention_interval": 4,
        "tie_word_embeddings": True, "rms_norm_eps": 1e-6, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16,
        "linear_value_head_dim": 32, "linear_conv_kernel_dim": 4, "hidden_act": "silu",
        "layer_types": ["linear_attention"] * 3 + ["full_attention"],
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000000.0, "partial_rotary_factor": 0.25, "mrope_section": [1, 1, 0]},
    },
}


# as many value heads as key heads: the case in which GGUF files keep the order of heads
CONFIGS["hybrid-even"] = CONFIGS["hybrid"] | {"linear_num_value_heads": 2, "linear_value_head_dim": 16}


def words(seed: int, count: int) -> np.ndarray:
    """float64[count] in (-1, 1)."""
    raw = np.random.PCG64(seed).random_raw(count)
    return (raw >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0


def tokens(seed: int, count: int, vocab: int = VOCAB) -> np.ndarray:
    """int32[count] ids."""
    return (np.random.PCG64(seed).random_raw(count) % np.uint64(vocab)).astype(np.int32)


def tensors(name: str) -> dict[str, np.ndarray]:
    """Hub-named float32 tensors of the model `name`."""
    c = CONFIGS[name]
    shapes = _bert_shapes(c) if name == "bert" else _decoder_shapes(name, c)
    out = {}
    for i, (key, shape) in enumerate(sorted(shapes.items())):
        x = words(1000 + i, int(np.prod(shape))).reshape(shape)
        is_norm = key.endswith(("norm.weight", "LayerNorm.weight"))
        if is_norm:                                                   # zero-centred where the family stores them so
            x = 0.3 * x + (0.0 if name in ("gemma3", "hybrid", "hybrid-even") and "linear_attn" not in key else 1.0)
        elif len(shape) == 1:
            x = 0.2 * x
        else:
            x = x * (2.0 if "conv1d" in key else 1.0) * (3.0 / shape[-1]) ** 0.5
        out[key] = x.astype(np.float32)
    return out


def _decoder_shapes(name: str, c: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    d, hd, f = c["hidden_size"], c["head_dim"], c["intermediate_size"]
    q, kv = c["num_attention_heads"] * hd, c["num_key_value_heads"] * hd
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (c["vocab_size"], d), "model.norm.weight": (d,)}
    if not c["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (c["vocab_size"], d)
    norms = ["input_layernorm", "post_attention_layernorm"]
    norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"] if name == "gemma3" else []
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        shapes |= {f"{p}{n}.weight": (d,) for n in norms}
        shapes |= {f"{p}mlp.gate_proj.weight": (f, d), f"{p}mlp.up_proj.weight": (f, d), f"{p}mlp.down_proj.weight": (d, f)}
        if c.get("layer_types", ["full_attention"] * 99)[i] == "linear_attention":
            shapes |= _delta_shapes(p + "linear_attn.", c)
            continue
        gate = 2 if name.startswith("hybrid") else 1
        a = p + "self_attn."
        shapes |= {f"{a}q_proj.weight": (gate * q, d), f"{a}k_proj.weight": (kv, d), f"{a}v_proj.weight": (kv, d), f"{a}o_proj.weight": (d, q)}
        if name == "qwen2":
            shapes |= {f"{a}q_proj.bias": (q,), f"{a}k_proj.bias": (kv,), f"{a}v_proj.bias": (kv,)}
        if name in ("qwen3", "gemma3", "hybrid", "hybrid-even"):
            shapes |= {f"{a}q_norm.weight": (hd,), f"{a}k_norm.weight": (hd,)}
    return shapes


def _delta_shapes(p: str, c: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    d, heads = c["hidden_size"], c["linear_num_value_heads"]
    keys, values = c["linear_num_key_heads"] * c["linear_key_head_dim"], heads * c["linear_value_head_dim"]
    return {
        f"{p}in_proj_qkv.weight": (2 * keys + values, d), f"{p}in_proj_z.weight": (values, d), f"{p}in_proj_b.weight": (heads, d),
        f"{p}in_proj_a.weight": (heads, d), f"{p}conv1d.weight": (2 * keys + values, 1, c["linear_conv_kernel_dim"]), f"{p}A_log": (heads,),
        f"{p}dt_bias": (heads,), f"{p}norm.weight": (c["linear_value_head_dim"],), f"{p}out_proj.weight": (d, values),
    }


def _bert_shapes(c: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    d, f = c["hidden_size"], c["intermediate_size"]
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (c["vocab_size"], d), "embeddings.position_embeddings.weight": (c["max_position_embeddings"], d),
        "embeddings.token_type_embeddings.weight": (2, d), "embeddings.LayerNorm.weight": (d,), "embeddings.LayerNorm.bias": (d,),
        "pooler.dense.weight": (d, d), "pooler.dense.bias": (d,),
    }
    for i in range(c["num_hidden_layers"]):
        p = f"encoder.layer.{i}."
        for n, rows, cols in (
            ("attention.self.query", d, d), ("attention.self.key", d, d), ("attention.self.value", d, d), ("attention.output.dense", d, d),
            ("intermediate.dense", f, d), ("output.dense", d, f),
        ):
            shapes |= {f"{p}{n}.weight": (rows, cols), f"{p}{n}.bias": (rows,)}
        for n in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes |= {f"{p}{n}.weight": (d,), f"{p}{n}.bias": (d,)}
    return shapes


def write_folder(name: str, folder: Path, shards: int = 1) -> Path:
    """A hub-style folder: config.json and the weights in one safetensors file or several with an index."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIGS[name]))
    arrays = tensors(name)
    if shards == 1:
        write_safetensors(folder / "model.safetensors", arrays)
        return folder
    where = {key: f"model-{i % shards + 1:05}-of-{shards:05}.safetensors" for i, key in enumerate(arrays)}
    for file in set(where.values()):
        write_safetensors(folder / file, {k: v for k, v in arrays.items() if where[k] == file})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
    return folder


def write_safetensors(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """float32 and float16 arrays; uint16 counts as bfloat16."""
    kinds = {"float32": "F32", "float16": "F16", "uint16": "BF16"}
    path.write_bytes(safetensors_file({k: (kinds[x.dtype.name], list(x.shape), x.tobytes()) for k, x in arrays.items()}))


def write_gguf(path: Path, metadata: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Path:
    """GGUF v3 with float32 tensors. Values: str, bool, int (uint32), float (float32)."""
    kinds = {str: STRING, bool: BOOL, int: U32, float: F32}
    keys = [(k, kinds[type(v)], v) for k, v in metadata.items()]
    path.write_bytes(gguf_file(keys, [(k, x.shape[::-1], 0, x.astype("<f4").tobytes()) for k, x in arrays.items()]))
    return path


def write_llama_gguf(name: str, path: Path) -> Path:
    """The llama model `name` as GGUF files hold it: rows of q and k in pairs, frequency scaling as a tensor of divisors."""
    c, hub = CONFIGS[name], tensors(name)
    names = {
        "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    }
    arrays = {
        "token_embd.weight": hub["model.embed_tokens.weight"], "output_norm.weight": hub["model.norm.weight"], "output.weight": hub["lm_head.weight"],
    }
    for i in range(c["num_hidden_layers"]):
        for theirs, ours in names.items():
            x = hub[f"model.layers.{i}.{theirs}.weight"]
            if ours in ("attn_q", "attn_k"):                         # halves of a head become neighbours
                x = x.reshape(-1, 2, c["head_dim"] // 2, x.shape[1]).swapaxes(1, 2).reshape(x.shape)
            arrays[f"blk.{i}.{ours}.weight"] = np.ascontiguousarray(x)
    metadata = {
        "general.architecture": "llama", "general.name": name, "llama.block_count": c["num_hidden_layers"],
        "llama.context_length": c["max_position_embeddings"], "llama.embedding_length": c["hidden_size"],
        "llama.feed_forward_length": c["intermediate_size"], "llama.attention.head_count": c["num_attention_heads"],
        "llama.attention.head_count_kv": c["num_key_value_heads"], "llama.attention.layer_norm_rms_epsilon": c["rms_norm_eps"],
        "llama.rope.freq_base": c["rope_theta"], "llama.rope.dimension_count": c["head_dim"],
    }
    if name == "llama3":
        arrays["rope_freqs.weight"] = _llama3_divisors(c)
    return write_gguf(path, metadata, arrays)


def _llama3_divisors(c: Mapping[str, Any]) -> np.ndarray:
    """float32[head_dim / 2]: 1 for short waves, the factor for long ones, a blend in turns per original context between."""
    s = c["rope_scaling"]
    out = []
    for i in range(c["head_dim"] // 2):
        wave = 2 * np.pi * c["rope_theta"] ** (2 * i / c["head_dim"])
        turns = s["original_max_position_embeddings"] / wave
        smooth = (turns - s["low_freq_factor"]) / (s["high_freq_factor"] - s["low_freq_factor"])
        out.append(1.0 if smooth > 1 else s["factor"] if smooth < 0 else 1 / ((1 - smooth) / s["factor"] + smooth))
    return np.array(out, np.float32)


def write_hybrid_gguf(path: Path) -> Path:
    """The model 'hybrid-even' as GGUF: norms with their one added, the decay as minus its exponential, the convolution without its middle axis."""
    c, hub = CONFIGS["hybrid-even"], tensors("hybrid-even")
    names = {
        "input_layernorm.weight": "attn_norm.weight", "post_attention_layernorm.weight": "post_attention_norm.weight",
        "self_attn.q_proj.weight": "attn_q.weight", "self_attn.k_proj.weight": "attn_k.weight", "self_attn.v_proj.weight": "attn_v.weight",
        "self_attn.o_proj.weight": "attn_output.weight", "self_attn.q_norm.weight": "attn_q_norm.weight",
        "self_attn.k_norm.weight": "attn_k_norm.weight", "linear_attn.in_proj_qkv.weight": "attn_qkv.weight",
        "linear_attn.in_proj_z.weight": "attn_gate.weight", "linear_attn.in_proj_b.weight": "ssm_beta.weight",
        "linear_attn.in_proj_a.weight": "ssm_alpha.weight", "linear_attn.conv1d.weight": "ssm_conv1d.weight", "linear_attn.A_log": "ssm_a",
        "linear_attn.dt_bias": "ssm_dt.bias", "linear_attn.norm.weight": "ssm_norm.weight", "linear_attn.out_proj.weight": "ssm_out.weight",
        "mlp.gate_proj.weight": "ffn_gate.weight", "mlp.up_proj.weight": "ffn_up.weight", "mlp.down_proj.weight": "ffn_down.weight",
    }
    arrays = {"token_embd.weight": hub["model.embed_tokens.weight"], "output_norm.weight": hub["model.norm.weight"] + np.float32(1)}
    for key, x in hub.items():
        block, _, tail = key.removeprefix("model.layers.").partition(".")
        if tail in names and block.isdigit():
            if tail.endswith("norm.weight") and "linear_attn" not in tail:
                x = x + np.float32(1)
            x = -np.exp(x) if tail.endswith("A_log") else x.squeeze(1) if "conv1d" in tail else x
            arrays[f"blk.{block}.{names[tail]}"] = x
    rope = c["rope_parameters"]
    arrays["blk.4.nextn.enorm.weight"] = np.ones(c["hidden_size"], np.float32)
    return write_gguf(path, {
        "general.architecture": "qwen35", "qwen35.block_count": 5, "qwen35.nextn_predict_layers": 1, "qwen35.embedding_length": c["hidden_size"],
        "qwen35.context_length": 512, "qwen35.feed_forward_length": c["intermediate_size"], "qwen35.attention.head_count": 4,
        "qwen35.attention.head_count_kv": 2, "qwen35.attention.key_length": 16, "qwen35.attention.value_length": 16,
        "qwen35.attention.layer_norm_rms_epsilon": 1e-6, "qwen35.rope.freq_base": rope["rope_theta"], "qwen35.rope.dimension_count": 4,
        "qwen35.ssm.conv_kernel": 4, "qwen35.ssm.state_size": 16, "qwen35.ssm.group_count": 2, "qwen35.ssm.time_step_rank": 2,
        "qwen35.ssm.inner_size": 32, "qwen35.full_attention_interval": 4,
    }, arrays)
