"""File formats and packed layouts: values are kept to the bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_samples import ALL_TYPES, BLOCK_TYPES, raw_tensor, width

from headwater.kernels import ggml, layouts, native
from headwater.kernels.weights import Weight, dequantise_ggml, pack, pack_floats, quantise


@pytest.mark.parametrize("name", BLOCK_TYPES)
def test_values_equal_those_of_the_gguf_package(name: str) -> None:
    gguf = pytest.importorskip("gguf", reason="needs the package gguf")
    raw = raw_tensor(np.random.default_rng(3), name, 5, width(name, 3))
    want = gguf.quants.dequantize(raw.reshape(5, -1), getattr(gguf.GGMLQuantizationType, name))
    assert np.array_equal(dequantise_ggml(name, raw, 5, width(name, 3)), want)


@settings(max_examples=20)
@given(name=st.sampled_from(BLOCK_TYPES), rows=st.integers(1, 40), blocks=st.integers(1, 5), seed=st.integers(0, 2**32))
def test_decoding_a_layout_gives_back_the_codes(name: str, rows: int, blocks: int, seed: int) -> None:
    raw = raw_tensor(np.random.default_rng(seed), name, rows, width(name, blocks))
    codes = ggml.decode(name, raw, rows, width(name, blocks))
    layout = layouts.LAYOUTS[layouts.LAYOUT_OF[name]]
    back = layouts.decode(layout, layouts.encode(layout, codes), rows, width(name, blocks))
    for field in ("q", "d", "minimum", "sub", "submin"):
        want, got = getattr(codes, field), getattr(back, field)
        assert (want is None and got is None) or np.array_equal(want, got), field


@settings(max_examples=40)
@given(name=st.sampled_from(ALL_TYPES), rows=st.integers(1, 40), blocks=st.integers(1, 5), seed=st.integers(0, 2**32))
def test_the_native_packer_writes_the_bytes_of_the_numpy_definition(name: str, rows: int, blocks: int, seed: int) -> None:
    if not native.available():
        pytest.skip("needs the native module (make native)")
    raw, cols = raw_tensor(np.random.default_rng(seed), name, rows, width(name, blocks)), width(name, blocks)
    layout = layouts.LAYOUTS[layouts.LAYOUT_OF[name]]
    if layout.is_float:
        want = layouts.encode_floats(layout, raw.reshape(rows, -1).view(layouts.FLOAT_TYPES[layout.name]))
    else:
        want = layouts.encode(layout, ggml.decode(name, raw, rows, cols))
    assert np.array_equal(pack(name, raw, rows, cols).data, want)


@pytest.mark.parametrize("name", ALL_TYPES)
def test_packing_keeps_every_value(name: str) -> None:
    raw = raw_tensor(np.random.default_rng(5), name, 21, width(name, 3))
    part = pack(name, raw, 21, width(name, 3))
    assert np.array_equal(part.dequantise(), dequantise_ggml(name, raw, 21, width(name, 3)))


@pytest.mark.parametrize("name", ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"])
def test_packed_weights_are_at_most_five_per_cent_larger_than_the_file(name: str) -> None:
    layout = layouts.LAYOUTS[layouts.LAYOUT_OF[name]]
    assert layout.nbytes(576, 1536) <= 1.05 * 576 * ggml.row_bytes(name, 1536)


def test_a_stacked_weight_is_its_parts_on_top_of_each_other() -> None:
    rng = np.random.default_rng(7)
    parts = [pack(name, raw_tensor(rng, name, rows, 256), rows, 256) for name, rows in (("Q4_1", 20), ("Q8_0", 3), ("F16", 16))]
    assert np.array_equal(Weight(parts).dequantise(), np.concatenate([p.dequantise() for p in parts]))


def test_gathered_rows_equal_the_dequantised_ones() -> None:
    rng = np.random.default_rng(8)
    weight = Weight([pack(name, raw_tensor(rng, name, rows, 256), rows, 256) for name, rows in (("Q6_K", 20), ("Q5_0", 3))])
    ids = np.array([22, 0, 19, 20, 0, 7], np.int32)
    assert np.array_equal(weight.gather(ids), weight.dequantise()[ids])


def test_eight_bit_quantisation_errs_by_at_most_half_a_step() -> None:
    x = np.random.default_rng(9).normal(0, 1, (20, 96)).astype(np.float32)
    step = np.abs(x.reshape(20, 3, 32)).max(axis=2, keepdims=True) / 127
    error = np.abs(quantise(x, "q8").dequantise() - x).reshape(20, 3, 32)
    assert (error <= 0.5 * step * 1.2).all()                       # a float16 scale moves a step by up to 2^-11, 127 of them by 6 %


def test_four_bit_quantisation_errs_by_at_most_half_a_step() -> None:
    x = np.random.default_rng(10).normal(0, 1, (20, 96)).astype(np.float32)
    blocks = x.reshape(20, 3, 32)
    step = (blocks.max(axis=2, keepdims=True) - blocks.min(axis=2, keepdims=True)) / 15
    assert (np.abs(quantise(x, "q4").dequantise().reshape(20, 3, 32) - blocks) <= 0.55 * step).all()


@pytest.mark.parametrize(("call", "words"), [
    (lambda: pack("Q4_7", np.zeros(18, np.uint8), 1, 32), "Q4_7 is not supported"),
    (lambda: pack("Q4_0", np.zeros(18, np.uint8), 1, 33), "33 columns do not fill blocks of 32"),
    (lambda: pack("Q4_0", np.zeros(17, np.uint8), 1, 32), "takes 18 bytes, the buffer has 17"),
    (lambda: quantise(np.full((1, 32), np.inf, np.float32), "q8"), "not finite"),
    (lambda: quantise(np.zeros((1, 32), np.float32), "q3"), "known: q8, q4"),
    (lambda: pack_floats(np.zeros((2, 2), np.int64)), "cannot pack int64"),
])
def test_wrong_input_is_named(call, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()
