"""States of the public API: what they refuse, what a caller's array or a damaged file cannot change."""

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from headwater.core.errors import FormatError, HeadwaterError, UserInputError
from headwater.llm import LLM, SamplingParams

GREEDY = SamplingParams(max_tokens=8, temperature=0.0, ignore_eos=True)
TEXT = "a state of more than sixteen tokens"


@pytest.fixture(scope="module")
def llm() -> LLM:
    return LLM("echo", seed=1)


@pytest.fixture
def saved(llm: LLM, tmp_path: Path) -> Path:
    path = tmp_path / "x.state"
    with llm.state(TEXT) as s:
        s.save(path)
    return path


def parts_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as z:
        return {name: z.read(name) for name in z.namelist()}


def write_parts(path: Path, parts: dict[str, bytes], how: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", how) as z:
        for name, data in parts.items():
            z.writestr(name, data)


def npy(a: np.ndarray) -> bytes:
    f = io.BytesIO()
    np.save(f, a)
    return f.getvalue()


@pytest.mark.parametrize("label", [320, -1, 2**40])
def test_a_label_outside_the_vocabulary_is_refused_by_name(llm: LLM, label: int) -> None:
    with llm.state("abc") as s:
        for ask in (lambda: s.label_probs(["a", label]), lambda: s.label_logits(["x"], ["a", label])):
            with pytest.raises(UserInputError, match=rf"labels\[1\]: token id {label} is outside the vocabulary of 320"):
                ask()


def test_a_label_is_text_or_an_id_and_nothing_that_would_be_rounded(llm: LLM) -> None:
    with llm.state("abc") as s, pytest.raises(UserInputError, match=r"labels\[0\]: must be text or a token id, got 3.7"):
        s.label_probs([3.7])


@pytest.mark.parametrize("ids", [[2**32 + 5], [-5], np.array([2**64 - 1], np.uint64)])
def test_ids_that_int32_cannot_hold_are_refused_and_never_wrapped(llm: LLM, ids) -> None:
    with llm.state("abc") as s:
        with pytest.raises(UserInputError, match=r"continuations\[0\]: token id .* is outside the vocabulary of 320"):
            s.score([ids])
        with pytest.raises(UserInputError, match=r"extend: token id .* is outside"):
            s.extend(ids)
        assert s.text == "abc"


def test_a_callers_array_may_change_and_the_state_does_not(llm: LLM) -> None:
    ids = np.array(list(b"abcdef"), np.int32)
    with llm.state(ids) as s:
        ids[:] = 90
        assert s.text == "abcdef"
        with pytest.raises(ValueError, match="read-only"):
            s.tokens[0] = 90
        with pytest.raises(ValueError, match="read-only"):
            s.fork().extend("g").tokens[0] = 90


def test_a_state_of_another_llm_is_refused(llm: LLM) -> None:
    with LLM("echo").state("abc") as foreign:
        for use in (lambda: llm.generate(foreign, GREEDY), lambda: llm.fork(foreign)):
            with pytest.raises(UserInputError, match="state: belongs to another LLM"):
                use()


@pytest.mark.parametrize(("prompts", "params", "name"), [(5, GREEDY, "prompts"), (None, None, "prompts"), (["a"], ["x"], "sampling_params")])
def test_what_is_no_prompt_or_no_parameters_is_refused_by_name(llm: LLM, prompts, params, name: str) -> None:
    with pytest.raises(UserInputError, match=f"^{name}: must be"):
        llm.generate(prompts, params)


# -- files -------------------------------------------------------------------------------------------------------------------------------


def test_one_file_can_be_loaded_and_held_many_times(llm: LLM, saved: Path) -> None:
    loaded = [llm.load_state(saved) for _ in range(4)]
    assert len({s.request_id for s in loaded}) == 4
    assert len({s.generate(GREEDY).choices[0].text for s in loaded}) == 1
    for s in loaded:
        s.close()


def test_a_file_name_that_is_no_text_can_be_loaded(llm: LLM, tmp_path: Path) -> None:
    path = tmp_path / "\udcff.state"                                # a name of one byte 0xff, as Python spells it
    with llm.state(TEXT) as s:
        s.save(path)
    with llm.load_state(path) as s:
        assert s.text == TEXT


def test_a_state_that_cannot_be_written_leaves_the_old_file_and_nothing_else(llm: LLM, tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "x.state"
    path.write_bytes(b"older")

    def full(f, **arrays) -> None:
        f.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with llm.state(TEXT) as s, pytest.raises(UserInputError, match=r"x\.state: cannot be written \(No space left on device\)"):
        s.save(path)
    assert path.read_bytes() == b"older"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_or_a_missing_folder_is_named(llm: LLM, tmp_path: Path) -> None:
    with llm.state(TEXT) as s:
        for path in (tmp_path, tmp_path / "none" / "x.state"):
            with pytest.raises(UserInputError, match="cannot be written"):
                s.save(path)


def test_every_flipped_bit_and_every_cut_is_noticed_or_harmless(llm: LLM, saved: Path) -> None:
    good = saved.read_bytes()
    with llm.load_state(saved) as s:
        right = s.generate(GREEDY).choices[0].text
    rng = np.random.default_rng()
    print("seed state:", rng.bit_generator.state)
    damaged = [good[:n] for n in rng.integers(0, len(good), 20).tolist()]
    for at in [*rng.integers(0, len(good), 60).tolist(), *range(len(good) - 300, len(good), 5)]:
        damaged.append(good[:at] + bytes([good[at] ^ (1 << int(rng.integers(8)))]) + good[at + 1 :])
    for data in damaged:
        saved.write_bytes(data)
        try:
            with llm.load_state(saved) as s:
                assert s.generate(GREEDY).choices[0].text == right
        except HeadwaterError as e:
            assert "\n" not in str(e)
            assert str(e).startswith(str(saved))


@pytest.mark.parametrize("name", ["meta", "tokens", "part0"])
@pytest.mark.parametrize("damage", ["bytes", "header", "missing", "method"])
def test_a_part_that_is_no_array_is_a_damaged_file(llm: LLM, saved: Path, name: str, damage: str) -> None:
    parts = parts_of(saved)
    data = parts.pop(f"{name}.npy")
    if damage == "bytes":
        parts[name] = b"no array"
    elif damage == "header":
        parts[f"{name}.npy"] = b"\x93NUMPY\x01\x00\x08\x00(((((((\n"
    elif damage == "method":
        parts[f"{name}.npy"] = data                                 # now the last one
    write_parts(saved, parts)
    if damage == "method":                                          # a way to compress that nobody knows, in its local and central header
        raw = bytearray(saved.read_bytes())
        raw[raw.rfind(b"PK\x03\x04") + 8] = raw[raw.rfind(b"PK\x01\x02") + 10] = 77
        saved.write_bytes(bytes(raw))
    with pytest.raises(FormatError, match=r"x\.state: "):
        llm.load_state(saved)


@pytest.mark.parametrize("meta", ["[]", "5", "[" * 50_000, '{"format": 1}', '{"format": ' + "9" * 5000 + "}"])
def test_meta_data_that_are_none_are_a_damaged_file(llm: LLM, saved: Path, meta: str) -> None:
    write_parts(saved, {**parts_of(saved), "meta.npy": npy(np.frombuffer(meta.encode(), np.uint8))})
    with pytest.raises(FormatError, match="not a saved state, or damaged"):
        llm.load_state(saved)


def test_an_identity_with_a_line_break_is_refused_in_one_line(llm: LLM, saved: Path) -> None:
    parts = parts_of(saved)
    meta = json.loads(np.load(io.BytesIO(parts["meta.npy"])).tobytes())
    write_parts(saved, {**parts, "meta.npy": npy(np.frombuffer(json.dumps({**meta, "identity": "a\nb"}).encode(), np.uint8))})
    with pytest.raises(UserInputError) as e:
        llm.load_state(saved)
    assert "\n" not in str(e.value)


def test_a_file_that_would_unpack_to_more_than_it_is_is_refused_unread(llm: LLM, saved: Path) -> None:
    write_parts(saved, {**parts_of(saved), "part9.npy": npy(np.zeros(10**6))}, zipfile.ZIP_DEFLATED)
    with pytest.raises(FormatError, match="parts are larger than the file"):
        llm.load_state(saved)
