"""draft/selfdraft: self-speculation for reasoning models (SSR). The answer is drafted from a cut-off chain of thought, beside the thinking."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from headwater.core.registry import register
from headwater.kernels.history import LONGEST, TokenHistory
from headwater.policies.draft.api import NOTHING, Draft, Fork, bounded


@dataclass(slots=True)
class _Level:
    """One fork: its key, and what it has answered so far."""

    key: int
    ids: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Row:
    tokens: list[int]
    thinks_from: int = -1                                           # position behind the opening marker, -1 = does not think
    answers_from: int = -1                                          # position behind the end marker, -1 = has not ended
    levels: list[_Level] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)                   # of all its forks
    agrees: bool = True                                             # the answer is so far the newest level's, token by token
    spans: TokenHistory | None = None                               # all levels' answers, made when the thinking ends
    child: bool = False


@register("draft", "selfdraft")
@dataclass(slots=True)
class SelfDraft:
    """At `budget` thinking tokens the row is forked; the fork gets the end marker at once and answers greedily, beside its parent like any row. When
    the parent ends its thinking, that answer is its draft: token by token as long as they agree (`ssr_prefix`), then wherever the end of the real
    answer occurs in it (`ssr_suffix`). A fork that is not done by then stops, so that nobody waits for a draft.

    Source: Valluri, Nguyen, Grover, "SSR" (2608.20359); there a refused draft is resampled from the target, here drafts are checked against the
    target's own draws.

    budget: thinking tokens before the (first) fork. interval: with it, a further fork every so many tokens, which checks and extends the answer
    of the one before (0 = a single fork). most: tokens of a draft. prefix, suffix: whether the draft is used in this way (for ablations).
    guarded: where drafts have cost more than they brought, only one request in sixteen has forks, to see whether that has changed.
    """

    budget: int = 500
    interval: int = 0
    most: int = 500
    prefix: bool = True
    suffix: bool = True
    guarded: bool = True
    _start: tuple[int, ...] = field(default=(), init=False, repr=False)
    _end: tuple[int, ...] = field(default=(), init=False, repr=False)
    _rows: dict[int, _Row] = field(default_factory=dict, init=False, repr=False)
    _levels: dict[int, tuple[int, _Level]] = field(default_factory=dict, init=False, repr=False)    # by key, with the parent's row
    _wanted: list[Fork] = field(default_factory=list, init=False, repr=False)
    _unwanted: list[int] = field(default_factory=list, init=False, repr=False)
    _keys: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        for name, least in (("budget", 1), ("interval", 0), ("most", 1)):
            bounded(name, getattr(self, name), least)

    def mark(self, start: tuple[int, ...], end: tuple[int, ...]) -> None:
        """Ids of the markers around thinking. Without `start` every row thinks from its first token on, until `end`."""
        self._start, self._end = start, end

    # ---- rows -------------------------------------------------------------------------------------------------------------------

    def begin(self, row: int, tokens: np.ndarray, salt: str) -> None:
        r = self._rows[row] = _Row(tokens.tolist())
        opened = _last(r.tokens, self._start) if self._start else len(r.tokens) - 1
        ended = _last(r.tokens, self._end)
        if opened >= 0 and ended < opened + len(self._start):
            r.thinks_from = opened + len(self._start)

    def adopt(self, row: int, key: int) -> None:
        """A begun row is fork `key`: it answers already, and drafts from the level before it."""
        r = self._rows[row]
        r.child, r.thinks_from = True, -1
        parent, level = self._levels.get(key, (-1, None))
        if parent in self._rows and level is not None:
            levels = self._rows[parent].levels
            r.levels = levels[: levels.index(level)]
            self._answer(r, _last(r.tokens, self._end) + len(self._end))

    def extend(self, row: int, tokens: np.ndarray) -> None:
        r = self._rows[row]
        for token in tokens.tolist():
            r.tokens.append(token)
            n = len(r.tokens)
            if r.answers_from >= 0:
                self._check(r, n - 1)
            elif r.thinks_from < 0:
                self._open(r, n)
            elif tuple(r.tokens[n - len(self._end) :]) == self._end:
                self._unwanted += r.keys[-1:]
                self._answer(r, n)
            else:
                self._fork(row, r, n - r.thinks_from)

    def _open(self, r: _Row, n: int) -> None:
        """The output may begin with the opening marker."""
        if not r.child and self._start and tuple(r.tokens[n - len(self._start) :]) == self._start:
            r.thinks_from = n

    def _fork(self, row: int, r: _Row, thought: int) -> None:
        due = thought == self.budget or (self.interval and thought > self.budget and (thought - self.budget) % self.interval == 0)
        if due and self._end:
            level = _Level(self._keys)
            self._keys += 1
            r.levels.append(level)
            self._levels[level.key] = row, level
            self._unwanted += r.keys[-1:]                           # the one before has drafted enough: the new one extends it
            r.keys.append(level.key)
            prompt = np.array([*r.tokens, *self._end], np.int32)
            self._wanted.append(Fork(level.key, row, prompt, len(r.tokens) - 1, self.most))

    def _answer(self, r: _Row, at: int) -> None:
        r.answers_from, r.agrees = at, True
        r.levels = [level for level in r.levels if level.ids]
        if r.levels:
            r.spans = TokenHistory(max(1024, 2 * sum(len(level.ids) for level in r.levels)))
            for level in r.levels:
                r.spans.begin()
                r.spans.extend(np.array(level.ids, np.int32))
            for i in range(at, len(r.tokens)):
                self._check(r, i)

    def _check(self, r: _Row, at: int) -> None:
        p = at - r.answers_from
        if r.levels:
            newest = r.levels[-1].ids
            r.agrees = r.agrees and p < len(newest) and newest[p] == r.tokens[at]

    def propose(self, row: int, most: int) -> Draft:
        r = self._rows[row]
        if r.answers_from < 0 or r.spans is None:
            return NOTHING
        p = len(r.tokens) - r.answers_from
        if r.agrees and self.prefix:
            return Draft(np.array(r.levels[-1].ids[p : p + most], np.int32), LONGEST + p, "ssr_prefix")
        if not self.suffix:
            return NOTHING
        ids, match = r.spans.find(np.array(r.tokens[max(r.answers_from, len(r.tokens) - LONGEST) :], np.int32), most)
        return Draft(ids, match, "ssr_suffix")

    def end(self, row: int) -> None:
        r = self._rows.pop(row, None)
        if r is not None and not r.child:
            self._unwanted += r.keys[-1:]
            for key in r.keys:
                self._levels.pop(key, None)

    # ---- forks ------------------------------------------------------------------------------------------------------------------

    def forks(self) -> tuple[list[Fork], list[int]]:
        """(forks to start, keys of forks that nobody needs to go on), since the last call."""
        wanted, unwanted = self._wanted, self._unwanted
        self._wanted, self._unwanted = [], []
        return wanted, unwanted

    def offer(self, key: int, ids: np.ndarray) -> None:
        """What fork `key` has answered, piece by piece."""
        if key in self._levels:
            self._levels[key][1].ids.extend(ids.tolist())

    def points(self, row: int) -> list[int]:
        """Positions of row at which its state will be forked: where a model cannot be cut back, a checkpoint there saves computing it again."""
        r = self._rows[row]
        if r.thinks_from < 0 or r.child:
            return []
        return [r.thinks_from + self.budget - 1]


def _last(tokens: list[int], marker: tuple[int, ...]) -> int:
    """Where `marker` stands last, -1 = nowhere."""
    if not marker:
        return -1
    places = np.flatnonzero(np.array(tokens, np.int64) == marker[0]).tolist()
    return next((i for i in reversed(places) if tuple(tokens[i : i + len(marker)]) == marker), -1)
