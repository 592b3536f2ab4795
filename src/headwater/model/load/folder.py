"""The small files of a hub-style model folder: config.json, generation_config.json, the pooling configuration of embedding models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwater.core.errors import FormatError
from headwater.model.config import Pooling
from headwater.model.load.facts import Facts
from headwater.model.load.safetensors import parse_json_object

MAX_JSON = 1 << 22
_POOLING_KEYS: dict[str, Pooling] = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls", "pooling_mode_lasttoken": "last"}


@dataclass(frozen=True, slots=True)
class HubFolder:
    """config: config.json. generation: generation_config.json, empty when absent.

    pooling, normalise: how hidden rows become an embedding; 'none' and True unless the folder says otherwise.
    """

    config: Mapping[str, Any]
    generation: Mapping[str, Any]
    pooling: Pooling
    normalise: bool

    @classmethod
    def read(cls, folder: Path) -> HubFolder:
        """Raises FormatError for a file that is not a JSON object."""
        generation = folder / "generation_config.json"
        return cls(read_json(folder / "config.json"), read_json(generation) if generation.is_file() else {}, _pooling(folder), _normalise(folder))


def is_hub_folder(folder: Path) -> bool:
    return (folder / "config.json").is_file()


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object of at most 4 MiB. Raises FormatError."""
    label = f"{path.parent.name}/{path.name}"
    try:
        with path.open("rb") as f:
            text = f.read(MAX_JSON + 1)
    except OSError as e:
        raise FormatError(f"{path}: cannot be read ({e.strerror})", field=path.name) from None
    if len(text) > MAX_JSON:
        raise FormatError(f"{label}: larger than {MAX_JSON:,} bytes, which no such file is", field=path.name)
    return parse_json_object(text, label)


def _normalise(folder: Path) -> bool:
    """sentence-transformers lists its steps in modules.json; without that file embeddings are scaled to length one."""
    path = folder / "modules.json"
    return not path.is_file() or "Normalize" in path.read_text(errors="replace")[:MAX_JSON]


def _pooling(folder: Path) -> Pooling:
    """sentence-transformers keeps it in 1_Pooling/config.json."""
    path = folder / "1_Pooling" / "config.json"
    if not path.is_file():
        return "none"
    facts = Facts(f"{folder.name}/1_Pooling/config.json", read_json(path))
    chosen = [mode for key, mode in _POOLING_KEYS.items() if facts.flag(key, False)]
    if len(chosen) != 1:
        known = ", ".join(_POOLING_KEYS)
        raise FormatError(f"{facts.label}: {len(chosen)} pooling modes are on; exactly one of {known} is supported", field="pooling")
    return chosen[0]
