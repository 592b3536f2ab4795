"""Peers: which variants a bench runs, and the files in other encodings that are made for them."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from headwater.bench.install import PEERS, parse_peer, prepare
from headwater.bench.peer import SCRIPTS, Peer, ours
from headwater.core.errors import UserInputError
from headwater.model.load.gguf import open_gguf

gguf = pytest.importorskip("gguf", reason="needs the gguf package (headwater[test])")


def ready(folder: Path, name: str) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / ".ready").touch()


def test_llama_cpp_runs_every_format_with_and_without_flash_attention(tmp_path: Path) -> None:
    ready(tmp_path, "llama-cpp")
    model = tmp_path / "small.gguf"
    for file in (model, *(tmp_path / f"small-{f}.gguf" for f in PEERS["llama-cpp"].formats)):
        file.touch()
    specs = prepare("llama-cpp", tmp_path, str(model))
    assert [s.name for s in specs] == [f"llama-cpp:{f}{fa}" for f in ("", "Q4_0:", "Q8_0:", "F16:") for fa in "01"]
    assert [s.args[0] for s in specs[::2]] == [str(model), *(str(tmp_path / f"small-{f}.gguf") for f in ("Q4_0", "Q8_0", "F16"))]


def test_every_known_peer_has_its_script() -> None:
    for name, known in PEERS.items():
        assert (SCRIPTS / known.script).is_file(), name
        assert known.takes in ("gguf", "folder") and (known.takes == "gguf") == (not known.export)


def test_an_unknown_peer_is_named_beside_the_known_ones() -> None:
    with pytest.raises(UserInputError, match=r"no peer 'nobody'.*ctranslate2"):
        parse_peer("nobody=python", "smollm2-135m-instruct")


def write_model(path: Path, matrix: np.ndarray) -> None:
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_block_count(3)
    writer.add_token_list(["a", "b"])
    writer.add_bool("tokenizer.ggml.add_bos_token", False)
    writer.add_tensor("blk.0.ffn_up.weight", gguf.quants.quantize(matrix, gguf.GGMLQuantizationType.Q4_1), raw_dtype=gguf.GGMLQuantizationType.Q4_1)
    writer.add_tensor("token_embd.weight", matrix[:4])
    writer.add_tensor("output_norm.weight", matrix[0])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize(("encoding", "kinds"), [("F16", ("F16", "F16")), ("Q8_0", ("Q8_0", "Q8_0")), ("Q4_0", ("Q4_0", "Q8_0"))])
def test_a_file_in_another_encoding_keeps_metadata_and_nearly_the_values(tmp_path: Path, encoding: str, kinds: tuple[str, str]) -> None:
    matrix = np.random.default_rng(71).normal(0, 1, (32, 64)).astype(np.float32)
    source, out = tmp_path / "a.gguf", tmp_path / "b.gguf"
    write_model(source, matrix)
    subprocess.run([sys.executable, str(SCRIPTS / "export_gguf.py"), str(source), str(out), encoding], check=True, capture_output=True)
    with open_gguf(out) as file:
        assert file.metadata["llama.block_count"] == 3 and list(file.metadata["tokenizer.ggml.tokens"]) == ["a", "b"]
        assert file.metadata["tokenizer.ggml.add_bos_token"] is False
        assert (file.tensors["blk.0.ffn_up.weight"].ggml_type, file.tensors["token_embd.weight"].ggml_type) == kinds
        assert np.array_equal(file.raw("output_norm.weight").view("<f4"), matrix[0])
        up = gguf.quants.dequantize(file.raw("blk.0.ffn_up.weight").reshape(32, -1).copy(), gguf.GGMLQuantizationType[kinds[0]])
    assert np.abs(up - matrix).max() < 0.6


def test_a_wrong_model_is_one_line_of_ours() -> None:
    with pytest.raises(UserInputError, match=r"^(?!headwater)(?!UserInputError).*nope"):
        Peer(ours("nope")[0])


def test_rows_of_ours_with_other_options_are_named_by_them_and_nonsense_is_refused() -> None:
    plain, two = ours("m", ["kv_format=q8;attend=wave:retrieve=0.2"])
    assert (plain.name, plain.args) == ("headwater", ["m"])
    assert (two.name, two.args) == ("headwater kv_format=q8 attend=wave:retrieve=0.2", ["m", "kv_format=q8", "attend=wave:retrieve=0.2"])
    for wrong in ("q8", "kv_format=", "=q8", "kv_format=q8;"):
        with pytest.raises(UserInputError, match=r"--also .* is no NAME=VALUE"):
            ours("m", [wrong])
