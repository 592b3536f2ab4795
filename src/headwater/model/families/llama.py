"""llama: Llama 2 and 3 (2307.09288, 2407.21783), SmolLM2, Mistral. Pre-norm, rotary grouped-query attention, SwiGLU."""

from __future__ import annotations

from headwater.kernels import ops
from headwater.kernels.program import Program, Rows
from headwater.model.config import ModelConfig
from headwater.model.layers import Tensors, attention, biases, finish, keep_reads, swiglu


def record(c: ModelConfig, t: Tensors) -> Program:
    assert c.rope is not None
    embedding = t.matrix("token_embd.weight", c.vocab, c.dim)
    rope = c.rope.build(interleaved=c.interleaved)
    x = ops.embed(Program(), embedding)
    for i in range(c.layers):
        x = block(x, i, c, rope, t.under(f"blk.{i}."))
    return finish(x, c, t, embedding)


def block(x: Rows, i: int, c: ModelConfig, rope: ops.Rope, t: Tensors) -> Rows:
    h = ops.rms_norm(x, t.vector("attn_norm.weight", c.dim), c.eps)
    qkv = t.stack(c.dim, ("attn_q.weight", c.q_dim), ("attn_k.weight", c.kv_dim), ("attn_v.weight", c.kv_dim))
    bias = biases(t, ("attn_q.bias", c.q_dim), ("attn_k.bias", c.kv_dim), ("attn_v.bias", c.kv_dim))
    q, k, v = ops.split(ops.linear(h, qkv, bias, fine=True), c.q_dim, c.kv_dim, c.kv_dim)
    q, k = ops.rope(q, c.head_dim, rope), ops.rope(k, c.head_dim, rope)
    x, a = keep_reads(c, i, x, ops.attend(q, k, v, attention(c, i)))
    x = x + ops.linear(a, t.matrix("attn_output.weight", c.dim, c.q_dim), biases(t, ("attn_output.bias", c.dim)))
    h = ops.rms_norm(x, t.vector("ffn_norm.weight", c.dim), c.eps)
    return x + swiglu(h, c, t)
