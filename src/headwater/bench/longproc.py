"""Long procedures in the manner of LongProc (2501.05414): a route through a table of roads, who believes what, a countdown to a number.

A document is the whole task; its questions are the steps of the right procedure, each asked behind the right steps before it, so that a model
is scored by the share of steps that greedy decoding would bring, however early it goes astray.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, permutations, product

import numpy as np

from headwater.bench.haystack import FIRST_NAMES, KEYS, THINGS, Document, Question

TASKS = ("path", "theory of mind", "countdown")
BOXES = ("box", "drawer", "basket", "cupboard", "trunk", "bag")


def make_procedure(task: str, encode: Callable[[str], list[int]], length: int, seed: int, *, steps: int = 6) -> Document:
    """A document of about `length` tokens (never more). encode: text to ids, without special tokens. ValueError: unknown task, or no room."""
    makers = {"path": _path, "theory of mind": _beliefs, "countdown": _countdown}
    if task not in makers:
        raise ValueError(f"procedure '{task}': one of {', '.join(TASKS)}")
    head, fill, core, tail, questions = makers[task](np.random.default_rng(seed), steps)
    fixed = len(encode(head)) + sum(len(encode(line)) for line in core) + len(encode(tail))
    if fixed > length:
        raise ValueError(f"a procedure of {length} tokens has no room for the {fixed} that it needs")
    lines, rng = list(core), np.random.default_rng([seed, 1])
    room = length - fixed
    for line in fill:
        size = len(encode(line))
        if size > room:
            break
        room -= size
        lines.append(line)
    # what happened in the room is told in order, behind what fills
    lines = lines[len(core) :] + core if task == "theory of mind" else [lines[i] for i in rng.permutation(len(lines))]
    tokens = encode(head + "".join(lines) + tail)[-length:]
    return Document(np.asarray(tokens, np.int32), np.asarray(tokens[-1:], np.int32), questions)


def _path(rng: np.random.Generator, steps: int) -> tuple[str, list[str], list[str], str, list[Question]]:
    """Every city has one road out; the route from the first is to be told city by city."""
    names = [f"{a}{b}" for a, b in product(KEYS, ("", "ville", "ford", "haven", " Bay", "stead", "wick", "dale", "port", " Hill"))]
    order = [names[i] for i in rng.permutation(len(names))]
    route, others = order[: steps + 1], order[steps + 1 :]
    core = [f"From {a} the road leads to {b}.\n" for a, b in pairwise(route)]
    fill = [f"From {a} the road leads to {b}.\n" for a, b in zip(others, [*others[1:], others[0]], strict=True)]
    tail = f"The route from {route[0]}, road by road:\n"
    told, questions = "", []
    for a, b in pairwise(route):
        questions.append(Question("path", f"{told}From {a} the road leads to", f" {b}"))
        told += f"From {a} the road leads to {b}.\n"
    return "A table of roads.\n", fill, core, tail, questions


def _beliefs(rng: np.random.Generator, steps: int) -> tuple[str, list[str], list[str], str, list[Question]]:
    """Things are moved while people are away; where each of them believes the thing to be is what they saw last."""
    people, thing = [str(p) for p in rng.permutation(FIRST_NAMES)[: steps + 1]], str(rng.choice(THINGS))
    mover, *seers = people
    where = str(rng.choice(BOXES))
    core = [f"{', '.join(people)} are in the room. The {thing} is in the {where}.\n"]
    beliefs: dict[str, str] = {}
    for person in seers:
        core.append(f"{person} leaves the room.\n")
        beliefs[person] = where
        where = str(rng.choice([b for b in BOXES if b != where]))
        core.append(f"{mover} moves the {thing} to the {where}.\n")
    idle = (f"{mover} looks at the {a} and the {b}.\n" for a in BOXES for b in THINGS if b != thing)
    fill = [line for line in idle for _ in range(8)]
    told, questions = "", []
    for person in seers:
        questions.append(Question("theory of mind", f"{told}{person} believes that the {thing} is in the", f" {beliefs[person]}"))
        told += f"{person} believes that the {thing} is in the {beliefs[person]}.\n"
    return "What happened in the room.\n", fill, core, "What everybody believes:\n", questions


def _solve(numbers: tuple[int, ...], target: int) -> list[str] | None:
    """The first chain a op b = c, c op d = e … that ends in the target; None if there is none."""
    apply: dict[str, Callable[[int, int], int]] = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b}
    for order in permutations(numbers):
        for signs in product(apply, repeat=len(numbers) - 1):
            value, lines = order[0], []
            for sign, other in zip(signs, order[1:], strict=True):
                result = apply[sign](value, other)
                lines.append(f"{value} {sign} {other} = {result}")
                value = result
            if value == target and all(not line.split("= ")[1].startswith("-") for line in lines):
                return lines
    return None


def _countdown(rng: np.random.Generator, steps: int) -> tuple[str, list[str], list[str], str, list[Question]]:
    """Three numbers and a target, many solved examples, then one to solve line by line."""
    def example() -> tuple[str, list[str]]:
        while True:
            numbers = tuple(int(n) for n in rng.integers(2, 20, 3))
            lines = _solve(numbers, int(rng.integers(10, 99)))
            if lines is not None:
                return f"Numbers {', '.join(map(str, numbers))}; target {lines[-1].split('= ')[1]}:\n", lines

    examples = [example() for _ in range(40)]
    fill = [title + "".join(f"{line}\n" for line in lines) for title, lines in examples] * 20
    title, lines = example()
    told, questions = "", []
    for line in lines[:steps]:
        left, _, result = line.partition(" = ")
        questions.append(Question("countdown", f"{told}{left} =", f" {result}"))
        told += f"{line}\n"
    return "Reach the target with the numbers.\n", fill, [], title, questions
