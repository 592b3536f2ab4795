"""Documents with planted facts and questions about them: retrieval tasks in the manner of RULER (2404.06654), over any plain text.

A document holds the plants of all tasks at once, so that one prefill serves every question; questions are asked from forks of its end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

KEYS = (
    "Lisbon", "Oslo", "Quito", "Nairobi", "Hanoi", "Dublin", "Tbilisi", "Lima", "Riga", "Cairo", "Bern", "Accra", "Seoul", "Sofia", "Minsk", "Doha",
    "Dakar", "Perth", "Turin", "Kyoto", "Porto", "Malmo", "Ghent", "Basel",
)
THINGS = ("anchor", "lantern", "compass", "violin", "teapot", "saddle", "mirror", "basket", "hammer", "candle")


@dataclass(frozen=True, slots=True)
class Question:
    """text is appended to the document; answer, token by token, is what greedy decoding should bring."""

    task: str
    text: str
    answer: str


@dataclass(slots=True)
class Document:
    """tokens int32[n]: the prompt; following int32[m]: how its text goes on (for divergences); questions about it."""

    tokens: np.ndarray
    following: np.ndarray
    questions: list[Question] = field(default_factory=list)


def _number(rng: np.random.Generator) -> str:
    return str(int(rng.integers(10_000, 99_999)))


def _plants(rng: np.random.Generator, single: int) -> tuple[list[str], list[Question]]:
    """Sentences to hide, and what is asked of them."""
    plants: list[str] = []
    questions: list[Question] = []
    keys = rng.permutation(KEYS)[: single + 1]
    for key in keys[:single]:                                       # one needle among others of its kind
        number = _number(rng)
        plants.append(f"The special magic number for {key} is: {number}.")
        questions.append(Question("multi-key", f"\nThe special magic number for {key} is:", f" {number}"))
    word = str(rng.choice(THINGS))
    plants.append(f"The secret word of this document is {word}.")
    questions.append(Question("single needle", "\nThe secret word of this document is", f" {word}"))
    values = [_number(rng) for _ in range(3)]
    plants += [f"One of the lucky numbers of {keys[single]} is: {v}." for v in values]
    for i in range(3):                                              # several needles under one key, in the order of the text
        known = "".join(f" {v}," for v in values[:i])
        questions.append(Question("multi-value", f"\nThe lucky numbers of {keys[single]}, in the order given above:{known}", f" {values[i]}"))
    value, names = _number(rng), [f"X{rng.integers(10, 99)}{c}" for c in "ABC"]
    plants += [f"VAR {names[0]} = {value}.", f"VAR {names[1]} = VAR {names[0]}.", f"VAR {names[2]} = VAR {names[1]}."]
    questions.append(Question("variable tracking", f"\nThe value of VAR {names[2]} is", f" {value}"))
    common = str(rng.choice([t for t in THINGS if t != word]))
    plants += [f"List entry: {common}."] * 6 + [f"List entry: {t}." for t in THINGS if t not in (word, common)]
    questions.append(Question("common words", "\nThe most frequent list entry above is:", f" {common}"))
    return plants, questions


def make_document(
    text: str, encode: Callable[[str], list[int]], length: int, seed: int, *, single: int = 8, following: int = 64,
) -> Document:
    """A document of `length` tokens cut from `text` at a random place, plants spread evenly. encode: text to ids, without special tokens."""
    rng = np.random.default_rng(seed)
    plants, questions = _plants(rng, single)
    planted = [encode(f"\n{p}\n") for p in plants]
    room = length - sum(map(len, planted))
    if room < length // 4:
        raise ValueError(f"a document of {length} tokens has no room for {length - room} tokens of plants")
    need = 8 * (room + following)                                   # characters, generously
    start = int(rng.integers(0, max(1, len(text) - need)))
    start = text.find("\n", start) + 1
    base = encode(text[start : start + need])
    if len(base) < room + following:
        raise ValueError(f"the text is too short for a document of {length} tokens")
    fixed = [i for i, p in enumerate(plants) if p.startswith(("VAR", "One of"))]      # chains and lists keep their order
    order = rng.permutation(len(plants))
    places = sorted(int(np.flatnonzero(order == i)[0]) for i in fixed)
    for place, i in zip(places, fixed, strict=True):
        order[place] = i
    parts: list[list[int]] = []
    at = 0
    for k, i in enumerate(order.tolist()):
        until = (k + 1) * room // (len(plants) + 1)
        parts += [base[at:until], planted[i]]
        at = until
    parts.append(base[at:room])
    tokens = np.concatenate([np.asarray(p, np.int32) for p in parts])
    return Document(tokens, np.asarray(base[room : room + following], np.int32), questions)
