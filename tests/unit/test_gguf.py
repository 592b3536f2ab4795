"""The GGUF reader on well-formed files: values, views, split models, files given in parts."""

import struct
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from weight_files import ARRAY, STRING, U16, U32, gguf_file, gguf_header, small_gguf

from headwater.core.errors import FormatError
from headwater.model.load.gguf import open_gguf


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.gguf"
    path.write_bytes(small_gguf())
    return path


def test_every_kind_of_metadata_value_comes_back(small):
    meta = open_gguf(small).metadata
    assert meta["general.architecture"] == "llama"
    assert (meta["x.f32"], meta["x.f64"], meta["x.i8"], meta["x.i16"], meta["x.i32"]) == (1.5, -2.25, -3, -300, -70000)
    assert (meta["x.i64"], meta["x.u8"], meta["x.u16"], meta["x.u64"], meta["x.yes"]) == (-(1 << 40), 200, 60000, 1 << 60, True)
    assert list(meta["tokenizer.ggml.tokens"]) == ["a", "é", "", "x" * 300, "😀"]
    assert meta["tokenizer.ggml.tokens"][-1] == "😀" and meta["tokenizer.ggml.tokens"].bytes_at(1) == "é".encode()
    assert meta["tokenizer.ggml.scores"].dtype == np.float32 and meta["tokenizer.ggml.scores"].tolist() == [0.5, -1.0]
    assert meta["x.flags"].tolist() == [True, False]
    assert meta["x.nested"][0].tolist() == [1, 2] and list(meta["x.nested"][1]) == ["p", "q"]


def test_tensors_are_described_in_numpy_order_and_read_without_a_copy(small):
    g = open_gguf(small)
    assert list(g.tensors) == ["a.weight", "b.weight", "c.weight", "d.weight"]
    assert [(t.ggml_type, t.shape, t.nbytes) for t in g.tensors.values()] == [
        ("F32", (3, 4), 48), ("Q8_0", (2, 32), 68), ("Q4_1", (64,), 40), ("Q4_K", (1, 256), 144),
    ]
    a = g.raw("a.weight")
    assert a.view(np.float32).reshape(3, 4)[2, 1] == 9.0
    assert not a.flags.owndata and not a.flags.writeable


def test_a_closed_file_keeps_its_metadata_and_a_living_view(small):
    g = open_gguf(small)
    view = g.raw("b.weight")
    g.close()
    assert view.tolist() == list(range(68))
    assert g.metadata["tokenizer.ggml.tokens"][1] == "é"
    with pytest.raises(ValueError):
        g.raw("a.weight")


def test_version_2_is_read(tmp_path):
    path = tmp_path / "v2.gguf"
    path.write_bytes(gguf_file([("k", U32, 7)], [("t", (2,), 0, bytes(8))], version=2))
    assert open_gguf(path).metadata == {"k": 7}


def test_an_alignment_other_than_32_is_obeyed(tmp_path):
    path = tmp_path / "a.gguf"
    tensors = [("t", (2,), 0, struct.pack("<2f", 1, 2)), ("u", (1,), 0, struct.pack("<f", 3))]
    path.write_bytes(gguf_file([("general.alignment", U32, 128)], tensors, alignment=128))
    g = open_gguf(path)
    assert g.tensors["u"].offset % 128 == 0 and g.raw("u").view(np.float32)[0] == 3.0


@settings(max_examples=60, deadline=None)
@given(cuts=st.lists(st.integers(1, len(small_gguf()) - 1), max_size=6, unique=True))
def test_a_file_in_parts_reads_like_the_joined_file(tmp_path_factory, cuts):
    folder, whole = tmp_path_factory.mktemp("parts"), small_gguf()
    edges = [0, *sorted(cuts), len(whole)]
    paths = []
    for i, (a, b) in enumerate(pairwise(edges)):
        paths.append(folder / f"part{i:02d}.bin")
        paths[-1].write_bytes(whole[a:b])
    (folder / "whole.gguf").write_bytes(whole)
    joined, parts = open_gguf(folder / "whole.gguf"), open_gguf(paths)
    assert parts.tensors == joined.tensors
    assert all(np.array_equal(parts.raw(n), joined.raw(n)) for n in joined.tensors)


def _write_split(folder, counts=(2, 2), order=(0, 1), total=2):
    for i in range(2):
        keys = [("split.no", U16, order[i]), ("split.count", U16, counts[i]), ("split.tensors.count", U32, total)]
        keys += [("general.architecture", STRING, "llama")] if i == 0 else []
        data = gguf_file(keys, [(f"t{i}", (4,), 0, struct.pack("<4f", *[i] * 4))])
        (folder / f"m-0000{i + 1}-of-00002.gguf").write_bytes(data)
    return folder / "m-00001-of-00002.gguf"


def test_a_split_model_opens_from_any_of_its_files(tmp_path):
    first = _write_split(tmp_path)
    for path in (first, tmp_path / "m-00002-of-00002.gguf", sorted(tmp_path.iterdir())):
        g = open_gguf(path)
        assert g.metadata["general.architecture"] == "llama"
        assert [g.raw(f"t{i}").view(np.float32)[0] for i in range(2)] == [0.0, 1.0]


def test_a_missing_split_file_is_named(tmp_path):
    first = _write_split(tmp_path)
    (tmp_path / "m-00002-of-00002.gguf").unlink()
    with pytest.raises(FormatError, match=r"m-00002-of-00002\.gguf is missing"):
        open_gguf(first)


@pytest.mark.parametrize(
    "wrong, message",
    [({"counts": (3, 3)}, "split.count"), ({"order": (1, 0)}, "split.no"), ({"total": 5}, "split.tensors.count")],
)
def test_split_keys_that_contradict_the_files_are_refused(tmp_path, wrong, message):
    with pytest.raises(FormatError, match=message):
        open_gguf(_write_split(tmp_path, **wrong))


def test_an_unsupported_type_fails_only_when_its_tensor_is_read(tmp_path):
    path = tmp_path / "iq.gguf"
    path.write_bytes(gguf_file([], [("odd", (256,), 16, bytes(66)), ("new", (4,), 99, b""), ("f", (2,), 0, bytes(8))]))
    g = open_gguf(path)
    assert len(g.raw("f")) == 8
    with pytest.raises(FormatError, match="'odd' has the unsupported type IQ2_XXS"):
        g.raw("odd")
    with pytest.raises(FormatError, match="'new' has the unsupported type type 99"):
        g.raw("new")


def test_a_string_array_that_is_not_utf8_names_the_item(tmp_path):
    path = tmp_path / "s.gguf"
    path.write_bytes(gguf_header([("toks", ARRAY, (STRING, ["ok", b"\xff\xfe"]))], []))
    tokens = open_gguf(path).metadata["toks"]
    assert tokens[0] == "ok" and tokens.bytes_at(1) == b"\xff\xfe"
    with pytest.raises(FormatError, match="'toks': item 1 is not UTF-8"):
        list(tokens)


@settings(max_examples=50, deadline=None)
@given(items=st.lists(st.integers(0, 600), max_size=60), seed=st.integers(0, 9))
def test_string_arrays_of_any_lengths_come_back(tmp_path_factory, items, seed):
    path = tmp_path_factory.mktemp("s") / "s.gguf"
    values = [chr(97 + (i + seed) % 26) * n for i, n in enumerate(items)]
    path.write_bytes(gguf_header([("toks", ARRAY, (STRING, values)), ("after", U32, 9)], []))
    meta = open_gguf(path).metadata
    assert meta["toks"].tolist() == values and [meta["toks"][i] for i in range(len(values))] == values and meta["after"] == 9
