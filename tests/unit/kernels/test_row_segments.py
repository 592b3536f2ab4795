"""Long steps run row by row between attentions: the same bits as short ones, whatever the threads, and times by kind of operation."""

from collections.abc import Iterator

import numpy as np
import pytest
from test_kernel_program import DIM, HEAD_DIM, HEADS, KV_HEADS, VOCAB, hybrid, llama, matrix, run_in_chunks, vector

from headwater.kernels import native, ops
from headwater.kernels.lower import NativeProgram, scratch_bytes
from headwater.kernels.program import Program

FF = 256                                                            # 2 x 256 floats a row: the width whose rows are kept apart
TOKENS = np.random.default_rng(51).integers(0, VOCAB, 330)


@pytest.fixture
def threads() -> Iterator[None]:
    before = native.library().threads() if native.available() else 0
    yield
    if before:
        native.library().set_threads(before)


def fine_and_wide() -> Program:
    """Remainders of activations, buffers that live across an attention, and a wide gate."""
    rng = np.random.default_rng(52)
    program = Program()
    rope = ops.Rope((10000.0 ** (-np.arange(0, HEAD_DIM, 2) / HEAD_DIM)).astype(np.float32))
    x = ops.embed(program, matrix(rng, VOCAB, DIM, "Q8_0"))
    for layer in range(2):
        h = ops.rms_norm(x, vector(rng, DIM), 1e-5)
        qkv = ops.linear(h, matrix(rng, (HEADS + 2 * KV_HEADS) * HEAD_DIM, DIM), fine=True)
        q, k, v = ops.split(qkv, *(n * HEAD_DIM for n in (HEADS, KV_HEADS, KV_HEADS)))
        a = ops.attend(ops.rope(q, HEAD_DIM, rope), ops.rope(k, HEAD_DIM, rope), v, ops.Attend(0, layer, HEADS, KV_HEADS, HEAD_DIM, HEAD_DIM**-0.5))
        x = x + ops.linear(a, matrix(rng, DIM, HEADS * HEAD_DIM, "Q5_1"))
        h = ops.rms_norm(x, vector(rng, DIM), 1e-5)
        x = x + ops.linear(ops.silu_mul(ops.linear(h, matrix(rng, 2 * FF, DIM))), matrix(rng, DIM, FF, "Q8_0"))
    program.hidden = ops.rms_norm(ops.reads(x), vector(rng, DIM), 1e-5)
    return program


@pytest.mark.parametrize("make", [llama, hybrid, fine_and_wide])
def test_a_long_step_has_the_bits_of_short_ones(isa: str, threads: None, make) -> None:
    recurrent = make is hybrid
    model = NativeProgram(make())
    tokens = TOKENS[:130] if isa == "portable" else TOKENS
    native.library().set_threads(2)
    short = run_in_chunks(model, tokens, [50] * (len(tokens) // 50) + [len(tokens) % 50], with_states=recurrent)
    for count in (1, 2, 3):
        native.library().set_threads(count)
        assert np.array_equal(run_in_chunks(model, tokens, [len(tokens)], with_states=recurrent), short), count


def test_the_bits_do_not_depend_on_the_instruction_set(threads: None) -> None:
    from kernel_samples import isas

    lib, answers = native.library(), []
    before = lib.isa()
    for name in isas():
        lib.set_isa(name)
        answers.append(run_in_chunks(NativeProgram(fine_and_wide()), TOKENS[:150], [150]))
    lib.set_isa(before)
    assert all(np.array_equal(a, answers[0]) for a in answers)


def test_a_long_step_takes_no_more_scratch_than_planned(isa: str) -> None:
    program = llama()
    model = NativeProgram(program)
    run_in_chunks(model, TOKENS, [len(TOKENS)])
    per_token, per_read = scratch_bytes(program)
    threads = native.library().threads()
    assert model.scratch_bytes <= len(TOKENS) * (per_token + per_read) + threads * 80 * (per_token + per_read) + 4096


def test_times_name_the_operations_that_ran(isa: str) -> None:
    model = NativeProgram(llama())
    run_in_chunks(model, TOKENS[:20], [20])
    assert model.take_seconds() == {}                               # nothing is kept unless asked
    model.timed(True)
    run_in_chunks(model, TOKENS, [len(TOKENS)])
    seconds = model.take_seconds()
    assert {"linear", "attend", "rms_norm", "rope", "silu_mul", "embed"} <= set(seconds) and min(seconds.values()) > 0
    assert model.take_seconds() == {}
