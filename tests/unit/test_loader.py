"""Loading: what is missing, left over or mis-shaped is one line; nothing stays mapped; the plan says what loading will take."""

import gc
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny_models as tiny
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plain_forward import forward
from sequences import Sequence

from headwater.core.errors import FormatError, UserInputError
from headwater.kernels import native
from headwater.kernels.lower import NativeProgram
from headwater.kernels.ops import Attend
from headwater.kernels.weights import quantise
from headwater.model.load.loader import _quantise, load_model, open_source, plan_model
from headwater.model.load.tensors import MatrixPart


def changed(tmp_path: Path, name: str, **arrays) -> Path:
    """A hub folder whose tensors differ: None removes one. Keys use two underscores for a dot."""
    folder = tiny.write_folder(name, tmp_path / "changed")
    all_arrays = tiny.tensors(name) | {k.replace("__", "."): v for k, v in arrays.items()}
    tiny.write_safetensors(folder / "model.safetensors", {k: v for k, v in all_arrays.items() if v is not None})
    return folder


def test_a_missing_tensor_is_named_with_the_shape_it_should_have(tmp_path):
    with pytest.raises(FormatError, match=r"'model\.layers\.1\.mlp\.up_proj\.weight' \(96 x 64\) is missing"):
        load_model(changed(tmp_path, "llama", model__layers__1__mlp__up_proj__weight=None))


def test_a_tensor_of_another_shape_is_named_with_both_shapes(tmp_path):
    with pytest.raises(FormatError, match=r"'model\.norm\.weight' is 32; expected 64"):
        load_model(changed(tmp_path, "llama", model__norm__weight=np.ones(32, np.float32)))


def test_a_transposed_matrix_is_refused(tmp_path):
    with pytest.raises(FormatError, match=r"is 64 x 96; expected 96 x 64"):
        load_model(changed(tmp_path, "llama", model__layers__0__mlp__up_proj__weight=np.ones((64, 96), np.float32)))


def test_a_tensor_that_nobody_reads_is_refused_rather_than_lost(tmp_path):
    with pytest.raises(FormatError, match=r"'model\.layers\.0\.self_attn\.sinks' is not part of family llama"):
        load_model(changed(tmp_path, "llama", model__layers__0__self_attn__sinks=np.ones(4, np.float32)))


def test_biases_that_a_family_may_have_are_used(tmp_path):
    sizes = {"q": 64, "k": 32, "v": 32}
    biases = {f"model__layers__{i}__self_attn__{m}_proj__bias": np.full(n, 0.1, np.float32) for i in (0, 1) for m, n in sizes.items()}
    plain = forward(load_model(tiny.write_folder("llama", tmp_path / "plain")).program, tiny.tokens(1, 5))
    assert np.abs(forward(load_model(changed(tmp_path, "llama", **biases)).program, tiny.tokens(1, 5)) - plain).max() > 1e-3


def test_a_tensor_of_an_unsupported_kind_is_refused_before_anything_is_packed(tmp_path):
    folder = tiny.write_folder("llama", tmp_path / "m")
    raw = (folder / "model.safetensors").read_bytes()
    at = raw.index(b'"model.norm.weight": {"dtype": "F32"')
    (folder / "model.safetensors").write_bytes(raw[:at] + raw[at:].replace(b'"F32"', b'"I32"', 1))
    with pytest.raises(FormatError, match=r"'model\.norm\.weight' is stored as I32; supported: F32"):
        plan_model(folder)


def test_tied_models_share_one_weight_and_ignore_a_second_copy(tmp_path):
    model = load_model(changed(tmp_path, "qwen2", lm_head__weight=np.zeros((tiny.VOCAB, tiny.DIM), np.float32)))
    assert model.program.head.weight is model.program.ops[0].attrs["weight"]


def test_shards_with_an_index_load_like_one_file(tmp_path):
    one = load_model(tiny.write_folder("llama", tmp_path / "one"))
    three = load_model(tiny.write_folder("llama", tmp_path / "three", shards=3))
    np.testing.assert_array_equal(forward(one.program, tiny.tokens(1, 5)), forward(three.program, tiny.tokens(1, 5)))


