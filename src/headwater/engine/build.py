"""EngineSpec to objects: the only place where rooms are resolved and models are loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwater.core.errors import UserInputError
from headwater.core.executor import Caps
from headwater.engine.clock import RealClock
from headwater.engine.engine import Engine
from headwater.engine.memory import KVMemory, available_bytes, default_kv_budget, parse_bytes, share_kv
from headwater.engine.text import TextModel

Progress = Callable[[int, int, str], None]
ECHO = "echo"


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """Everything that an engine is made from; a child process gets exactly this.

    model: catalog name, .gguf file, folder, `hf:ORG/REPO[:FILE]`, or `echo`. name: what clients call it (None = from the model).
    weights: `as-is`, `q8`, `q4`. kv_memory: bytes or `4G`. kv_format: `f16` or `q8`. context, threads: None = the model's, the machine's.
    chat_template: a file that replaces the model's own. sched, evict: residents. step_tokens: most tokens in one step.
    backend: `auto`, `native` or `reference` (numpy; slow).
    """

    model: str = "smollm2-135m-instruct"
    name: str | None = None
    weights: str = "as-is"
    kv_memory: int | str | None = None
    kv_format: str = "f16"
    context: int | None = None
    threads: int | None = None
    chat_template: str | None = None
    sched: str = "fcfs"
    evict: str = "slru"
    step_tokens: int = 2048
    backend: str = "auto"
    accept_licence: bool = False

    def __post_init__(self) -> None:
        for field, least in (("context", 16), ("threads", 1), ("step_tokens", 1)):
            value = getattr(self, field)
            if value is not None and (not isinstance(value, int) or value < least):
                raise UserInputError(f"--{field.replace('_', '-')}: must be an integer of at least {least}, got {value!r}", field)
        if self.backend not in ("auto", "native", "reference"):
            raise UserInputError(f"--backend {self.backend}: one of auto, native, reference", "backend")
