"""From a recorded program to the native executor: where buffers live in the arena, which operations fuse, which rows are quantised while hot.

Fusions never change bits: a residual added in a product's epilogue, and rows quantised by the operation that makes them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headwater.kernels.kv_formats import NUMBERS as KV_FORMATS
from headwater.kernels.pattern import Pattern
from headwater.kernels.program import KVArrays, Op, Program, Replay, Rows, StateArrays, Step
from headwater.kernels.select import Selection

BLOCK_META_BYTES = 16                      # sizeof(BlockMeta) in csrc/linear/quant.h
SINGLE_USE_OUTPUTS = ("linear",)           # producers whose output an `add` may take over


class NativeProgram:
    """A program ready to run natively. Weights stay referenced; the scratch arena grows to the largest step seen."""

    def __init__(self, program: Program) -> None:
        from headwater.kernels.native import library

        if program.hidden is None:
            raise ValueError("the program has no hidden rows: finish the recording first")
        self._native = library().Program()
        ops = fuse_residuals(program)
        offsets = place(program, ops)
        quantised = _quantised_outputs(program, ops)
        for dim, per_read, offset in zip(program.dims, program.per_read, offsets, strict=True):
            self._native.buffer(dim, offset, per_read)
        for op in ops:
            weight, arrays, attrs = _describe(op)
            if op.output in quantised:
                attrs["quantise"] = True
            inputs = [(x.buffer, x.start, x.dim) for x in op.inputs]
            self._native.op(op.kind, inputs, op.output, weight, arrays, attrs)
        self._native.finish(program.hidden.buffer)
        self._head_dims = {op.attrs["spec"].group: op.attrs["spec"].head_dim for op in ops if op.kind == "attend"}

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch held now."""
        return int(self._native.scratch_bytes)

    def timed(self, on: bool) -> None:
        """Whether `run` keeps the wall time of every operation."""
        self._native.timed = on

    def take_seconds(self) -> dict[str, float]:
        """Seconds by kind of operation since the last call."""
        return dict(self._native.take_seconds())

    def run(
        self, step: Step, kv: list[KVArrays], states: StateArrays | None = None, selection: Selection | Pattern | None = None,
    ) -> np.ndarray:
        """-> float32[n_reads, dim]. One native call; keys, values and states of the step are written. selection: who reads only part of the cache.

        Raises ValueError when the step does not fit the model or the cache.
        """
        groups = [
            (a.k.view(np.uint8), a.v.view(np.uint8), KV_FORMATS[a.format], self._head_dims.get(i, 0), _ints(step.tables[i]))
            for i, a in enumerate(kv)
        ]
        return self._native.run(
            _ints(step.tokens), _ints(step.positions), _ints(step.row_start), _ints(step.reads),
            None if step.state_in is None else _ints(step.state_in), None if step.state_out is None else _ints(step.state_out),
            groups, {} if states is None else states.arrays, selection, None if step.keep is None else _ints(step.keep))

    def replay(self, rows: Replay, states: StateArrays) -> None:
        """Recurrent layers take in the first tokens of kept rows: the bits of running them again, and no weight is read."""
        self._native.replay(_ints(rows.which), _ints(rows.counts), _ints(rows.state_in), _ints(rows.state_out), states.arrays)


