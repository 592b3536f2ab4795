"""How files spell what the family pages ask for: GGUF names are the pages' own; hub names and historical differences are translated here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from headwater.core.errors import FormatError
from headwater.model.config import ModelConfig

_TOP = {"token_embd.weight": "embed_tokens.weight", "output_norm.weight": "norm.weight"}
_BLOCK = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}
_BLOCK_OF = {
    "gemma3": {
        "post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm", "post_ffw_norm": "post_feedforward_layernorm",
    },
    "hybrid": {
        "post_attention_norm": "post_attention_layernorm", "attn_qkv": "linear_attn.in_proj_qkv", "attn_gate": "linear_attn.in_proj_z",
        "ssm_beta": "linear_attn.in_proj_b", "ssm_alpha": "linear_attn.in_proj_a", "ssm_conv1d": "linear_attn.conv1d",
        "ssm_norm": "linear_attn.norm", "ssm_out": "linear_attn.out_proj", "ssm_a": "linear_attn.A_log", "ssm_dt.bias": "linear_attn.dt_bias",
    },
}
_BERT_TOP = {
    "token_embd.weight": "embeddings.word_embeddings.weight", "position_embd.weight": "embeddings.position_embeddings.weight",
    "token_types.weight": "embeddings.token_type_embeddings.weight",
    "token_embd_norm.weight": "embeddings.LayerNorm.weight", "token_embd_norm.bias": "embeddings.LayerNorm.bias",
}
_BERT_BLOCK = {
    "attn_q": "attention.self.query", "attn_k": "attention.self.key", "attn_v": "attention.self.value", "attn_output": "attention.output.dense",
    "attn_output_norm": "attention.output.LayerNorm", "ffn_up": "intermediate.dense", "ffn_down": "output.dense",
    "layer_output_norm": "output.LayerNorm",
}
_BLOCK_NAME = re.compile(r"blk\.(\d+)\.(.+)")
_HEADS = ("lm_head.weight", "language_model.lm_head.weight")
_STEMS = ("model.", "", "model.language_model.", "language_model.model.", "bert.")
# tensors that no text forward pass reads
_NEVER_READ = re.compile(
    r"(rope_freqs\.weight|.*rotary_emb\.inv_freq|.*position_ids|.*attn_rot_embd|(model\.)?(visual|vision_tower|vision_model|multi_modal_projector)\..*"
    r"|(model\.)?mtp\..*|.*\.nextn\..*|(bert\.)?pooler\..*|cls\..*)"
)


class Dialect:
    """The spelling of one file: where a page's tensor lies and what its values mean there."""

    def __init__(self, config: ModelConfig, tensors: Mapping[str, Any]) -> None:
        self._config, self._tensors = config, tensors
        self._stem = ""
        if config.source == "hub":
            first = (_BERT_TOP if config.family == "bert" else _TOP)["token_embd.weight"]
            self._stem = next((s for s in _STEMS if s + first in tensors), "model." if config.family != "bert" else "")
        if config.source == "gguf" and config.delta and config.delta.key_heads != config.delta.value_heads:
            raise FormatError(f"{config.label}: value heads are stored in another order than ours when their number differs from the key heads;"
                              " load this model from its safetensors folder", field="ssm.time_step_rank")

    def file_name(self, name: str) -> str:
        """The name in the file of the page's tensor `name`."""
        c = self._config
        if c.source == "gguf":
            return name
        if name == "output.weight":
            return next((h for h in _HEADS if h in self._tensors), _HEADS[0])
        block = _BLOCK_NAME.fullmatch(name)
        if c.family == "bert":
            return self._stem + (f"encoder.layer.{block[1]}.{_swap(block[2], _BERT_BLOCK)}" if block else _BERT_TOP.get(name, name))
        if block is None:
            return self._stem + _TOP.get(name, name)
        return f"{self._stem}layers.{block[1]}.{_swap(block[2], _BLOCK | _BLOCK_OF.get(c.family, {}))}"

    def values(self, name: str, stored: np.ndarray) -> np.ndarray:
        """What the stored vector `name` means. Hub norms of these families are centred on zero; GGUF keeps 1 + w, and −exp of the decay logarithm."""
        c = self._config
        if c.source == "hub" and c.family in ("gemma3", "hybrid") and name.endswith("norm.weight") and not name.endswith("ssm_norm.weight"):
            return stored + np.float32(1.0)
        if c.source == "gguf" and name.endswith("ssm_a"):
            if not (stored < 0).all():
                raise c.wrong(f"tensor '{name}'", "must be negative everywhere (it is minus the exponential of a logarithm)")
            return np.log(-stored)
        return stored

    def row_order(self, name: str) -> np.ndarray | None:
        """Gated attention stores [query | gate] per head; pages want all queries, then all gates. None = as stored."""
        c = self._config
        if c.family != "hybrid" or not name.endswith("attn_q.weight"):
            return None
        return np.arange(2 * c.q_dim).reshape(c.heads, 2, c.head_dim).swapaxes(0, 1).reshape(-1)

    def unread(self, read: set[str]) -> list[str]:
        """Names in the file that nothing asked for and that a forward pass would need somebody to ask for."""
        spare = {*_HEADS, "output.weight"} if self._config.tied else set()
        return [n for n in self._tensors if n not in read and n not in spare and not _NEVER_READ.fullmatch(n) and not self._guesses_ahead(n)]

    def _guesses_ahead(self, name: str) -> bool:
        """GGUF files of hybrid models append blocks that only guess further tokens."""
        block = _BLOCK_NAME.fullmatch(name)
        return self._config.family == "hybrid" and block is not None and int(block[1]) >= self._config.layers


def _swap(tail: str, table: Mapping[str, str]) -> str:
    """'attn_q.bias' -> 'self_attn.q_proj.bias'; names that stand in the table whole are taken whole."""
    if tail in table:
        return table[tail]
    stem, dot, kind = tail.rpartition(".")
    return table.get(stem, stem) + dot + kind
