"""Hostile GGUF and safetensors files: a one-line error each or a valid load; never a crash, never much memory."""

import json
import random
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from weight_files import (
    ARRAY,
    BOOL,
    F32,
    I32,
    STRING,
    U32,
    gguf_file,
    gguf_header,
    gguf_string,
    safetensors_bytes,
    small_gguf,
    small_safetensors,
)

from headwater.core.errors import FormatError
from headwater.model.load.gguf import MAX_METADATA, open_gguf
from headwater.model.load.safetensors import open_safetensors

HUGE = (1 << 63) - 1
WORDS = [0, 1, HUGE, HUGE - 7, (1 << 64) - 1, (1 << 64) - 32, 1 << 62, 1 << 32, (1 << 31) - 1, 255, 256, 65536]
ODD = [None, -1, HUGE, 1 << 70, 1.5, "x", [], {}, [HUGE, HUGE], [0], True, "F64", "F8_E5M2", ["a"], [0, 12, 3], [1e300]]
F32_TENSOR = ("t", (4,), 0, 0)
PAD = bytes(64)


def _key(name: str, kind: int, payload: bytes) -> bytes:
    """A whole GGUF file with one key whose value is `payload`."""
    return b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + gguf_string(name) + struct.pack("<I", kind) + payload


def _array(item: int, n: int, payload: bytes = b"") -> bytes:
    return struct.pack("<IQ", item, n) + payload


def _nested(depth: int) -> bytes:
    return b"".join(_array(ARRAY, 1) for _ in range(depth)) + _array(I32, 0)


