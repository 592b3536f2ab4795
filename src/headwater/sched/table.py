"""Struct of arrays: one entry per waiting request (queue) or running row (table with tokens)."""

from __future__ import annotations

import numpy as np

from headwater.policies.sched.api import RowsView
from headwater.sched.seq import Seq


class Table:
    """Columns of requests. Entries keep their index while they stay; free indices are reused, lowest first where possible."""

    def __init__(self, rows: int = 16) -> None:
        self.seqs: list[Seq | None] = [None] * rows
        self.alive = np.zeros(rows, bool)
        self.arrival = np.zeros(rows)
        self.priority = np.zeros(rows, np.int32)
        self.owner = np.zeros(rows, np.int32)
        self.order = np.zeros(rows, np.int64)
        self.prompt = np.zeros(rows, np.int32)
        self.known = np.zeros(rows, np.int32)
        self.done = np.zeros(rows, np.int32)
        self.max_new = np.zeros(rows, np.int32)
        self.deadline = np.full(rows, np.inf)
        self._free = list(range(rows - 1, -1, -1))
        self.count = 0

    _columns: tuple[str, ...] = ("alive", "arrival", "priority", "owner", "order", "prompt", "known", "done", "max_new", "deadline")

    def _grow(self) -> None:
        old = len(self.seqs)
        self.seqs += [None] * old
        for name in self._columns:
            column = getattr(self, name)
            setattr(self, name, np.concatenate([column, np.full_like(column, np.inf if name == "deadline" else 0)]))
        self._free += range(2 * old - 1, old - 1, -1)

    def add(self, seq: Seq) -> int:
        """Take an entry for `seq`; returns its index."""
        if not self._free:
            self._grow()
        row = self._free.pop()
        request = seq.request
        self.seqs[row] = seq
        self.alive[row] = True
        self.arrival[row], self.priority[row], self.owner[row], self.order[row] = request.arrival, request.priority, seq.owner, seq.order
        self.prompt[row], self.known[row], self.done[row], self.max_new[row] = seq.prompt_len, len(seq.known), 0, request.max_new
        self.deadline[row] = np.inf if request.deadline is None else request.deadline
        seq.row = row
        self.count += 1
        return row

    def remove(self, row: int) -> None:
        self.seqs[row] = None
        self.alive[row] = False
        self.deadline[row] = np.inf
        self._free.append(row)
        self.count -= 1

    def at(self, row: int) -> Seq:
        seq = self.seqs[row]
        assert seq is not None
        return seq

    def index(self) -> np.ndarray:
        """int64[count]: the live entries."""
        return np.flatnonzero(self.alive)

    def view(self, idx: np.ndarray, running: bool) -> RowsView:
        """The columns that a policy may see, copied."""
        return RowsView(self.arrival[idx], self.priority[idx], self.owner[idx], self.prompt[idx], self.known[idx], self.done[idx],
                        self.max_new[idx], self.order[idx], np.full(len(idx), running))


class Rows(Table):
    """Running rows. tokens int32[rows, width]: known tokens; room int32: positions for which the row has blocks; published int32: positions
    that the prefix index knows; want uint8: Want bits when a chunk reaches the last known token; limit int32: prompt plus max_new; reading
    bool: its ReadSpec is not served yet; reached int32: most tokens whose state was ever valid; settled bool: the row was part of an applied
    step, so that its copied block holds what the table says."""

    _columns = (*Table._columns, "room", "published", "want", "limit", "reading", "reached", "settled")

    def __init__(self, rows: int = 16, width: int = 256) -> None:
        super().__init__(rows)
        self.room = np.zeros(rows, np.int32)
        self.published = np.zeros(rows, np.int32)
        self.want = np.zeros(rows, np.uint8)
        self.limit = np.zeros(rows, np.int32)
        self.reading = np.zeros(rows, bool)
        self.reached = np.zeros(rows, np.int32)
        self.settled = np.zeros(rows, bool)
        self.tokens = np.zeros((rows, width), np.int32)

    def add(self, seq: Seq) -> int:
        row = super().add(seq)
        n, limit = len(seq.known), seq.prompt_len + seq.request.max_new
        height, width = self.tokens.shape
        need = min(limit, 2 * n + 256)                              # most answers end long before max_new
        if len(self.seqs) > height or need > width:
            self._widen(len(self.seqs), max(need, width if need <= width else min(2 * width, 2 * need)))
        self.tokens[row, :n] = seq.known
        self.limit[row] = limit
        self.reading[row] = seq.reads_open
        self.reached[row] = seq.reached
        self.settled[row] = False
        return row

    def _widen(self, height: int, width: int) -> None:
        bigger = np.zeros((height, width), np.int32)                # pages that no token touches are never committed
        bigger[: self.tokens.shape[0], : self.tokens.shape[1]] = self.tokens
        self.tokens = bigger

    def append(self, rows: np.ndarray, ids: np.ndarray) -> None:
        """One more token for each of `rows` (distinct)."""
        at = self.known[rows]
        if len(at) and int(at.max()) >= self.tokens.shape[1]:
            self._widen(len(self.tokens), 2 * self.tokens.shape[1])
        self.tokens[rows, at] = ids
        self.known[rows] = at + 1
