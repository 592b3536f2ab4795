"""From a DecisionRequest to the positions that must be read, and back. Pure: the caller runs the reads, alone or with any others.

The forest is state → question → option node. A question's prompt is exactly what it would be if it were asked alone, so its answer does not
depend on the company it is asked in (numeric contract: every fork equals the linear run).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from headwater.core.errors import ContextLengthError
from headwater.decisions import formulas, wording
from headwater.decisions.calibration import Temperatures
from headwater.decisions.trie import OptionTrie
from headwater.decisions.types import Answer, DecisionRequest, DecisionResult, DecisionUsage, Question


class TextSide(Protocol):
    """What decisions need of tokenizer and template."""

    def prompt_ids(self, first: str, second: str, answer_prefix: str) -> np.ndarray:
        """int32 ids of a conversation of two messages (state, question) up to where the answer starts, `answer_prefix` included."""

    def label_ids(self, text: str) -> tuple[int, ...]:
        """Ids of an answer text, without special tokens."""

    def terminator(self) -> tuple[int, ...]:
        """The id that ends an answer; added to option texts so that none is a prefix of another."""


@dataclass(slots=True)
class ReadItem:
    """One position to read: label logits after the last of `ids`. Shares its first `parent_pos` ids with item `parent` (-1: with the state)."""

    ids: np.ndarray
    labels: np.ndarray
    lse: bool
    parent: int
    parent_pos: int


@dataclass(slots=True)
class ReadValue:
    """What came back for a ReadItem: float32[k] raw label logits, the log-sum-exp if it was asked, and what the engine computed for it."""

    logits: np.ndarray
    lse: float | None
    computed: int = 0
    cached: int = 0


@dataclass(slots=True)
class Pass:
    """One question in one order of its options: items [start, start + len(trie.nodes)) of the work."""

    question: int
    order: tuple[int, ...]
    trie: OptionTrie
    start: int


@dataclass(slots=True)
class Work:
    """state_ids: the ids that all prompts start with. items: everything to read, parents before children."""

    request: DecisionRequest
    state_ids: np.ndarray
    items: list[ReadItem] = field(default_factory=list)
    passes: list[Pass] = field(default_factory=list)

    @property
    def once(self) -> int:
        """Tokens of the state once and of everything below it."""
        return len(self.state_ids) + sum(len(i.ids) - i.parent_pos for i in self.items)


def orders(question: Question, debias: str) -> list[tuple[int, ...]]:
    """Which option orders are asked: as given; given and reversed; or all cyclic shifts. Scores keep their order but for `reverse`."""
    n = len(question.options)
    given = tuple(range(n))
    if debias == "none" or n < 2:
        return [given]
    if debias == "reverse" or question.kind == "score":
        return [given, given[::-1]]
    return [given[i:] + given[:i] for i in range(n)]


def plan(request: DecisionRequest, text: TextSide, context: int) -> Work:
    """Render, tokenise and lay out the forest. Raises UserInputError (labels that tokenise alike), ContextLengthError (with both numbers)."""
    first = wording.state_message(request.state, request.wording)
    prompts: list[tuple[int, tuple[int, ...], np.ndarray, OptionTrie]] = []
    for index, question in enumerate(request.questions):
        for order in orders(question, request.debias):
            ask = wording.ask(question, order, request.labels == "text")
            ids = text.prompt_ids(first, ask.text, ask.answer_prefix)
            end = text.terminator() if ask.style == "text" else ()
            trie = OptionTrie([text.label_ids(label) + end for label in ask.labels], question.field)
            longest = len(ids) + max(len(node.path) for node in trie.nodes)
            if longest > context:
                raise ContextLengthError(
                    f"{question.field}: state and question are {longest:,} tokens, the context holds {context:,}", field=question.field
                )
            prompts.append((index, order, ids, trie))
    work = Work(request, _shared(first, [p[2] for p in prompts], text))
    for index, order, ids, trie in prompts:
        start = len(work.items)
        work.passes.append(Pass(index, order, trie, start))
        for node in trie.nodes:
            node_ids = np.concatenate([ids, np.array(node.path, np.int32)])
            parent, position = (-1, len(work.state_ids)) if not node.path else (start, len(ids))
            work.items.append(ReadItem(node_ids, node.children, trie.needs_lse(node, request.label_mass), parent, position))
    return work


def _shared(first: str, prompts: Sequence[np.ndarray], text: TextSide) -> np.ndarray:
    """Longest run of ids that every prompt over this state starts with, whatever is asked: it must not depend on the questions at hand."""
    probes = [text.prompt_ids(first, "?", ""), text.prompt_ids(first, "A", "")]
    shortest = min(len(p) for p in (*prompts, *probes))
    stack = np.stack([p[:shortest] for p in (*prompts, *probes)])
    same = (stack == stack[0]).all(axis=0)
    return stack[0][: shortest if same.all() else int(same.argmin())]


def finish(work: Work, values: Sequence[ReadValue], temperatures: Temperatures | None = None) -> DecisionResult:
    """Answers in the order of the questions. values[i] is what was read for work.items[i]."""
    request = work.request
    sums: list[np.ndarray] = [np.zeros(len(q.options)) for q in request.questions]
    counts = [0] * len(request.questions)
    answers: list[Answer | None] = [None] * len(request.questions)
    for p in work.passes:
        question = request.questions[p.question]
        mine = values[p.start : p.start + len(p.trie.nodes)]
        scores = p.trie.scores([v.logits for v in mine], [v.lse for v in mine])
        calibrated = temperatures.of(question) if temperatures else 1.0
        probabilities = formulas.softmax(scores, calibrated * request.temperature)
        sums[p.question][list(p.order)] += probabilities
        counts[p.question] += 1
        if answers[p.question] is None:
            answers[p.question] = _answer(work, p, mine, scores)
    done: list[Answer] = []
    for answer, total, count in zip(answers, sums, counts, strict=True):
        assert answer is not None
        done.append(_fill(answer, total / count))
    return DecisionResult(done, _usage(work, values))


def _answer(work: Work, p: Pass, mine: Sequence[ReadValue], scores: np.ndarray) -> Answer:
    question = work.request.questions[p.question]
    answer = Answer(question, np.zeros(0), 0, 0.0)
    root = mine[0]
    if work.request.label_mass and root.lse is not None:
        single = all(len(label) == 1 for label in p.trie.labels)
        total = np.asarray(root.logits, np.float64) - root.lse if single else scores
        answer.label_mass = float(min(1.0, np.exp(total).sum()))
    if work.request.return_ids:
        answer.prompt_ids = work.items[p.start].ids.tolist()
        answer.label_ids = [list(label) for label in p.trie.labels]
    return answer


def _fill(answer: Answer, probabilities: np.ndarray) -> Answer:
    answer.probabilities = probabilities
    answer.choice = int(probabilities.argmax())
    kind = answer.question.kind
    answer.confidence = formulas.score_confidence(probabilities) if kind == "score" else formulas.choice_confidence(probabilities)
    if kind == "predicate":
        answer.value = float(probabilities[0])
    elif kind == "score":
        answer.value = float((probabilities * np.arange(len(probabilities))).sum())
    return answer


def _usage(work: Work, values: Sequence[ReadValue]) -> DecisionUsage:
    logical = sum(len(work.items[p.start].ids) for p in work.passes)
    return DecisionUsage(logical, work.once, sum(v.computed for v in values), sum(v.cached for v in values))
