"""One page per family: a function from (config, tensors) to a recorded program."""

from __future__ import annotations

from collections.abc import Callable

from headwater.kernels.program import Program
from headwater.model.config import ModelConfig
from headwater.model.families import bert, gemma3, hybrid, llama, qwen2, qwen3
from headwater.model.layers import Tensors

Page = Callable[[ModelConfig, Tensors], Program]

FAMILIES: dict[str, Page] = {
    "bert": bert.record, "gemma3": gemma3.record, "hybrid": hybrid.record, "llama": llama.record, "qwen2": qwen2.record, "qwen3": qwen3.record,
}