GGUF_CASES = {
    "empty": (b"", "is empty"),
    "magic": (b"GGML" + bytes(60), "not a GGUF file"),
    "short": (b"GGUF\3\0", "version needs 4 bytes"),
    "version_1": (gguf_header([], [], version=1), "GGUF version 1"),
    "big_endian": (gguf_header([], [], version=3 << 24), "big-endian"),
    "tensor_count": (b"GGUF" + struct.pack("<IQQ", 3, HUGE, 0), "claims .* tensors"),
    "key_count": (b"GGUF" + struct.pack("<IQQ", 3, 0, HUGE), "claims .* metadata keys"),
    "tensor_count_beyond_file": (b"GGUF" + struct.pack("<IQQ", 3, 60000, 0), "claims 60,000 tensors but only"),
    "key_length": (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, HUGE), "name of metadata key 0 claims"),
    "key_not_utf8": (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + gguf_string(b"\xff\xfe") + bytes(8), "is not UTF-8"),
    "key_twice": (gguf_header([("k", U32, 1), ("k", U32, 2)], []), "'k' appears twice"),
    "string_length": (_key("k", STRING, struct.pack("<Q", HUGE)), "'k' claims"),
    "string_over_the_end": (_key("k", STRING, struct.pack("<Q", 1000) + b"abc"), "'k' needs 1,000 bytes"),
    "string_not_utf8": (_key("k", STRING, gguf_string(b"a\xc3")), "'k' is not UTF-8"),
    "value_type": (_key("k", 77, bytes(8)), "unknown value type 77"),
    "item_type": (_key("k", ARRAY, _array(77, 1)), "unknown value type 77"),
    "bool_2": (_key("k", BOOL, b"\2"), "truth value but holds 2"),
    "bools_2": (_key("k", ARRAY, _array(BOOL, 2, b"\1\2")), "truth values but holds 2"),
    "number_array": (_key("k", ARRAY, _array(F32, HUGE)), r"'k' \(9,223"),
    "number_array_wraps": (_key("k", ARRAY, _array(F32, 1 << 62)), "needs"),
    "string_array": (_key("k", ARRAY, _array(STRING, HUGE)), "strings but only"),
    "string_in_array": (_key("k", ARRAY, _array(STRING, 2, gguf_string("a") + struct.pack("<Q", HUGE))), "string 1 of 2"),
    "string_in_array_wraps": (_key("k", ARRAY, _array(STRING, 2, gguf_string("a") + b"\xf8" + b"\xff" * 7)), "string 1 of 2"),
    "deep_arrays": (_key("k", ARRAY, _nested(5)), "nests arrays"),
    "very_deep_arrays": (_key("k", ARRAY, _nested(100_000)), "nests arrays"),
    "wide_arrays": (_key("k", ARRAY, _array(ARRAY, HUGE)), "nests arrays"),
    "alignment_0": (gguf_header([("general.alignment", U32, 0)], [F32_TENSOR]) + PAD, "general.alignment"),
    "alignment_24": (gguf_header([("general.alignment", U32, 24)], [F32_TENSOR]) + PAD, "general.alignment"),
    "alignment_text": (gguf_header([("general.alignment", STRING, "32")], [F32_TENSOR]) + PAD, "general.alignment"),
    "offset": (gguf_header([], [("t", (4,), 0, HUGE & ~31)]) + PAD, "'t' ends at byte"),
    "offset_wraps": (gguf_header([], [("t", (4,), 0, (1 << 64) - 32)]) + PAD, "'t' ends at byte"),
    "offset_unaligned": (gguf_header([], [("t", (4,), 0, 4)]) + PAD, "not a multiple of the alignment"),
    "dims_product_wraps": (gguf_header([], [("t", (1 << 32, 1 << 32), 0, 0)]) + PAD, "claims"),
    "dims_huge": (gguf_header([], [("t", (HUGE,), 0, 0)]) + PAD, "claims"),
    "dims_zero": (gguf_header([], [("t", (4, 0), 0, 0)]) + PAD, "dimension of 0"),
    "dims_count": (gguf_header([], [("t", (1,) * 5, 0, 0)]) + PAD, "has 5 dimensions"),
    "dims_none": (gguf_header([], [("t", (), 0, 0)]) + PAD, "has 0 dimensions"),
    "block": (gguf_header([], [("t", (33,), 2, 0)]) + PAD, "needs a multiple of 32"),
    "overlap": (gguf_header([], [("t", (16,), 0, 0), ("u", (16,), 0, 32)]) + bytes(160), "'t' and 'u' overlap"),
    "same_place": (gguf_header([], [("t", (16,), 0, 0), ("u", (16,), 0, 0)]) + bytes(160), "overlap"),
    "tensor_twice": (gguf_header([], [("t", (4,), 0, 0), ("t", (4,), 0, 32)]) + bytes(160), "'t' appears twice"),
    "tensor_name_long": (gguf_header([], [("t" * 5000, (4,), 0, 0)]) + PAD, "claims 5,000 bytes"),
    "lines_in_names": (gguf_header([("a\nb\r\x1b[2Jc", U32, 1), ("a\nb\r\x1b[2Jc", U32, 1)], []), "appears twice"),
    "split_count": (gguf_header([("split.count", U32, HUGE & 0xFFFFFFFF)], []), "split.count"),
    "split_text": (gguf_header([("split.count", STRING, "two")], []), "split.count"),
}


def _entry(dtype="F32", shape=(4,), span=(0, 16)) -> dict:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(span)}


def _st(header, data: bytes = bytes(16)) -> bytes:
    return safetensors_bytes(header if isinstance(header, bytes) else json.dumps(header).encode(), data)


