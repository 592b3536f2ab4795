"""gemma3: Gemma 3 text models (2503.19786). Scaled embeddings, norms before and after each half, window layers with a base of their own, GeGLU."""

from __future__ import annotations

from headwater.kernels import ops
from headwater.kernels.program import Program, Rows
from headwater.model.config import ModelConfig
from headwater.model.layers import Tensors, attention, finish, keep_reads


def record(c: ModelConfig, t: Tensors) -> Program:
    assert c.rope is not None
    embedding = t.matrix("token_embd.weight", c.vocab, c.dim)
    everywhere = c.rope.build()
    nearby = c.rope_local.build() if c.rope_local else everywhere
    x = ops.embed(Program(), embedding) * c.embed_scale
    for i in range(c.layers):
        x = block(x, i, c, nearby if c.windows[i] else everywhere, t.under(f"blk.{i}."))
    return finish(x, c, t, embedding)


def block(x: Rows, i: int, c: ModelConfig, rope: ops.Rope, t: Tensors) -> Rows:
    h = ops.rms_norm(x, t.vector("attn_norm.weight", c.dim), c.eps)
    qkv = t.stack(c.dim, ("attn_q.weight", c.q_dim), ("attn_k.weight", c.kv_dim), ("attn_v.weight", c.kv_dim))
    q, k, v = ops.split(ops.linear(h, qkv, fine=True), c.q_dim, c.kv_dim, c.kv_dim)
    q = ops.rope(ops.rms_norm(q, t.vector("attn_q_norm.weight", c.head_dim), c.eps), c.head_dim, rope)
    k = ops.rope(ops.rms_norm(k, t.vector("attn_k_norm.weight", c.head_dim), c.eps), c.head_dim, rope)
    x, a = keep_reads(c, i, x, ops.attend(q, k, v, attention(c, i)))
    h = ops.linear(a, t.matrix("attn_output.weight", c.dim, c.q_dim))
    x = x + ops.rms_norm(h, t.vector("post_attention_norm.weight", c.dim), c.eps)
    h = ops.rms_norm(x, t.vector("ffn_norm.weight", c.dim), c.eps)
    gate_up = t.stack(c.dim, ("ffn_gate.weight", c.ffn), ("ffn_up.weight", c.ffn))
    h = ops.linear(ops.gelu_mul(ops.linear(h, gate_up)), t.matrix("ffn_down.weight", c.dim, c.ffn))
    return x + ops.rms_norm(h, t.vector("post_ffw_norm.weight", c.dim), c.eps)
