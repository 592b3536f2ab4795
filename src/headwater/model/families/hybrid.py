"""hybrid: the Qwen3-Next / Qwen3.5 shape: gated-delta layers (2412.06464) with a short convolution; every fourth layer is gated attention."""

from __future__ import annotations

from headwater.kernels import ops
from headwater.kernels.program import Program, Rows
from headwater.model.config import ModelConfig
from headwater.model.layers import Tensors, attention, finish, keep_reads, swiglu


def record(c: ModelConfig, t: Tensors) -> Program:
    assert c.rope is not None
    embedding = t.matrix("token_embd.weight", c.vocab, c.dim)
    rope = c.rope.build()
    x = ops.embed(Program(), embedding)
    for i in range(c.layers):
        x = block(x, i, c, rope, t.under(f"blk.{i}."))
    return finish(x, c, t, embedding)


def block(x: Rows, i: int, c: ModelConfig, rope: ops.Rope, t: Tensors) -> Rows:
    h = ops.rms_norm(x, t.vector("attn_norm.weight", c.dim), c.eps)
    mixed = attend(h, i, c, rope, t) if c.kinds[i] == "attention" else delta(h, i, c, t)
    width = c.q_dim if c.kinds[i] == "attention" else mixed.dim
    x, mixed = keep_reads(c, i, x, mixed)
    x = x + ops.linear(mixed, t.matrix("attn_output.weight" if c.kinds[i] == "attention" else "ssm_out.weight", c.dim, width))
    h = ops.rms_norm(x, t.vector("post_attention_norm.weight", c.dim), c.eps)
    return x + swiglu(h, c, t)


def attend(h: Rows, i: int, c: ModelConfig, rope: ops.Rope, t: Tensors) -> Rows:
    """Attention whose output is multiplied by sigmoid of a gate that the query matrix computes along."""
    qkv = t.stack(c.dim, ("attn_q.weight", 2 * c.q_dim), ("attn_k.weight", c.kv_dim), ("attn_v.weight", c.kv_dim))
    q, gate, k, v = ops.split(ops.linear(h, qkv, fine=True), c.q_dim, c.q_dim, c.kv_dim, c.kv_dim)
    q = ops.rope(ops.rms_norm(q, t.vector("attn_q_norm.weight", c.head_dim), c.eps), c.head_dim, rope)
    k = ops.rope(ops.rms_norm(k, t.vector("attn_k_norm.weight", c.head_dim), c.eps), c.head_dim, rope)
    return ops.sigmoid_mul(ops.attend(q, k, v, attention(c, i)), gate)


def delta(h: Rows, i: int, c: ModelConfig, t: Tensors) -> Rows:
    """Linear attention by the gated delta rule, normalised per value head and gated."""
    d = c.delta
    assert d is not None
    _, index = c.place(i)
    keys, values = d.key_heads * d.key_dim, d.value_heads * d.value_dim
    mix = t.stack(
        c.dim, ("attn_qkv.weight", d.conv_dim), ("attn_gate.weight", values), ("ssm_beta.weight", d.value_heads), ("ssm_alpha.weight", d.value_heads)
    )
    qkv, gate, beta, decay = ops.split(ops.linear(h, mix), d.conv_dim, values, d.value_heads, d.value_heads)
    qkv = ops.short_conv(qkv, t.table("ssm_conv1d.weight", d.conv_dim, d.conv_width), "conv", index, activation=True)
    q, k, v = ops.split(qkv, keys, keys, values)
    spec = ops.GatedDelta("delta", index, d.key_heads, d.value_heads, d.key_dim, d.value_dim)
    a_log, dt_bias = t.vector("ssm_a", d.value_heads), t.vector("ssm_dt.bias", d.value_heads)
    out = ops.gated_delta(q, k, v, beta, decay, a_log, dt_bias, spec)
    return ops.gated_rms_norm(out, gate, t.vector("ssm_norm.weight", d.value_dim), c.eps)