def test_a_file_inside_a_folder_stands_for_the_folder(tmp_path):
    folder = tiny.write_folder("llama", tmp_path / "m")
    assert load_model(folder / "model.safetensors").identity == load_model(folder).identity


@pytest.mark.parametrize(("how", "layouts"), [("as-is", {"f32"}), ("q8", {"q8"}), ("q4", {"q4m", "q8"})])
def test_float_weights_are_quantised_on_request(how, layouts, tmp_path):
    model = load_model(tiny.write_folder("llama", tmp_path / "m"), weights=how)
    assert {layout for _, layout in model.report.encodings} == layouts


def test_eight_bit_weights_stay_close_to_the_float_ones(tmp_path):
    folder, ids = tiny.write_folder("llama", tmp_path / "m"), tiny.tokens(3, 30)
    exact, rounded = (forward(load_model(folder, weights=w).program, ids) for w in ("as-is", "q8"))
    assert 0 < np.abs(exact - rounded).max() < 0.1


@pytest.mark.parametrize("rows", [1, 16, 5000, 8192, 8200])
def test_strips_of_a_large_matrix_make_the_same_bytes_as_the_whole(rows):
    x = tiny.words(5, rows * 32).reshape(rows, 32).astype(np.float32)
    part = MatrixPart("m", "F32", rows, 32, x.nbytes)
    for how in ("q8", "q4"):
        whole = quantise(x, how)
        strips = _quantise(part, x.view(np.uint8).reshape(rows, -1), how)
        assert (strips.rows, strips.layout, strips.data.tobytes()) == (rows, whole.layout, whole.data.tobytes())


def test_an_unknown_weight_option_lists_the_known_ones(tmp_path):
    with pytest.raises(UserInputError, match="as-is, q8, q4"):
        load_model(tiny.write_folder("llama", tmp_path / "m"), weights="q3")


@pytest.mark.parametrize("name", sorted(tiny.CONFIGS))
@pytest.mark.parametrize("how", ["as-is", "q8", "q4"])
def test_the_plan_knows_the_weights_to_the_byte_before_loading(name, how, tmp_path):
    folder = tiny.write_folder(name, tmp_path / name)
    plan, model = plan_model(folder, how), load_model(folder, how)
    assert plan == model.plan
    assert plan.weights == model.report.weight_bytes


@pytest.mark.skipif(not native.available(), reason="needs the native module")
def test_the_plan_s_scratch_is_what_the_native_executor_takes(tmp_path):
    model = load_model(tiny.write_folder("llama", tmp_path / "m"), weights="q8")
    program = NativeProgram(model.program)
    Sequence(model, program).feed(tiny.tokens(1, 100))
    logits = 4 * tiny.VOCAB                                          # counted in the plan, kept elsewhere by the executor
    planned = 100 * (model.plan.scratch_per_token + model.plan.scratch_per_read - logits)
    assert 0.9 * planned < program.scratch_bytes < 1.1 * planned


def test_the_plan_counts_windows_and_whole_blocks(tmp_path):
    plan = plan_model(tiny.write_folder("gemma3", tmp_path / "m"))
    per_position = 2 * 2 * 16 * 2                                    # k and v, two heads of 16 channels, float16
    assert plan.kv_per_token == per_position
    assert plan.kv_bytes(1000) == per_position * (63 * 16 + 2 * 16)


def test_nothing_of_the_file_stays_mapped(tmp_path):
    model = load_model(tiny.write_folder("llama", tmp_path / "m"))
    gc.collect()
    assert "model.safetensors" not in Path("/proc/self/maps").read_text()
    assert model.program.ops


def test_progress_reaches_the_whole_once(tmp_path):
    seen: list[tuple[int, int, str]] = []
    load_model(tiny.write_folder("llama", tmp_path / "m"), progress=lambda *step: seen.append(step))
    assert [done for done, _, _ in seen] == sorted({done for done, _, _ in seen})
    assert seen[-1][0] == seen[-1][1]


