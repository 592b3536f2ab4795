"""Fill-in-the-middle prompts: what stands before and behind a gap, in the markers that the model was trained with; it writes the middle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.core.errors import UserInputError

if TYPE_CHECKING:
    from headwater.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Infill:
    """ids: the prompt. stops: markers that end the middle, beside the model's own ends."""

    ids: list[int]
    stops: list[int]


def infill(tokenizer: Tokenizer, prefix: str, suffix: str, files: Sequence[tuple[str, str]] = (), field: str = "suffix") -> Infill:
    """Prefix, suffix, middle, in this order (Bavarian et al. 2022, "PSM"). files: (name, text) of other files of the same repository.

    Markers spelled out in the texts stay text. Raises UserInputError naming `field` for a model without the markers.
    """
    fim = tokenizer.vocab.fim
    if not fim:
        raise UserInputError(f"{field}: this model has no fill-in-the-middle tokens", field=field)

    def text(s: str) -> list[int]:
        return tokenizer.encode(s, add_special=False, parse_special=False)

    ids = [tokenizer.bos_id] if tokenizer.bos_id is not None and tokenizer.encode("", add_special=True)[:1] == [tokenizer.bos_id] else []
    if files:
        if "file" not in fim:
            raise UserInputError("input_extra: this model has no marker for further files", field="input_extra")
        if "repo" in fim:
            ids += [fim["repo"], *text("repository\n")]
        for name, content in files:
            ids += [fim["file"], *text(f"{name}\n{content}\n")]
        ids += [fim["file"], *text("file\n")]
    ids += [fim["prefix"], *text(prefix), fim["suffix"], *text(suffix), fim["middle"]]
    return Infill(ids, sorted({fim[role] for role in ("pad", "repo", "file", "prefix", "suffix", "middle") if role in fim}))
