"""Every page on both executors: the native one within the noise of its arithmetic, and with the same bits however a sequence is cut."""

import numpy as np
import pytest
import tiny_models as tiny
from plain_forward import forward
from sequences import Sequence

from headwater.kernels import native, reference
from headwater.kernels.lower import NativeProgram
from headwater.kernels.reference import ReferenceProgram
from headwater.model.load.loader import load_model

needs_native = pytest.mark.skipif(not native.available(), reason="needs the native module")
DECODERS = sorted(set(tiny.CONFIGS) - {"bert"})


@pytest.mark.parametrize("name", sorted(tiny.CONFIGS))
def test_the_numpy_executor_computes_what_the_page_says(name, tmp_path):
    """Float32 with keys and values in float16."""
    model, ids = load_model(tiny.write_folder(name, tmp_path / name)), tiny.tokens(7, 40)
    out = Sequence(model, ReferenceProgram(model.program)).feed(ids)
    out = out if model.program.head is None else reference.logits(out, model.program.head)
    np.testing.assert_allclose(out, forward(model.program, ids), atol=0.02)


@needs_native
@pytest.mark.parametrize("how", ["as-is", "q8"])
@pytest.mark.parametrize("name", sorted(tiny.CONFIGS))
def test_the_native_executor_stays_within_its_arithmetic(name, how, tmp_path):
    """Float weights: keys and values in float16. Eight-bit weights: inputs of products are rounded to eight bits as well, which recurrent layers
    with generated weights amplify; the mean difference stays below a tenth of the spread."""
    model, ids = load_model(tiny.write_folder(name, tmp_path / name), weights=how), tiny.tokens(7, 40)
    out = Sequence(model, NativeProgram(model.program)).feed(ids)
    out = out if model.program.head is None else native.logits(out, model.program.head)
    expected = forward(model.program, ids)
    if how == "as-is":
        np.testing.assert_allclose(out, expected, atol=0.02)
    assert np.abs(out - expected).mean() < 0.1 * expected.std()


@needs_native
@pytest.mark.parametrize("name", DECODERS)
def test_bits_do_not_depend_on_how_a_sequence_is_cut(name, tmp_path):
    model, ids = load_model(tiny.write_folder(name, tmp_path / name), weights="q8"), tiny.tokens(9, 40)
    program = NativeProgram(model.program)
    whole = Sequence(model, program).feed(ids)
    for size in (1, 7, 16):
        cut = Sequence(model, program)
        rows = np.concatenate([cut.feed(ids[i : i + size]) for i in range(0, len(ids), size)])
        assert rows.tobytes() == whole.tobytes(), size


@needs_native
@pytest.mark.slow
def test_smollm2_knows_the_capital_of_france(smollm2):
    """Ids of 'The capital of France is'; the next token is ' Paris' by the reference library."""
    model = load_model(smollm2)
    row = Sequence(model, NativeProgram(model.program))
    out = native.logits(row.feed(np.array([504, 3575, 282, 4649, 314]))[-1:], model.program.head)
    assert int(out[0].argmax()) == 7042