def test_every_layer_has_a_place_of_its_own_in_the_cache(tmp_path):
    for name in ("llama", "gemma3", "hybrid", "mistral"):
        model = load_model(tiny.write_folder(name, tmp_path / name))
        places = [(s.group, s.layer) for op in model.program.ops for s in op.attrs.values() if isinstance(s, Attend)]
        expected = [(g, i) for g, group in enumerate(model.kvspec.groups) for i in range(group.layers)]
        assert sorted(places) == expected


def test_the_identity_tells_weights_and_options_apart(tmp_path):
    folder = tiny.write_folder("llama", tmp_path / "m")
    other = changed(tmp_path, "llama", model__norm__weight=np.ones(64, np.float32))
    assert len({load_model(folder).identity, load_model(folder, "q8").identity, load_model(other).identity}) == 3


@pytest.mark.parametrize(("write", "says"), [
    (lambda f: (f / "config.json").unlink(), "no config.json"),
    (lambda f: (f / "config.json").write_text("{"), "config.json: not valid JSON"),
    (lambda f: (f / "config.json").write_text("[1]"), "not an object"),
    (lambda f: (f / "model.safetensors").unlink(), "neither model.safetensors"),
    (lambda f: (f / "generation_config.json").write_text("nan,"), "generation_config.json"),
])
def test_a_broken_folder_is_one_line(write, says, tmp_path):
    folder = tiny.write_folder("llama", tmp_path / "m")
    write(folder)
    with pytest.raises(UserInputError, match=says) as e:
        load_model(folder)
    assert "\n" not in str(e.value)


def test_generation_settings_of_a_folder_come_along(tmp_path):
    folder = tiny.write_folder("llama", tmp_path / "m")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [1, 2]}))
    assert load_model(folder).generation["eos_token_id"] == [1, 2]


def test_a_path_that_does_not_exist_is_one_line(tmp_path):
    with pytest.raises(UserInputError, match="does not exist"):
        load_model(tmp_path / "none.gguf")


def test_smollm2_loads_without_growing(smollm2):
    plan = plan_model(smollm2)
    with open_source(smollm2) as source:
        assert source.file.nbytes * 1.05 > plan.weights > 96_000_000
        assert source.config.kvspec().bytes_per_token == 23_040


_MEASURE = """
import sys
from headwater.model.load.loader import load_model, plan_model
import headwater.kernels.native as native
native.available()

def anonymous():
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("RssAnon"))

plan = plan_model(sys.argv[1])
before = anonymous()
model = load_model(sys.argv[1])
print(anonymous() - before, plan.weights + plan.vectors)
"""


def test_loading_takes_the_memory_that_the_plan_says(smollm2):
    """Within ten per cent: tokenizer metadata and the program are not in the plan."""
    done = subprocess.run([sys.executable, "-c", _MEASURE, str(smollm2)], capture_output=True, text=True, check=True)
    taken, planned = map(int, done.stdout.split())
    assert abs(taken - planned) < 0.1 * planned


@pytest.fixture(scope="module")
def whole_file(tmp_path_factory):
    """Bytes of a valid small GGUF, and where its tensor data starts."""
    data = tiny.write_llama_gguf("llama3", tmp_path_factory.mktemp("whole") / "m.gguf").read_bytes()
    return data, data.rindex(b"rope_freqs.weight")


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_file_with_changed_bytes_loads_or_is_one_line(whole_file, tmp_path, data):
    """Whatever the container reader lets through, the loader must not trip over."""
    whole, table_end = whole_file
    changed = bytearray(whole)
    for at, value in data.draw(st.lists(st.tuples(st.integers(4, table_end), st.integers(0, 255)), min_size=1, max_size=4)):
        changed[at] = value
    path = tmp_path / "changed.gguf"
    path.write_bytes(changed)
    try:
        load_model(path)
    except UserInputError as e:
        assert "\n" not in str(e)
        assert len(str(e)) < 1000
