"""EngineSpec to objects: the only place where rooms are resolved and models are loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwater.core.errors import UserInputError
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


def _text(spec: EngineSpec, tokenizer: Tokenizer, generation: Mapping[str, Any], name: str) -> TextModel:
    """Tokenizer and template -> TextModel. Every end-of-turn id of the tokenizer and of the generation config stops."""
    from headwater.text.template import ChatTemplate

    template = tokenizer.chat_template
    if spec.chat_template is not None:
        try:
            template = Path(spec.chat_template).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as e:
            raise UserInputError(f"--chat-template {spec.chat_template}: {e}", "chat_template") from None
    eos = generation.get("eos_token_id", ())
    named = frozenset(int(t) for t in ([eos] if isinstance(eos, int) else eos or ()))
    return TextModel(spec.name or name, tokenizer, None if template is None else ChatTemplate(template, tokenizer), tokenizer.turn_end_ids | named)


def load_text(spec: EngineSpec) -> TextModel:
    """The text half alone: metadata is read, no weight is. For front processes."""
    if spec.model == ECHO:
        return _echo_text(spec)
    from headwater.model.load.loader import open_source

    with open_source(_paths(spec)) as source:
        return _text(spec, _tokenizer(source.tokenizer), source.generation, _name(spec, source.config.name))