SAFETENSORS_CASES = {
    "empty": (b"", "is empty"),
    "short": (b"\0" * 9, "too few"),
    "header_length": (struct.pack("<Q", HUGE) + bytes(100), "header claims"),
    "header_length_u64": (struct.pack("<Q", (1 << 64) - 1) + bytes(100), "header claims"),
    "not_json": (_st(b"{]"), "not valid JSON"),
    "not_utf8": (_st(b'{"\xff": 1}'), "not UTF-8"),
    "not_an_object": (_st(b"[1, 2]"), "not an object"),
    "deep": (_st(b"[" * 200_000), "nested too deeply"),
    "deep_inside": (_st(b'{"a":' * 100_000), "nested too deeply"),
    "many_items": (_st(b"{" + b'"a":{},' * 400_000), "more than 300,000 items"),
    "big_number": (_st(b'{"a": ' + b"9" * 100_000 + b"}"), "not valid JSON"),
    "key_twice": (_st(b'{"t": {"dtype": "F32"}, "t": 1}'), "appears twice"),
    "entry_not_object": (_st({"t": 5}), "not described by an object"),
    "dtype": (_st({"t": _entry("F31")}), "unknown dtype"),
    "dtype_list": (_st({"t": {**_entry(), "dtype": ["F32"]}}), "unknown dtype"),
    "shape_negative": (_st({"t": _entry(shape=(-4,))}), "has the shape"),
    "shape_huge": (_st({"t": _entry(shape=(1 << 61, 1 << 61))}), "needs over 2"),
    "shape_float": (_st({"t": _entry(shape=(4.0,))}), "has the shape"),
    "shape_bool": (_st({"t": _entry(shape=(True, 4))}), "has the shape"),
    "shape_long": (_st({"t": _entry(shape=(1,) * 1000)}), "has the shape"),
    "offsets_reversed": (_st({"t": _entry(span=(16, 0))}), "data_offsets"),
    "offsets_three": (_st({"t": _entry(span=(0, 16, 32))}), "data_offsets"),
    "offsets_beyond": (_st({"t": _entry(span=(16, 32))}), "ends at byte"),
    "offsets_huge": (_st({"t": _entry(span=(HUGE - 16, HUGE))}), "data_offsets"),
    "size": (_st({"t": _entry(shape=(3,))}), "needs 12 bytes"),
    "overlap": (_st({"t": _entry(), "u": _entry(span=(8, 24))}, bytes(24)), "overlap"),
    "hole": (_st({"t": _entry()}, bytes(20)), "take 16 bytes"),
    "metadata": (_st({"__metadata__": {"a": 1}}, b""), "__metadata__"),
    "lines_in_names": (_st({"a\nb\x1b[2J": 5}), "not described"),
}


def _assert_one_line(open_file, path: Path, data: bytes, message: str) -> None:
    path.write_bytes(data)
    with pytest.raises(FormatError, match=message) as e:
        open_file(path)
    text = str(e.value)
    assert path.name in text and text.isprintable() and len(text) < 700


@pytest.mark.parametrize("case", GGUF_CASES)
def test_a_malformed_gguf_gives_one_line_that_names_the_field(tmp_path, case):
    _assert_one_line(open_gguf, tmp_path / "m.gguf", *GGUF_CASES[case])


@pytest.mark.parametrize("case", SAFETENSORS_CASES)
def test_a_malformed_safetensors_gives_one_line_that_names_the_field(tmp_path, case):
    _assert_one_line(open_safetensors, tmp_path / "m.safetensors", *SAFETENSORS_CASES[case])


def test_metadata_beyond_its_budget_is_refused(tmp_path):
    path = tmp_path / "m.gguf"
    n = MAX_METADATA // 4 + 1
    with path.open("wb") as f:
        f.write(_key("k", ARRAY, _array(F32, n)))
        f.truncate(f.tell() + 4 * n)                                # a sparse file: no disk, no memory
    with pytest.raises(FormatError, match="brings the metadata to"):
        open_gguf(path)


@pytest.mark.parametrize("path", ["/dev/null", "/dev/zero", "/", "/nowhere/x.gguf", "nul\0byte"])
def test_a_path_that_is_no_regular_file_is_refused(path):
    for opened in (lambda: open_gguf(path), lambda: open_gguf([path, path]), lambda: open_safetensors([path])):
        with pytest.raises(FormatError):
            opened()


