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
PLACES = ("castle", "harbour", "orchard", "library", "bridge", "mill", "tower", "garden")
FIRST_NAMES = ("Marta", "Ivo", "Selma", "Anton", "Greta", "Pavel", "Nora", "Hugo", "Irene", "Oscar", "Wanda", "Felix")
LAST_NAMES = ("Velden", "Marsh", "Kovac", "Lindt", "Oakes", "Petrov", "Salas", "Winter", "Brandt", "Novak", "Ferro", "Holm")
JOBS = ("baker", "teacher", "sailor", "tailor", "painter", "doctor", "farmer", "pilot")
MOST_ITEMS = len(PLACES)
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


def _plants(rng: np.random.Generator, items: int) -> tuple[list[str], list[Question]]:
    """Sentences to hide, and what is asked of them: `items` questions per task."""
    plants: list[str] = []
    questions: list[Question] = []
    keys = [str(k) for k in rng.permutation(KEYS)]
    people = [f"{first} {last}" for first, last in zip(rng.permutation(FIRST_NAMES), rng.permutation(LAST_NAMES), strict=True)]
    for key in keys[:items]:                                        # one needle among others of its kind
        number = _number(rng)
        plants.append(f"The special magic number for {key} is: {number}.")
        questions.append(Question("multi-key", f"\nThe special magic number for {key} is:", f" {number}"))
    for place, word in zip(PLACES[:items], rng.permutation(THINGS), strict=False):
        plants.append(f"The secret word of the {place} is {word}.")
        questions.append(Question("single needle", f"\nThe secret word of the {place} is", f" {word}"))
    values, key = [_number(rng) for _ in range(items)], keys[items]
    plants += [f"One of the lucky numbers of {key} is: {v}." for v in values]
    for i in range(items):                                          # several needles under one key, in the order of the text
        known = "".join(f" {v}," for v in values[:i])
        questions.append(Question("multi-value", f"\nThe lucky numbers of {key}, in the order given above:{known}", f" {values[i]}"))
    for i in range(items):
        value, names = _number(rng), [f"X{10 + i}{rng.integers(10, 99)}{c}" for c in "ABC"]
        plants += [f"VAR {names[0]} = {value}.", f"VAR {names[1]} = VAR {names[0]}.", f"VAR {names[2]} = VAR {names[1]}."]
        questions.append(Question("variable tracking", f"\nThe value of VAR {names[2]} is", f" {value}"))
    for i in range(items):
        common, *others = (str(t) for t in rng.permutation(THINGS)[:4])
        plants += [f"Entry of list {i + 1}: {thing}." for thing in (common, others[0], common, others[1], common, others[2], common)]
        questions.append(Question("common words", f"\nThe most frequent entry of list {i + 1} is:", f" {common}"))
    for i in range(items):                                          # a passage, and a question in other words
        person, city, job = people[i], keys[items + 1 + i], str(rng.choice(JOBS))
        plants.append(f"{person} grew up in {city} and later worked as a {job} for many years.")
        what, answer = (("spent the years of childhood in the city of", city), ("earned a living as a", job))[i % 2]
        questions.append(Question("question answering", f"\nQuestion: what is known of {person}?\nAnswer: {person} {what}", f" {answer}"))
    return plants, questions


def make_document(
    text: str, encode: Callable[[str], list[int]], length: int, seed: int, *, items: int = 4, following: int = 64,
) -> Document:
    """A document of `length` tokens cut from `text` at a random place, plants spread evenly. encode: text to ids, without special tokens.

    items: questions per task, at most `MOST_ITEMS`. ValueError: no room for the plants, or too short a text.
    """
    if not 1 <= items <= MOST_ITEMS:
        raise ValueError(f"{items} items per task: 1 to {MOST_ITEMS} are possible")
    rng = np.random.default_rng(seed)
    plants, questions = _plants(rng, items)
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
    fixed = [i for i, p in enumerate(plants) if p.startswith(("VAR", "One of", "Entry"))]      # chains and lists keep their order
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
