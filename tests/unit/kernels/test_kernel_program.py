"""Recorded programs: the native executor against the reference, and the same bits for the same tokens however they are cut and mixed."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_samples import raw_tensor

from headwater.kernels import native, ops, reference
from headwater.kernels.lower import NativeProgram, place, scratch_bytes
from headwater.kernels.program import Head, KVArrays, Program, StateArrays, Step
from headwater.kernels.weights import Weight, pack

VOCAB, DIM, HEADS, KV_HEADS, HEAD_DIM, FF, LAYERS, BLOCKS = 50, 64, 4, 2, 16, 96, 2, 40
KEY_HEADS, VALUE_HEADS, KEY_DIM, VALUE_DIM, TAPS = 2, 4, 16, 16, 4
CONV = 2 * KEY_HEADS * KEY_DIM + VALUE_HEADS * VALUE_DIM


def matrix(rng: np.random.Generator, rows: int, cols: int, name: str = "Q4_1") -> Weight:
    raw = raw_tensor(rng, name, rows, cols)
    return Weight(pack(name, raw, rows, cols))


def vector(rng: np.random.Generator, n: int) -> np.ndarray:
    return (1 + 0.1 * rng.normal(size=n)).astype(np.float32)


def llama(seed: int = 31) -> Program:
    """A small llama-shaped model with mixed encodings, a bias, q/k norms and a sliding window in the second layer."""
    rng = np.random.default_rng(seed)
    program = Program()
    embedding = matrix(rng, VOCAB, DIM, "Q8_0")
    rope = ops.Rope((10000.0 ** (-np.arange(0, HEAD_DIM, 2) / HEAD_DIM)).astype(np.float32))
    x = ops.embed(program, embedding)
    for layer in range(LAYERS):
        h = ops.rms_norm(x, vector(rng, DIM), 1e-5)
        qkv = Weight([matrix(rng, HEADS * HEAD_DIM, DIM).parts[0], matrix(rng, KV_HEADS * HEAD_DIM, DIM, "Q5_0").parts[0],
                      matrix(rng, KV_HEADS * HEAD_DIM, DIM, "F16").parts[0]])
        q, k, v = ops.split(ops.linear(h, qkv, rng.normal(0, 0.1, qkv.rows).astype(np.float32)), *(n * HEAD_DIM for n in (HEADS, KV_HEADS, KV_HEADS)))
        q, k = ops.rope(ops.rms_norm(q, vector(rng, HEAD_DIM), 1e-6), HEAD_DIM, rope), ops.rope(k, HEAD_DIM, rope)
        a = ops.attend(q, k, v, ops.Attend(0, layer, HEADS, KV_HEADS, HEAD_DIM, HEAD_DIM**-0.5, window=0 if layer == 0 else 9))
        if layer == LAYERS - 1:
            x, a = ops.reads(x), ops.reads(a)
        x = x + ops.linear(a, matrix(rng, DIM, HEADS * HEAD_DIM))
        h = ops.rms_norm(x, vector(rng, DIM), 1e-5)
        x = x + ops.linear(ops.silu_mul(ops.linear(h, matrix(rng, 2 * FF, DIM))), matrix(rng, DIM, FF, "Q8_0"))
    program.hidden = ops.rms_norm(x * 1.5, vector(rng, DIM), 1e-5)
    program.head = Head(embedding, softcap=30.0)
    return program


def hybrid(seed: int = 32) -> Program:
    """One gated-delta layer with its short convolution."""
    rng = np.random.default_rng(seed)
    program = Program()
    x = ops.embed(program, matrix(rng, VOCAB, DIM, "Q8_0"))
    keys, values = KEY_HEADS * KEY_DIM, VALUE_HEADS * VALUE_DIM
    mix = Weight([matrix(rng, n, DIM, "F32").parts[0] for n in (CONV, values, VALUE_HEADS, VALUE_HEADS)])
    qkv, gate, beta, decay = ops.split(ops.linear(x * 0.2, mix), CONV, values, VALUE_HEADS, VALUE_HEADS)
    qkv = ops.short_conv(qkv, rng.normal(0, 0.5, (CONV, TAPS)).astype(np.float32), "conv", 0, activation=True)
    q, k, v = ops.split(qkv, keys, keys, values)
    a_log, dt_bias = (rng.normal(mean, 0.3, VALUE_HEADS).astype(np.float32) for mean in (-1, 0))
    out = ops.gated_delta(q, k, v, beta, decay, a_log, dt_bias, ops.GatedDelta("delta", 0, KEY_HEADS, VALUE_HEADS, KEY_DIM, VALUE_DIM))
    out = ops.sigmoid_mul(ops.gated_rms_norm(out, gate, vector(rng, VALUE_DIM), 1e-5), gate)
    program.hidden = ops.reads(out)
    return program


class Memory:
    """A cache and states with a block table per row; row r owns blocks r, r + rows, ..."""

    def __init__(self, rows: int) -> None:
        shape = (LAYERS, BLOCKS, KV_HEADS)
        self.kv = [KVArrays(np.zeros((*shape, HEAD_DIM, 16), np.float16), np.zeros((*shape, 16, HEAD_DIM), np.float16))]
        self.states = StateArrays({"conv": np.zeros((1, rows, CONV, TAPS - 1), np.float32),
                                   "delta": np.zeros((1, rows, VALUE_HEADS, VALUE_DIM, KEY_DIM), np.float32)})
        width = BLOCKS // rows
        self.table = (np.arange(rows)[:, None] + rows * np.arange(width)[None, :]).astype(np.int32)

    def step(self, parts: list[tuple[int, int, np.ndarray]]) -> Step:
        """parts: (row, start, tokens); every token is read."""
        starts = np.cumsum([0] + [len(t) for _, _, t in parts]).astype(np.int32)
        rows = np.array([r for r, _, _ in parts])
        return Step(
            np.concatenate([t for _, _, t in parts]).astype(np.int32),
            np.concatenate([np.arange(s, s + len(t)) for _, s, t in parts]).astype(np.int32),
            starts, np.arange(starts[-1], dtype=np.int32), [self.table[rows]],
            np.array([-1 if s == 0 else r for r, s, _ in parts], np.int32), rows.astype(np.int32))


def run_in_chunks(model, tokens: np.ndarray, sizes: list[int], *, with_states: bool = False) -> np.ndarray:
    memory, outs, at = Memory(1), [], 0
    for size in sizes:
        step = memory.step([(0, at, tokens[at : at + size])])
        outs.append(model.run(step, memory.kv, memory.states if with_states else None))
        at += size
    return np.concatenate(outs)


TOKENS = np.random.default_rng(33).integers(0, VOCAB, 60)


def test_native_hidden_rows_are_near_the_exact_reference(isa: str) -> None:
    got = run_in_chunks(NativeProgram(llama()), TOKENS, [60])
    want = run_in_chunks(reference.ReferenceProgram(llama(), "exact"), TOKENS, [60])
    # the same integer products; norms, attention and gates differ by float32 rounding, and an activation on the edge of a code may flip
    assert np.linalg.norm(got - want) < 3e-3 * np.linalg.norm(want)


def test_native_hidden_rows_are_near_the_float_reference(isa: str) -> None:
    got = run_in_chunks(NativeProgram(llama()), TOKENS, [60])
    want = run_in_chunks(reference.ReferenceProgram(llama(), "float"), TOKENS, [60])
    assert np.linalg.norm(got - want) < 0.05 * np.linalg.norm(want)


def test_a_recurrent_layer_is_near_the_reference(isa: str) -> None:
    got = run_in_chunks(NativeProgram(hybrid()), TOKENS, [60], with_states=True)
    want = run_in_chunks(reference.ReferenceProgram(hybrid()), TOKENS, [60], with_states=True)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(1, 59), max_size=8), recurrent=st.booleans())
def test_any_chunking_gives_the_same_bits(cuts: list[int], recurrent: bool) -> None:
    if not native.available():
        pytest.skip("needs the native module (make native)")
    model = NativeProgram(hybrid() if recurrent else llama())
    edges = [0, *sorted(set(cuts)), 60]
    sizes = [b - a for a, b in pairwise(edges)]
    whole = run_in_chunks(model, TOKENS, [60], with_states=recurrent)
    assert np.array_equal(run_in_chunks(model, TOKENS, sizes, with_states=recurrent), whole)


@pytest.mark.parametrize("recurrent", [False, True])
def test_a_row_has_the_same_bits_alone_and_in_a_batch(isa: str, recurrent: bool) -> None:
    model = NativeProgram(hybrid() if recurrent else llama())
    rng = np.random.default_rng(34)
    prompts = [rng.integers(0, VOCAB, n) for n in (17, 1, 30, 5)]
    memory = Memory(4)
    batch = model.run(memory.step([(r, 0, p) for r, p in enumerate(prompts)]), memory.kv, memory.states if recurrent else None)
    start = 0
    for prompt in prompts:
        alone = run_in_chunks(model, prompt, [len(prompt)], with_states=recurrent)
        assert np.array_equal(batch[start : start + len(prompt)], alone)
        start += len(prompt)


def test_bits_do_not_depend_on_the_threads(isa: str) -> None:
    model, lib = NativeProgram(llama()), native.library()
    before, answers = lib.threads(), []
    for threads in (1, 2, 3):
        lib.set_threads(threads)
        answers.append(run_in_chunks(model, TOKENS, [60]))
    lib.set_threads(before)
    assert np.array_equal(answers[0], answers[1])
    assert np.array_equal(answers[0], answers[2])


def test_bits_do_not_depend_on_the_instruction_set() -> None:
    if not native.available():
        pytest.skip("needs the native module (make native)")
    from kernel_samples import isas

    lib = native.library()
    before, answers = lib.isa(), []
    for isa in isas():
        lib.set_isa(isa)
        answers.append((run_in_chunks(NativeProgram(llama()), TOKENS, [60]), run_in_chunks(NativeProgram(hybrid()), TOKENS, [60], with_states=True)))
    lib.set_isa(before)
    assert all(np.array_equal(a, answers[0][0]) and np.array_equal(b, answers[0][1]) for a, b in answers)


def test_logits_of_label_rows_equal_those_of_the_whole_head(isa: str) -> None:
    head = llama().head
    assert head is not None
    hidden = np.random.default_rng(35).normal(0, 1, (3, DIM)).astype(np.float32)
    ids = np.array([7, 49, 0], np.int32)
    whole = native.logits(hidden, head)
    assert np.array_equal(native.logits(hidden, head, ids), whole[:, ids])
    np.testing.assert_allclose(whole, reference.logits(hidden, head, "exact"), rtol=1e-5, atol=1e-5)


def test_buffers_that_live_together_do_not_share_memory() -> None:
    program = llama()
    offsets = place(program, program.ops)
    last = {op.output: i for i, op in enumerate(program.ops)} | {x.buffer: i for i, op in enumerate(program.ops) for x in op.inputs}
    made = {op.output: i for i, op in enumerate(program.ops)}
    for a in sorted(made):
        for b, at in made.items():
            if a < b and program.per_read[a] == program.per_read[b] and at <= last[a]:
                assert offsets[a] + program.dims[a] <= offsets[b] or offsets[b] + program.dims[b] <= offsets[a]


def test_the_scratch_plan_is_what_a_run_takes() -> None:
    if not native.available():
        pytest.skip("needs the native module (make native)")
    model = NativeProgram(llama())
    run_in_chunks(model, TOKENS, [60])
    per_token, per_read = scratch_bytes(llama())
    assert 60 * (per_token + per_read) <= model.scratch_bytes <= 60 * (per_token + per_read) + 4096   # all rows are read here; alignment on top


@pytest.mark.parametrize(("field", "value", "words"), [
    ("tokens", np.array([VOCAB], np.int32), "tokens"),
    ("reads", np.array([1], np.int32), "reads"),
    ("row_start", np.array([0, 2], np.int32), "row_start"),
    ("tables", [np.array([[BLOCKS]], np.int32)], "beyond the cache"),
])
def test_a_step_that_does_not_fit_is_refused(field: str, value: object, words: str) -> None:
    if not native.available():
        pytest.skip("needs the native module (make native)")
    memory = Memory(1)
    step = memory.step([(0, 0, np.array([3]))])
    setattr(step, field, value)
    with pytest.raises(ValueError, match=words):
        NativeProgram(llama()).run(step, memory.kv)
