"""Special tokens: finding them in text, and which of them end a turn."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

# Tokens that end a turn or a text, by the names that published models give them
TURN_ENDS = frozenset((
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|calls|>", "<|flush|>", "<end_of_turn>", "<turn|>", "<|endoftext|>",
    "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<|tool_response>",
    "<｜end▁of▁sentence｜>", "<|END_OF_TURN_TOKEN|>", "<|end_of_turn|>", "<|eot|>", "[e~[", "<|end_of_role|>", "<|user|>", "<|observation|>",
))
# Names that end a turn in some vocabularies and are ordinary or opening tokens in others: they count only together with another name
_NEEDS = {"<|user|>": "<|observation|>", "<|observation|>": "<|user|>"}
_FIM = {
    "prefix": ("<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>", "<|code_prefix|>", "<|prefix|>"),
    "suffix": ("<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>", "<|code_suffix|>", "<|suffix|>"),
    "middle": ("<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>", "<|code_middle|>", "<|middle|>"),
    "pad": ("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>"),
    "repo": ("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"),
    "file": ("<|file_sep|>",),
}


def turn_ends(ids_by_text: Mapping[str, int], named: Iterable[int]) -> frozenset[int]:
    """Every id at which generation stops.

    ids_by_text: the control and user-defined tokens. named: the ids that the model's own metadata calls eos, eot or eom.
    """
    known = {t for t in TURN_ENDS if t in ids_by_text}
    known -= {t for t, other in _NEEDS.items() if other not in ids_by_text}
    if {"<|return|>", "<|call|>"} <= known or {"<|calls|>", "<|flush|>"} <= known:
        known.discard("<|end|>")                                    # there it ends a message within the turn, not the turn
    return frozenset(ids_by_text[t] for t in known) | frozenset(named)


def fill_in_the_middle(ids_by_text: Mapping[str, int]) -> dict[str, int]:
    """Ids of the fill-in-the-middle tokens by role: prefix, suffix, middle, pad, repo, file; {} without the first three."""
    found = {role: next((ids_by_text[t] for t in names if t in ids_by_text), None) for role, names in _FIM.items()}
    if any(found[role] is None for role in ("prefix", "suffix", "middle")):
        return {}
    return {role: i for role, i in found.items() if i is not None}


class SpecialSplitter:
    """Cuts text at special tokens, leftmost first and longest among those that start there.

    No automaton: a token can start only at a character that starts one, where its few possible lengths are tried. Vocabularies with
    thousands of reserved tokens cost nothing to prepare.
    """

    def __init__(self, ids_by_text: Mapping[str, int]) -> None:
        self._ids = {t: i for t, i in ids_by_text.items() if t}
        lengths: dict[str, set[int]] = {}
        for text in self._ids:
            lengths.setdefault(text[0], set()).add(len(text))
        self._lengths = {first: sorted(found, reverse=True) for first, found in lengths.items()}
        starts = "".join(re.escape(c) for c in sorted(self._lengths))
        self._start = re.compile(f"[{starts}]") if starts else None

    def split(self, text: str) -> Iterator[str | int]:
        """The pieces of `text` in order: str for text (never empty), int for the id of a special token."""
        done = at = 0
        while self._start is not None and (found := self._start.search(text, at)) is not None:
            at = found.start()
            for n in self._lengths[text[at]]:
                token = self._ids.get(text[at : at + n])
                if token is not None:
                    if at > done:
                        yield text[done:at]
                    yield token
                    at += n
                    done = at
                    break
            else:
                at += 1
        if done < len(text):
            yield text[done:]
