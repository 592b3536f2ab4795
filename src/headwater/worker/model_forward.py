"""A loaded model with its memory: a recorded program replayed by the native executor, or by the numpy reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from headwater.core.errors import UserInputError
from headwater.core.executor import Caps
from headwater.core.kvspec import BLOCK_TOKENS, KVSpec
from headwater.kernels import attention, native, reference, signature
from headwater.kernels.lower import NativeProgram
from headwater.kernels.pattern import Pattern, PatternSpec
from headwater.kernels.program import Program, Replay, Step
from headwater.kernels.select import Selection, SelectSpec
from headwater.worker.branches import SCRATCH_BLOCKS
from headwater.worker.index_pool import IndexPool, rope_of
from headwater.worker.inputs import drop_rows
from headwater.worker.kvpool import KVPool
from headwater.worker.pattern_pool import PatternPool


class ModelForward:
    """program: what a family recorded, with or without an output matrix. vocabulary: its width. blocks per cache group and slots: as planned.

    context: most positions of a row; step_tokens: of a step. identity: hash of model and weights; together with kernel signature and KV
    format it names what bits depend on. plain: replay with numpy. select: how queries behind a step's borders read (a PatternSpec: those
    before them), `attend` its name.
    """

    def __init__(
        self, program: Program, spec: KVSpec, blocks: tuple[int, ...], slots: int, *, context: int, identity: str, step_tokens: int,
        vocabulary: int, plain: bool = False, select: SelectSpec | PatternSpec | None = None, attend: str = "",
    ) -> None:
        self._head = program.head
        self._plain = plain or not native.available()
        self._program = reference.ReferenceProgram(program) if self._plain else NativeProgram(program)
        self._pool = KVPool(spec, blocks, slots, SCRATCH_BLOCKS)
        formats = "+".join(g.format for g in spec.groups)
        kernels = "numpy" if self._plain else signature()
        self.caps = Caps(spec, blocks, slots, context, vocabulary, f"{identity}/{kernels}/{formats}", step_tokens)
        full = next((i for i, g in enumerate(spec.groups) if g.kind == "full"), None)
        self.index: IndexPool | None = None
        self.pattern: PatternPool | None = None
        if isinstance(select, PatternSpec):                         # keys and values of prompts carry the policy's name, generated ones are private
            self.caps = replace(self.caps, identity=f"{self.caps.identity}/{attend}", attend=attend, private=select.whole)
            if full is not None:
                self.pattern = PatternPool(select, full, spec.groups[full], blocks[full] + SCRATCH_BLOCKS)
        elif select is not None:                                    # where prompts select too, all keys and values carry the policy's name
            everywhere = select.everywhere
            self.caps = replace(self.caps, identity=f"{self.caps.identity}/{attend}") if everywhere else replace(self.caps, attend=attend)
            if full is not None:
                self.index = IndexPool(select, full, spec.groups[full], blocks[full] + SCRATCH_BLOCKS, context, rope_of(program, full))

    def hidden(self, step: Step) -> np.ndarray:
        """-> float32[n_reads, dim]."""
        self._pool.used(max((int(t.max(initial=-1)) for t in step.tables), default=-1))
        selection: Selection | Pattern | None = None
        if self.pattern is not None and step.border is not None:
            selection = self.pattern.plan(step)
        elif self.index is not None and step.border is not None:
            selection = self.index.plan(step)
            if selection is None:                                   # more segments than the index holds at once: half of the rows at a time
                rows = np.arange(len(step.row_start) - 1)
                return np.concatenate([self.hidden(drop_rows(step, half)) for half in (rows[len(rows) // 2 :], rows[: len(rows) // 2])])
        return self._program.run(step, self._pool.kv, self._pool.state if self.caps.spec.states else None, selection)

    def replay(self, rows: Replay) -> None:
        """Recurrent states take in the first tokens of rows that the last step kept."""
        self._program.replay(rows, self._pool.state)

    def take_seconds(self) -> dict[str, float]:
        """Wall seconds by kind of operation since the last call; the first call starts the clock. Empty without the native executor."""
        if not isinstance(self._program, NativeProgram):
            return {}
        self._program.timed(True)
        return self._program.take_seconds()

    def logits(self, hidden: np.ndarray) -> np.ndarray:
        """float32[n, dim] -> float32[n, vocabulary], raw."""
        if self._head is None:
            raise UserInputError("model: it has no output matrix; it embeds texts and cannot generate", "model")
        return reference.logits(hidden, self._head) if self._plain else native.logits(hidden, self._head)

    def label_logits(self, hidden: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """float32[dim], int32[k] -> float32[k]; natively only these rows of the output matrix are computed."""
        if self._plain or self._head is None:
            return self.logits(hidden[None])[0, labels]
        return native.logits(hidden[None], self._head, np.asarray(labels, np.int32))[0]

    def copy_blocks(self, copies: np.ndarray) -> None:
        """copies: int32[k, 3] of (group, from block, to block), in order."""
        for g, cache in enumerate(self._pool.kv):
            pairs = copies[copies[:, 0] == g, 1:]
            if not len(pairs):
                continue
            if self.index is not None and self.index.group == g:
                self.index.forget(pairs[:, 1])
            if self.pattern is not None and self.pattern.group == g:
                self.pattern.copy(pairs)
            if native.available():
                attention.copy_blocks(cache, pairs, self.caps.spec.groups[g].head_dim)
            else:
                for source, target in pairs.tolist():
                    cache.k[:, target], cache.v[:, target] = cache.k[:, source], cache.v[:, source]

    def copy_states(self, copies: np.ndarray) -> None:
        """copies: int32[k, 2] of (from slot, to slot); from -1 = zeros."""
        for array in self._pool.state.arrays.values():
            for source, target in copies.tolist():
                array[:, target] = array[:, source] if source >= 0 else 0.0

    def row_arrays(self, tokens: int) -> list[tuple[tuple[int, ...], np.dtype]]:
        """Per cache group the shapes of k and v for `tokens` positions, whole blocks; then of a pattern's samples."""
        n = -(-tokens // BLOCK_TOKENS)
        shapes = [((a.shape[0], n, *a.shape[2:]), a.dtype) for cache in self._pool.kv for a in (cache.k, cache.v)]
        return shapes if self.pattern is None else [*shapes, self.pattern.shape_of(tokens)]

    def export_row(self, tables: list[np.ndarray], tokens: int) -> list[np.ndarray]:
        """k and v of the row's blocks per cache group; then a pattern's samples."""
        n = -(-tokens // BLOCK_TOKENS)
        arrays = [a[:, table[:n]] for cache, table in zip(self._pool.kv, tables, strict=True) for a in (cache.k, cache.v)]
        return arrays if self.pattern is None else [*arrays, self.pattern.samples[:, tables[self.pattern.group][:n]]]

    def import_row(self, tables: list[np.ndarray], start: int, stop: int, arrays: list[np.ndarray]) -> None:
        """Whole blocks from the one of `start` on: they are the row's own, what lies before `start` in them is the same."""
        blocks = slice(start // BLOCK_TOKENS, -(-stop // BLOCK_TOKENS))
        for g, (cache, table) in enumerate(zip(self._pool.kv, tables, strict=True)):
            if self.index is not None and self.index.group == g:
                self.index.forget(table[blocks])
            cache.k[:, table[blocks]] = arrays[2 * g][:, blocks]
            cache.v[:, table[blocks]] = arrays[2 * g + 1][:, blocks]
        if self.pattern is not None:
            self.pattern.samples[:, tables[self.pattern.group][blocks]] = arrays[-1][:, blocks]

    def close(self) -> None:
        """Let go of cache and weights."""
        del self._pool, self._program, self._head
