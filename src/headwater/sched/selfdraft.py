"""Rows that a drafter forks from its clients' rows: requests like any other, whose outputs nobody outside sees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from headwater.core.events import Cancel
from headwater.core.request import Output, Request
from headwater.policies.draft.api import Fork
from headwater.sched.board import Board
from headwater.sched.guess import Guesser
from headwater.sched.seq import Seq, Stage

_NAME = "\0draft/"                # no client's request id begins like this
TRIAL = 8                         # requests with forks that must have ended before anything is held against forks
PROBE_EVERY = 16                  # where forks do not pay, of requests that could have them one in so many does
FADE = 0.9                        # weight of the past in what forks cost and brought, per request
SOURCES = ("ssr_prefix", "ssr_suffix")


@dataclass(slots=True)
class _Account:
    """Tokens that the forks of a request have drawn, and how many of them held in its answer."""

    drawn: int = 0
    held: int = 0


class SelfDrafts:
    """Between steps: starts what the drafter wants, stops what it does not need, and passes on what the forks draw.

    arrive, cancel: the scheduler's own ways in. drawn: tokens that forks have drawn.

    A token that a fork draws costs what one more token in a step costs; one that holds in the answer saves a row's step, less what checking it costs.
    Where requests that ended paid more than they got, forks become rare.
    """

    def __init__(self, board: Board, guesser: Guesser, arrive: Callable[[Request, float], None], cancel: Callable[[Cancel, float], None]) -> None:
        self._board, self._guesser, self._arrive, self._cancel = board, guesser, arrive, cancel
        self.drawn = 0
        self._accounts: dict[str, _Account] = {}                    # by request id of the parents that run
        self._parents: dict[str, str] = {}                          # request ids: fork -> parent
        self._asked = self._ended = 0                               # first forks asked for; requests with forks that are over
        self._spent = self._saved = 0.0                             # tokens drawn and tokens that held, of those, faded

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
            if others or fork.key in unwanted or parent is None or parent.stage != Stage.RUNNING:
                continue
            if not forker.guarded or self._pays(parent.request.request_id):
                self._start(fork, parent, now)
        for key in unwanted:
            if f"{_NAME}{key}" in self._guesser.children:
                self._cancel(Cancel(f"{_NAME}{key}", keep=False), now)

    def _pays(self, parent: str) -> bool:
        """Whether a request may have (another) fork."""
        if parent in self._accounts:
            return True
        self._asked += 1
        price = self._guesser.price
        paid = (1 - price) * self._saved >= price * self._spent
        return paid or self._ended < TRIAL or self._asked % PROBE_EVERY == 0

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
        self._parents[child.request_id] = r.request_id
        self._accounts.setdefault(r.request_id, _Account())
        self._arrive(child, now)

    def take(self, outputs: list[Output]) -> list[Output]:
        """The outputs that are for clients; the forks' own go to the drafter."""
        children, forker = self._guesser.children, self._guesser.forker
        if forker is None or not (children or self._accounts):
            return outputs
        out = []
        for o in outputs:
            key = children.get(o.request_id)
            if key is None:
                out.append(o)
                self._book(o)
                continue
            self.drawn += len(o.ids)
            if (account := self._accounts.get(self._parents[o.request_id])) is not None:
                account.drawn += len(o.ids)
            if len(o.ids):
                forker.offer(key, o.ids)
            if o.finish is not None:
                del children[o.request_id], self._parents[o.request_id]
        return out

    def _book(self, o: Output) -> None:
        """An output of a client's request: what of its forks' tokens held, and at its end whether they were worth it."""
        account = self._accounts.get(o.request_id)
        if account is None:
            return
        if o.draft is not None and o.draft.source in SOURCES:
            account.held += o.draft.accepted
        if o.finish is not None:
            del self._accounts[o.request_id]
            self._ended += 1
            self._spent, self._saved = FADE * self._spent + account.drawn, FADE * self._saved + account.held