def _mutate(rng: random.Random, data: bytes) -> bytes:
    """One to three wounds: bits, words near 2^63, cuts, repeats, moved pieces."""
    raw = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        if not raw:
            break
        at, kind = rng.randrange(len(raw)), rng.randrange(7)
        if kind == 0:
            raw[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            raw[at] = rng.randrange(256)
        elif kind == 2:
            raw[at : at + 8] = struct.pack("<Q", rng.choice(WORDS))
        elif kind == 3:
            del raw[at:]
        elif kind == 4:
            del raw[at : at + rng.randint(1, 40)]
        elif kind == 5:
            raw[at:at] = raw[max(0, at - rng.randint(1, 80)) : at]
        else:
            raw[at : at + 4] = struct.pack("<I", rng.choice([0, 1, 2, 4, 8, 9, 12, 16, 30, 31, 39, 99, 0xFFFFFFFF]))
    return bytes(raw)


def _swap_json(rng: random.Random, data: bytes) -> bytes:
    """A safetensors header that still parses, with one value replaced by something else."""
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + n])
    name = rng.choice(list(header))
    odd = rng.choice(ODD)
    if rng.random() < 0.15:
        header[name] = odd
    elif isinstance(header[name], dict):
        header[name][rng.choice(["dtype", "shape", "data_offsets", "format"])] = odd
    return safetensors_bytes(json.dumps(header).encode(), data[8 + n :])


def storm(seed: int, count: int, folder: Path) -> dict[str, int]:
    """Open `count` mutated files under a ceiling of 64 MiB more data memory than an idle process; returns the outcomes."""
    import resource

    for data, opened, name in ((small_gguf(), open_gguf, "w.gguf"), (small_safetensors(), open_safetensors, "w.safetensors")):
        (folder / name).write_bytes(data)
        opened(folder / name).close()                               # imports and first-use caches belong to the idle process
    idle, anonymous = _status("VmData"), _status("RssAnon")
    resource.setrlimit(resource.RLIMIT_DATA, (idle + (64 << 20), idle + (64 << 20)))
    rng, outcomes = random.Random(seed), {"loaded": 0, "refused": 0}
    small, medium, st_small = small_gguf(), gguf_file([("k", ARRAY, (STRING, ["tok"] * 5000))], []), small_safetensors()
    for i in range(count):
        if i % 2:
            data = _swap_json(rng, st_small) if rng.random() < 0.5 else _mutate(rng, st_small)
            path, opened = folder / "m.safetensors", open_safetensors
        else:
            data = _mutate(rng, medium if i % 20 == 0 else small)
            path, opened = folder / "m.gguf", open_gguf
        path.write_bytes(data)
        try:
            with opened(path) as f:
                _touch(f)
            outcomes["loaded"] += 1
        except FormatError as e:
            assert str(e).isprintable() and len(str(e)) < 700, (seed, i, str(e))
            outcomes["refused"] += 1
    outcomes["grown_kib"] = (_status("RssAnon") - anonymous) >> 10
    return outcomes


def _touch(f) -> None:
    for value in f.metadata.values():
        if hasattr(value, "tolist"):
            value.tolist()
    for name in f.tensors:
        try:
            f.raw(name).sum()
        except FormatError as e:
            assert name[:20].isprintable() is False or name[:20] in str(e)


def _status(field: str) -> int:
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(field))
    return int(line.split()[1]) << 10


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_two_thousand_mutated_files_give_an_error_or_a_load_within_64_mib(tmp_path):
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    code = f"""
import sys; sys.path[:0] = {[str(Path(__file__).parent), *sys.path]!r}
import json, pathlib, test_hostile_containers as t
print(json.dumps(t.storm({seed}, 2000, pathlib.Path({str(tmp_path)!r}))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"seed {seed}: {done.stderr[-2000:]}"
    outcomes = json.loads(done.stdout)
    assert outcomes["loaded"] + outcomes["refused"] == 2000
    assert outcomes["refused"] > 1000
    assert outcomes["grown_kib"] <= 64 << 10
