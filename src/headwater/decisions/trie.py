"""Options as a trie of token ids: which positions to read, and the joint probability of every option from what was read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.core.errors import UserInputError


@dataclass(frozen=True, slots=True)
class Node:
    """A place in the trie where some option continues. path: ids after the prompt; children: int32[k], sorted, the ids that may follow."""

    path: tuple[int, ...]
    children: np.ndarray


class OptionTrie:
    """Label sequences (at least one id each, none a prefix of another) and the nodes that must be read to score them.

    A node below the root needs the log-sum-exp over the vocabulary beside its children's logits, since options pass through different nodes;
    at the root it is common to all options and cancels. Raises UserInputError (field `where`) for identical sequences and prefixes.
    """

    def __init__(self, labels: list[tuple[int, ...]], where: str) -> None:
        self.labels = labels
        children: dict[tuple[int, ...], set[int]] = {}
        owners: dict[tuple[int, ...], int] = {}
        for i, label in enumerate(labels):
            if not label:
                raise UserInputError(f"{where}: option {i + 1} has no tokens", field=where)
            if label in owners:
                raise UserInputError(f"{where}: options {owners[label] + 1} and {i + 1} are the same tokens to the model", field=where)
            owners[label] = i
            for k in range(len(label)):
                children.setdefault(label[:k], set()).add(label[k])
        for i, label in enumerate(labels):
            if label in children:
                raise UserInputError(f"{where}: the label of option {i + 1} is the beginning of another option's", field=where)
        self.nodes = [Node(path, np.array(sorted(ids), np.int32)) for path, ids in sorted(children.items(), key=lambda x: (len(x[0]), x[0]))]

    def needs_lse(self, node: Node, label_mass: bool) -> bool:
        return bool(node.path) or label_mass

    def scores(self, logits: list[np.ndarray], lse: list[float | None]) -> np.ndarray:
        """Log-probability of every label, float64[n], up to a constant common to all (the root's normaliser where it was not read).

        logits[i], lse[i]: what was read at nodes[i]. Children of one node that are the only continuation still cost their probability.
        """
        step: dict[tuple[tuple[int, ...], int], float] = {}
        for node, values, norm in zip(self.nodes, logits, lse, strict=True):
            for token, value in zip(node.children.tolist(), np.asarray(values, np.float64), strict=True):
                step[node.path, token] = float(value) - (0.0 if norm is None else norm)
        return np.array([sum(step[label[:k], label[k]] for k in range(len(label))) for label in self.labels], np.float64)
