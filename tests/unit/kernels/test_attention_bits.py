"""Same tokens, same bits: attention must not see chunking, batch, forks, threads or instruction sets (ADR 001)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.kernels import attention, native
from headwater.kernels import reference_attention as reference
from headwater.kernels.ops import Attend, Rope
from headwater.kernels.program import BLOCK_TOKENS, KVArrays, Step

pytestmark = pytest.mark.skipif(not native.available(), reason="needs the native module")

LENGTH = 530


class Sequence:
    """Random q, k, v of one sequence of `length` tokens."""

    def __init__(self, seed: int, spec: Attend, length: int = LENGTH) -> None:
        rng = np.random.default_rng(seed)
        self.q = rng.normal(size=(length, spec.heads * spec.head_dim)).astype(np.float32)
        self.k = rng.normal(size=(length, spec.kv_heads * spec.head_dim)).astype(np.float32)
        self.v = rng.normal(size=(length, spec.kv_heads * spec.head_dim)).astype(np.float32)


def run(parts: list[tuple[Sequence, int, int, np.ndarray]], cache: KVArrays, spec: Attend) -> list[np.ndarray]:
    """One step of rows (sequence, first, last, table row); returns the outputs of each row."""
    positions = np.concatenate([np.arange(a, b, dtype=np.int32) for _, a, b, _ in parts])
    row_start = np.cumsum([0, *(b - a for _, a, b, _ in parts)]).astype(np.int32)
    step = Step(np.zeros_like(positions), positions, row_start, np.zeros(0, np.int32), [np.stack([t for *_, t in parts])])
    out = attention.attend(step, cache, spec, *(np.concatenate([getattr(s, x)[a:b] for s, a, b, _ in parts]) for x in "qkv"))
    return np.split(out, row_start[1:-1])


def table(first: int, length: int = LENGTH, width: int = LENGTH // BLOCK_TOKENS + 1) -> np.ndarray:
    row = np.full(width, -1, np.int32)
    row[:-(-length // BLOCK_TOKENS)] = first + np.arange(-(-length // BLOCK_TOKENS))
    return row


def whole(sequence: Sequence, spec: Attend, format: str = "f16", length: int = LENGTH) -> np.ndarray:
    cache = reference.new_cache(1, 50, spec.kv_heads, spec.head_dim, format)
    return run([(sequence, 0, length, table(0))], cache, spec)[0]


SPECS = [Attend(0, 0, 9, 3, 64, 0.125), Attend(0, 0, 4, 1, 80, 0.1, window=100), Attend(0, 0, 2, 2, 24, 0.2, softcap=10.0)]
CODED = [SPECS[0], Attend(0, 0, 4, 1, 96, 0.1, window=100), Attend(0, 0, 8, 2, 128, 0.1, softcap=10.0)]   # widths that i16 holds
CASES = [(s, f) for f in ("f16", "q8") for s in SPECS] + [(s, "i16") for s in CODED]


@pytest.fixture(autouse=True)
def restore() -> Iterator[None]:
    threads, isa = native.library().threads(), native.library().isa()
    yield
    native.library().set_threads(threads)
    native.library().set_isa(isa)


@pytest.mark.parametrize("spec, format", CASES)
@pytest.mark.parametrize("size", [1, 7, 64, 256])
def test_chunks_of_any_size_give_the_bits_of_the_whole(spec: Attend, size: int, format: str) -> None:
    sequence = Sequence(1, spec)
    cache = reference.new_cache(1, 50, spec.kv_heads, spec.head_dim, format)
    pieces = [run([(sequence, a, min(a + size, LENGTH), table(3))], cache, spec)[0] for a in range(0, LENGTH, size)]
    np.testing.assert_array_equal(np.concatenate(pieces), whole(sequence, spec, format))


@pytest.mark.parametrize("spec, format", CASES)
@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_threads_do_not_change_bits(spec: Attend, threads: int, format: str) -> None:
    sequence = Sequence(2, spec)
    native.library().set_threads(threads)
    cache = reference.new_cache(1, 50, spec.kv_heads, spec.head_dim, format)
    prompt = run([(sequence, 0, LENGTH - 1, table(0))], cache, spec)[0]
    last = run([(sequence, LENGTH - 1, LENGTH, table(0))], cache, spec)[0]
    native.library().set_threads(1)
    np.testing.assert_array_equal(np.concatenate([prompt, last]), whole(sequence, spec, format))


@pytest.mark.parametrize("spec, format", CASES)
@pytest.mark.parametrize("isa", ["portable", "avx2", "avx512"])
def test_instruction_sets_give_the_same_bits(spec: Attend, isa: str, format: str) -> None:
    sequence = Sequence(3, spec, 300)
    best = whole(sequence, spec, format, 300)
    turn = Rope((10_000.0 ** (-np.arange(12) / 12)).astype(np.float32), True)
    positions = np.arange(300, dtype=np.int32) * 997
    turned = attention.rope(sequence.k, positions, spec.head_dim, turn)
    try:
        native.library().set_isa(isa)
    except ValueError as missing:
        pytest.skip(str(missing))
    np.testing.assert_array_equal(whole(sequence, spec, format, 300), best)
    np.testing.assert_array_equal(attention.rope(sequence.k, positions, spec.head_dim, turn), turned)


@pytest.mark.parametrize("spec, format", CASES)
def test_forks_of_a_shared_prefix_give_the_bits_of_linear_runs(spec: Attend, format: str) -> None:
    prefix = 395                                                    # in the middle of a block: each fork owns a copy of it
    cache = reference.new_cache(1, 80, spec.kv_heads, spec.head_dim, format)
    parent, forks = Sequence(4, spec), [Sequence(10 + i, spec) for i in range(5)]
    run([(parent, 0, prefix, table(0))], cache, spec)
    shared, parts, linear = prefix // BLOCK_TOKENS, [], []
    for i, fork in enumerate(forks):
        row = table(0, prefix)
        row[shared:shared + 3] = 45 + 4 * i + np.arange(3)
        attention.copy_blocks(cache, np.array([[shared, row[shared]]]), spec.head_dim)
        parts.append((fork, prefix, prefix + 9 + i, row))
        joined = Sequence(0, spec)
        for name in "qkv":
            setattr(joined, name, np.concatenate([getattr(parent, name)[:prefix], getattr(fork, name)[prefix:]]))
        linear.append(whole(joined, spec, format)[prefix:prefix + 9 + i])
    order = [3, 0, 4, 2, 1]
    for i, out in zip(order, run([parts[i] for i in order], cache, spec), strict=True):
        np.testing.assert_array_equal(out, linear[i])


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_mix_of_rows_gives_the_bits_of_each_row_alone(data: st.DataObject) -> None:
    spec, format = data.draw(st.sampled_from(CASES))
    native.library().set_threads(data.draw(st.integers(1, 3)))
    count = data.draw(st.integers(1, 6))
    lengths = [data.draw(st.integers(1, LENGTH)) for _ in range(count)]
    firsts = [data.draw(st.sampled_from([n - 1, max(0, n - 5), n // 2, 0])) for n in lengths]
    sequences = [Sequence(100 + i, spec) for i in range(count)]
    cache = reference.new_cache(1, 44 * count, spec.kv_heads, spec.head_dim, format)
    tables = [table(44 * i) for i in range(count)]
    for sequence, first, row in zip(sequences, firsts, tables, strict=True):
        if first:
            run([(sequence, 0, first, row)], cache, spec)
    outs = run([(s, a, b, t) for s, a, b, t in zip(sequences, firsts, lengths, tables, strict=True)], cache, spec)
    for sequence, first, length, out in zip(sequences, firsts, lengths, outs, strict=True):
        np.testing.assert_array_equal(out, whole(sequence, spec, format, length)[first:])
