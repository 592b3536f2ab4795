"""The safetensors reader on well-formed files: values, views, shards, folders."""

import json
import struct

import numpy as np
import pytest
from weight_files import safetensors_file, small_safetensors

from headwater.core.errors import FormatError
from headwater.model.load.safetensors import open_safetensors


def test_tensors_are_described_and_read_without_a_copy(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(small_safetensors())
    f = open_safetensors(path)
    assert f.metadata == {"format": "pt"}
    assert [(t.name, t.ggml_type, t.shape) for t in f.tensors.values()][:4] == [
        ("a.weight", "F32", (3, 4)), ("b.weight", "BF16", (2, 2)), ("c.ids", "I64", (2,)), ("d.scalar", "F16", ()),
    ]
    assert f.raw("c.ids").view(np.int64).tolist() == [5, -6]
    assert not f.raw("a.weight").flags.owndata


def test_an_8_bit_float_tensor_is_refused_by_name(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(small_safetensors())
    with pytest.raises(FormatError, match=r"'e\.f8' is stored as F8_E4M3"):
        open_safetensors(path).raw("e.f8")


def _sharded(folder, weight_map):
    for i in (1, 2):
        data = safetensors_file({f"t{i}": ("F32", [1], struct.pack("<f", i))})
        (folder / f"model-0000{i}-of-00002.safetensors").write_bytes(data)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 8}, "weight_map": weight_map}))
    return index


def test_shards_open_through_their_index_and_their_folder(tmp_path):
    index = _sharded(tmp_path, {"t1": "model-00001-of-00002.safetensors", "t2": "model-00002-of-00002.safetensors"})
    for path in (index, tmp_path):
        f = open_safetensors(path)
        assert [f.raw(n).view(np.float32)[0] for n in ("t1", "t2")] == [1.0, 2.0]


@pytest.mark.parametrize("name", ["../evil.safetensors", "/etc/x.safetensors", "a/b.safetensors", "model.bin", 7, "..", ""])
def test_an_index_cannot_point_out_of_its_folder(tmp_path, name):
    index = _sharded(tmp_path, {"t1": name})
    with pytest.raises(FormatError, match=r"weight_map\['t1'\]"):
        open_safetensors(index)


def test_a_tensor_that_the_index_promises_must_be_there(tmp_path):
    index = _sharded(tmp_path, {"t1": "model-00001-of-00002.safetensors", "t9": "model-00002-of-00002.safetensors"})
    with pytest.raises(FormatError, match="'t9'"):
        open_safetensors(index)


def test_a_tensor_in_two_shards_is_refused(tmp_path):
    for i in (1, 2):
        (tmp_path / f"{i}.safetensors").write_bytes(safetensors_file({"t": ("F32", [1], bytes(4))}))
    with pytest.raises(FormatError, match="'t' is also in another shard"):
        open_safetensors([tmp_path / "1.safetensors", tmp_path / "2.safetensors"])


def test_a_folder_without_weights_is_named(tmp_path):
    with pytest.raises(FormatError, match=r"neither model\.safetensors"):
        open_safetensors(tmp_path)