def _ints(a: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(a, np.int32)


def fuse_residuals(program: Program) -> list[Op]:
    """`add(x, linear(h))` -> one linear with residual x, where nobody else reads the product and x is ready before it."""
    made_at = {op.output: i for i, op in enumerate(program.ops)}
    uses = _use_counts(program)
    taken: dict[int, Op] = {}                  # index of a linear -> the fused operation
    dropped: set[int] = set()
    for i, op in enumerate(program.ops):
        if op.kind != "add":
            continue
        for product, other in (op.inputs[::-1], op.inputs):
            at = made_at[product.buffer]
            source = program.ops[at]
            whole = product.start == 0 and product.dim == program.dims[product.buffer]
            mine = source.kind in SINGLE_USE_OUTPUTS and whole and uses[product.buffer] == 1 and at not in taken
            if mine and not source.attrs["fine"] and made_at[other.buffer] < at:
                taken[at] = Op("linear", (*source.inputs, other), op.output, source.attrs)
                dropped.add(i)
                break
    return [taken.get(i, op) for i, op in enumerate(program.ops) if i not in dropped]


def _use_counts(program: Program) -> dict[int, int]:
    counts: dict[int, int] = dict.fromkeys(range(len(program.dims)), 0)
    for op in program.ops:
        for x in op.inputs:
            counts[x.buffer] += 1
    assert program.hidden is not None
    counts[program.hidden.buffer] += 1
    return counts


def place(program: Program, ops: list[Op]) -> list[int]:
    """Offsets in floats per row: buffers that are never alive together share memory (first fit in order of creation)."""
    assert program.hidden is not None
    last_use = {op.output: i for i, op in enumerate(ops)}
    for i, op in enumerate(ops):
        for x in op.inputs:
            last_use[x.buffer] = i
    last_use[program.hidden.buffer] = len(ops)
    offsets = [0] * len(program.dims)
    alive: list[tuple[int, int, int]] = []      # (start, end, buffer)
    for i, op in enumerate(ops):
        alive = [a for a in alive if last_use[a[2]] >= i]
        size = -(-program.dims[op.output] // 16) * 16
        kind = program.per_read[op.output]
        at = 0
        for start, end, _ in sorted(a for a in alive if program.per_read[a[2]] == kind):
            if start - at >= size:
                break
            at = max(at, end)
        offsets[op.output] = at
        alive.append((at, at + size, op.output))
    return offsets


def scratch_bytes(program: Program) -> tuple[int, int]:
    """Bytes of scratch that the native executor takes per token of a step and per row that is read (weights may be stand-ins)."""
    ops = fuse_residuals(program)
    offsets = place(program, ops)
    floats = [0, 0]
    for op in ops:
        kind = int(program.per_read[op.output])
        floats[kind] = max(floats[kind], offsets[op.output] + program.dims[op.output])
    widest = max((op.attrs["weight"].cols for op in ops if op.kind == "linear"), default=0)
    quantised = (widest + widest // 32 * BLOCK_META_BYTES) * (2 if any(op.attrs.get("fine") for op in ops) else 1)
    return 4 * floats[0] + quantised, 4 * floats[1]


ROW_OPS = (
    "embed", "position_embed", "rms_norm", "layer_norm", "silu_mul", "gelu_mul", "gelu", "add", "scale", "reads", "gated_rms_norm", "sigmoid_mul",
)


def _quantised_outputs(program: Program, ops: list[Op]) -> set[int]:
    """Outputs of row operations whose next reader is a linear over the whole row with a block-layout weight."""
    wanted: set[int] = set()
    for i, op in enumerate(ops):
        if op.kind not in ROW_OPS:
            continue
        for later in ops[i + 1 :]:
            if later.kind == "linear" and _quantises(later) and _is_whole(program, later.inputs[0], op.output):
                wanted.add(op.output)
                break
            if later.kind in ROW_OPS or later.kind == "linear":
                break                               # the one set of quantised rows may be overwritten before it is read
    return wanted


def _quantises(op: Op) -> bool:
    return any(not part.layout.is_float for part in op.attrs["weight"].parts)


def _is_whole(program: Program, x: Rows, buffer: int) -> bool:
    return x.buffer == buffer and x.start == 0 and x.dim == program.dims[buffer]


def _describe(op: Op) -> tuple[Any, list[np.ndarray], dict[str, Any]]:
    """(native weight or None, float arrays in the order of the reference's arguments, numbers) of an operation."""
    a = op.attrs
    if op.kind in ("embed", "linear"):
        bias = a.get("bias")
        return a["weight"].native, [] if bias is None else [_floats(bias)], {"fine": True} if a.get("fine") else {}
    if op.kind == "rope":
        spec = a["spec"]
        return None, [_floats(spec.inv_freq)], {"head_dim": a["head_dim"], "interleaved": spec.interleaved, "number": float(spec.mscale)}
    if op.kind == "attend":
        s = a["spec"]
        names = ("group", "layer", "heads", "kv_heads", "head_dim", "scale", "window", "softcap", "causal")
        return None, [], {name: getattr(s, name) for name in names}
    if op.kind == "gated_delta":
        s = a["spec"]
        fields = ("state", "layer", "key_heads", "value_heads", "key_dim", "value_dim")
        return None, [_floats(a["a_log"]), _floats(a["dt_bias"])], {name: getattr(s, name) for name in fields}
    if op.kind == "short_conv":
        return None, [_floats(a["weight"])], {"state": a["state"], "layer": a["layer"], "activation": a["activation"]}
    arrays = [_floats(a[name]) for name in ("weight", "bias") if a.get(name) is not None]
    return None, arrays, {"number": float(a.get("eps", a.get("factor", 0.0)))}


def _floats(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x, np.float32)
