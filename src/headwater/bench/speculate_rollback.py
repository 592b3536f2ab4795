"""What going back behind a refused guess costs a model with recurrent state: a checkpoint and a second pass, or kept inputs that states take in."""

from __future__ import annotations

import json
import struct
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from headwater.kernels.program import BLOCK_TOKENS, Replay, Step
from headwater.model.load.loader import Model, load_model
from headwater.worker.model_forward import ModelForward

CONFIG = {
    "model_type": "qwen3_5_text", "architectures": ["Qwen3_5ForCausalLM"], "vocab_size": 4096, "hidden_size": 512, "intermediate_size": 1536,
    "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64, "max_position_embeddings": 4096,
    "full_attention_interval": 4, "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 2, "linear_num_key_heads": 4,
    "linear_num_value_heads": 8, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "hidden_act": "silu",
    "rms_norm_eps": 1e-6, "tie_word_embeddings": True, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000000.0, "partial_rotary_factor": 0.25, "mrope_section": [3, 3, 2]},
}                                                                   # a quarter of a small hybrid of the Qwen3.5 family; its heads have full size
BASE, CHECKPOINT, DONE = 0, 1, 2                                    # slots: the state before the step, its copy, the state after it


def shapes() -> dict[str, tuple[int, ...]]:
    """The tensors of `CONFIG`, as the hub names them."""
    d, f, heads, hd = 512, 1536, 8, 64
    keys, values = 4 * 128, 8 * 128
    out: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (4096, d), "model.norm.weight": (d,)}
    for i in range(8):
        p = f"model.layers.{i}."
        out |= {f"{p}input_layernorm.weight": (d,), f"{p}post_attention_layernorm.weight": (d,), f"{p}mlp.gate_proj.weight": (f, d),
                f"{p}mlp.up_proj.weight": (f, d), f"{p}mlp.down_proj.weight": (d, f)}
        if i % 4 == 3:
            a = f"{p}self_attn."
            out |= {f"{a}q_proj.weight": (2 * heads * hd, d), f"{a}k_proj.weight": (2 * hd, d), f"{a}v_proj.weight": (2 * hd, d),
                    f"{a}o_proj.weight": (d, heads * hd), f"{a}q_norm.weight": (hd,), f"{a}k_norm.weight": (hd,)}
        else:
            a = f"{p}linear_attn."
            out |= {f"{a}in_proj_qkv.weight": (2 * keys + values, d), f"{a}in_proj_z.weight": (values, d), f"{a}in_proj_b.weight": (8, d),
                    f"{a}in_proj_a.weight": (8, d), f"{a}conv1d.weight": (2 * keys + values, 1, 4), f"{a}A_log": (8,), f"{a}dt_bias": (8,),
                    f"{a}norm.weight": (128,), f"{a}out_proj.weight": (d, values)}
    return out


def generated(folder: Path) -> Model:
    """A hybrid with drawn weights, re-encoded to 8 bits: times do not depend on what a model says."""
    rng = np.random.default_rng(0)
    header, parts, at = {}, [], 0
    for name, shape in shapes().items():
        x = rng.standard_normal(shape, np.float32) * np.float32(shape[-1] ** -0.5)
        raw = (x.view(np.uint32) >> np.uint32(16)).astype(np.uint16).tobytes()   # bf16
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + len(raw)]}
        parts.append(raw)
        at += len(raw)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    head = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + b"".join(parts))
    return load_model(folder, weights="q8")


@dataclass(slots=True)
class Rollback:
    """Seconds per round of a step with `guesses` guesses of which `held` hold: the verifying pass alone, with a checkpoint and a second pass over
    what held, with kept inputs. bytes: copied or kept by either; same: whether both left the same bits."""

    guesses: int
    held: int
    verify: list[float] = field(default_factory=list)
    second_pass: list[float] = field(default_factory=list)
    cursor: list[float] = field(default_factory=list)
    bytes_checkpoint: int = 0
    bytes_kept: int = 0
    same: bool = True


class Hybrid:
    """One row behind `context` tokens of a generated model."""

    def __init__(self, model: Model, context: int) -> None:
        blocks = context // BLOCK_TOKENS + 8
        self.forward = ModelForward(model.program, model.kvspec, (blocks,) * len(model.kvspec.groups), 3, context=context + 64,
                                    identity=model.identity, step_tokens=context, vocabulary=4096)
        self.context, self.blocks, self.model = context, blocks, model
        self.ids = np.random.default_rng(1).integers(0, 4096, context + 64).astype(np.int32)
        self.forward.hidden(self.step(0, context, -1, BASE))

    def step(self, first: int, n: int, state_in: int, state_out: int, keep: bool = False) -> Step:
        tables = [np.arange(self.blocks, dtype=np.int32)[None]] * len(self.model.kvspec.groups)
        at = np.arange(first, first + n, dtype=np.int32)
        return Step(self.ids[at], at, np.array([0, n], np.int32), np.arange(n, dtype=np.int32), tables, np.array([state_in], np.int32),
                    np.array([state_out], np.int32), keep=np.zeros(1, np.int32) if keep else None)

    def states(self) -> bytes:
        return b"".join(a[:, DONE].tobytes() for a in self.forward._pool.state.arrays.values())

    def round(self, into: Rollback) -> None:
        """Each way once; the logits of the pass are left out in all."""
        n, ok = 1 + into.guesses, 1 + into.held
        begin = time.perf_counter()
        self.forward.hidden(self.step(self.context, n, BASE, DONE))
        verified = time.perf_counter()
        self.forward.copy_states(np.array([[BASE, CHECKPOINT]]))
        self.forward.hidden(self.step(self.context, n, BASE, DONE))
        self.forward.hidden(self.step(self.context, ok, CHECKPOINT, DONE))
        twice = time.perf_counter()
        expected = self.states()
        again = time.perf_counter()
        self.forward.hidden(self.step(self.context, n, BASE, -1, keep=True))
        self.forward.replay(Replay(np.zeros(1, np.int32), np.array([ok], np.int32), np.array([BASE], np.int32), np.array([DONE], np.int32)))
        end = time.perf_counter()
        into.verify.append(verified - begin)
        into.second_pass.append(twice - verified)
        into.cursor.append(end - again)
        into.same = into.same and self.states() == expected


def rollback(guesses: list[int], rounds: int, context: int = 256) -> list[Rollback]:
    """A refusal half way through drafts of each length, all ways in turn."""
    with tempfile.TemporaryDirectory() as folder:
        hybrid = Hybrid(generated(Path(folder)), context)
    out = []
    for g in guesses:
        one = Rollback(g, g // 2, bytes_checkpoint=hybrid.model.kvspec.bytes_per_slot, bytes_kept=4 * (g + 1) * kept_floats(hybrid.model))
        hybrid.round(Rollback(g, g // 2))                           # warm
        for _ in range(rounds):
            hybrid.round(one)
        out.append(one)
    hybrid.forward.close()
    return out


def kept_floats(model: Model) -> int:
    """Inputs of recurrent layers per token."""
    return sum(x.dim for op in model.program.ops if op.kind in ("short_conv", "gated_delta") for x in op.inputs)
