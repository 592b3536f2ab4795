"""bert: encoders for text embeddings (1810.04805; all-MiniLM, bge). Learned positions, post-norm, every token sees every token, no output matrix."""

from __future__ import annotations

from headwater.kernels import ops
from headwater.kernels.program import Program, Rows
from headwater.model.config import ModelConfig
from headwater.model.layers import Tensors, attention, biases


def record(c: ModelConfig, t: Tensors) -> Program:
    """The hidden rows of the last layer; pooling over a row's tokens is the reader's (`ModelConfig.pooling`)."""
    places = t.table("position_embd.weight", c.context, c.dim)
    if c.token_types:                                                # one text is one segment: its type is a constant of the place
        places = places + t.table("token_types.weight", c.token_types, c.dim)[0]
    x = ops.position_embed(ops.embed(Program(), t.matrix("token_embd.weight", c.vocab, c.dim)), places)
    x = norm(x, c, t, "token_embd_norm")
    for i in range(c.layers):
        x = block(x, i, c, t.under(f"blk.{i}."))
    x.program.hidden = ops.reads(x)
    return x.program


def block(x: Rows, i: int, c: ModelConfig, t: Tensors) -> Rows:
    qkv = t.stack(c.dim, ("attn_q.weight", c.q_dim), ("attn_k.weight", c.kv_dim), ("attn_v.weight", c.kv_dim))
    bias = biases(t, ("attn_q.bias", c.q_dim), ("attn_k.bias", c.kv_dim), ("attn_v.bias", c.kv_dim), required=True)
    q, k, v = ops.split(ops.linear(x, qkv, bias), c.q_dim, c.kv_dim, c.kv_dim)
    a = ops.linear(ops.attend(q, k, v, attention(c, i)), t.matrix("attn_output.weight", c.dim, c.q_dim), t.vector("attn_output.bias", c.dim))
    x = norm(x + a, c, t, "attn_output_norm")
    h = ops.gelu(ops.linear(x, t.matrix("ffn_up.weight", c.ffn, c.dim), t.vector("ffn_up.bias", c.ffn)))
    h = ops.linear(h, t.matrix("ffn_down.weight", c.dim, c.ffn), t.vector("ffn_down.bias", c.dim))
    return norm(x + h, c, t, "layer_output_norm")


def norm(x: Rows, c: ModelConfig, t: Tensors, name: str) -> Rows:
    return ops.layer_norm(x, t.vector(f"{name}.weight", c.dim), t.vector(f"{name}.bias", c.dim), c.eps)
