"""Rows that a drafter forks from its clients' rows: requests like any other, whose outputs nobody outside sees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from headwater.core.events import Cancel
from headwater.core.request import Output, Request
from headwater.policies.draft.api import Fork
from headwater.sched.board import Board
from headwater.sched.guess import Guesser
from headwater.sched.seq import Seq, Stage

_NAME = "\0draft/"                # no client's request id begins like this


class SelfDrafts:
    """Between steps: starts what the drafter wants, stops what it does not need, and passes on what the forks draw.

    arrive, cancel: the scheduler's own ways in. drawn: tokens that forks have drawn.
    """

    def __init__(self, board: Board, guesser: Guesser, arrive: Callable[[Request, float], None], cancel: Callable[[Cancel, float], None]) -> None:
        self._board, self._guesser, self._arrive, self._cancel = board, guesser, arrive, cancel
        self.drawn = 0

    @property
    def running(self) -> int:
        """Forks that have a row now."""
        return sum(seq.stage == Stage.RUNNING for rid in self._guesser.children if (seq := self._board.seqs.get(rid)) is not None)

    def turn(self, now: float) -> None:
        forker = self._guesser.forker
        if forker is None:
            return
        self._guesser.forget()
        wanted, unwanted = forker.forks()
        others = self._board.queue.count
        for fork in wanted:
            parent = self._guesser.seq(fork.row)
            # a fork takes a seat and memory: only where nobody else waits for them
            if fork.key not in unwanted and parent is not None and parent.stage == Stage.RUNNING and not others:
                self._start(fork, parent, now)
        for key in unwanted:
            if f"{_NAME}{key}" in self._guesser.children:
                self._cancel(Cancel(f"{_NAME}{key}", keep=False), now)

    def _start(self, fork: Fork, parent: Seq, now: float) -> None:
        r = parent.request
        room = min(self._board.caps.context, self._board.kv.longest) - len(fork.prompt)
        most = min(fork.most, room)
        if most < 1:
            return
        params = replace(r.params, temperature=0.0, n=1, max_tokens=most, min_tokens=0, logprobs=None, prompt_logprobs=None, stop=None)
        child = Request(f"{_NAME}{fork.key}", fork.prompt, params, most, stop_ids=r.stop_ids, arrival=now, priority=r.priority, owner=r.owner,
                        cache_salt=r.cache_salt, parent=r.request_id, parent_pos=fork.shared)
        self._guesser.children[child.request_id] = fork.key
        self._arrive(child, now)

    def take(self, outputs: list[Output]) -> list[Output]:
        """The outputs that are for clients; the forks' own go to the drafter."""
        children, forker = self._guesser.children, self._guesser.forker
        if not children or forker is None:
            return outputs
        out = []
        for o in outputs:
            key = children.get(o.request_id)
            if key is None:
                out.append(o)
                continue
            self.drawn += len(o.ids)
            if len(o.ids):
                forker.offer(key, o.ids)
            if o.finish is not None:
                del children[o.request_id]
        return out
