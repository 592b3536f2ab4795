"""Tokenizer: what it knows about its tokens, special tokens in text, bad vocabularies, hub folders, streaming decoding."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, decoders, models, pre_tokenizers, processors
from tokenizers import Tokenizer as HfTokenizer

from headwater.core.errors import FormatError, UserInputError
from headwater.text.detok import StreamDecoder
from headwater.text.specials import SpecialSplitter, turn_ends
from headwater.text.tokenizer import Tokenizer
from headwater.text.vocab import BYTE_OF_CHAR

CHAR_OF_BYTE = {b: c for c, b in BYTE_OF_CHAR.items()}
DATA = Path(__file__).parent.parent / "data"


def metadata(name: str) -> dict:
    content = json.loads((DATA / f"tokenizer_{name}.json").read_text())
    meta = {**content["keys"], "tokenizer.ggml.tokens": content["tokens"], "tokenizer.ggml.merges": content["merges"]}
    meta["tokenizer.ggml.token_type"] = np.array(content["types"], np.int32)
    if "scores" in content:
        meta["tokenizer.ggml.scores"] = np.array(content["scores"], np.float32)
    return meta


TOKENIZERS = {name: Tokenizer.from_gguf(metadata(name)) for name in ("smollm2", "qwen25", "gemma3", "archive_llama-spm")}


def texts(tok: Tokenizer, ids: set[int] | frozenset[int]) -> set[str]:
    return {tok.vocab.text(i) for i in ids}


def test_every_turn_end_of_the_model_is_known():
    assert texts(TOKENIZERS["smollm2"], TOKENIZERS["smollm2"].turn_end_ids) == {"<|im_end|>", "<|endoftext|>"}
    assert texts(TOKENIZERS["qwen25"], TOKENIZERS["qwen25"].turn_end_ids) == {"<|im_end|>", "<|endoftext|>"}
    assert texts(TOKENIZERS["gemma3"], TOKENIZERS["gemma3"].turn_end_ids) == {"<end_of_turn>", "<eos>"}


def test_fill_in_the_middle_tokens_are_found_by_role():
    tok = TOKENIZERS["qwen25"]
    assert {role: tok.vocab.text(i) for role, i in tok.vocab.fim.items()} == {
        "prefix": "<|fim_prefix|>", "suffix": "<|fim_suffix|>", "middle": "<|fim_middle|>", "pad": "<|fim_pad|>",
        "repo": "<|repo_name|>", "file": "<|file_sep|>",
    }
    assert TOKENIZERS["gemma3"].vocab.fim == {}


def test_an_end_of_message_inside_the_turn_is_no_turn_end():
    names = {"<|end|>": 1, "<|return|>": 2, "<|call|>": 3, "<|channel|>": 4}
    assert turn_ends(names, [2]) == {2, 3}
    assert turn_ends({"<|end|>": 1, "<|user|>": 5}, []) == {1}


def test_control_tokens_are_left_out_of_decoded_text_unless_wanted():
    tok = TOKENIZERS["smollm2"]
    ids = tok.encode("<|im_start|>user\nhi<|im_end|>")
    assert tok.decode(ids) == "user\nhi"
    assert tok.decode(ids, skip_special=False) == "<|im_start|>user\nhi<|im_end|>"


def test_user_text_cannot_forge_control_tokens_when_they_are_not_parsed():
    for tok in TOKENIZERS.values():
        for text in ("<|im_end|>", "<end_of_turn>", "</s><s>", "<bos><eos>"):
            assert not set(tok.encode(text, add_special=False, parse_special=False)) & tok.special_ids


def test_the_beginning_token_is_added_where_the_model_wants_it():
    gemma, smol = TOKENIZERS["gemma3"], TOKENIZERS["smollm2"]
    assert gemma.encode("hi")[0] == gemma.bos_id and gemma.encode("hi", add_special=False)[0] != gemma.bos_id
    assert smol.encode("hi") == smol.encode("hi", add_special=False)


def test_a_lone_surrogate_is_refused_with_its_place():
    with pytest.raises(UserInputError, match=r"U\+D83D\) at character 2"):
        TOKENIZERS["smollm2"].encode("ab\ud83d")


def test_ids_outside_the_vocabulary_are_named():
    tok = TOKENIZERS["smollm2"]
    tok.check_ids([0, tok.vocab_size - 1], "prompt")
    with pytest.raises(UserInputError, match=r"prompt\[1\] is -1"):
        tok.check_ids([0, -1], "prompt")


def test_the_bytes_table_spells_every_token():
    tok = TOKENIZERS["gemma3"]
    assert len(tok.bytes_table) == tok.vocab_size
    assert tok.bytes_table[tok.token_id("<0x0A>")] == b"\n"
    assert tok.bytes_table[tok.token_id("\u2581Hello")] == b" Hello"


@pytest.mark.parametrize("name", TOKENIZERS)
@settings(max_examples=150)
@given(data=st.data())
def test_streaming_whatever_the_cuts_gives_what_decoding_at_once_gives(name, data):
    tok = TOKENIZERS[name]
    ids = data.draw(st.lists(st.integers(0, tok.vocab_size + 3), max_size=40))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(ids)), max_size=6)))
    skip, at_start = data.draw(st.booleans()), data.draw(st.booleans())
    stream = StreamDecoder(tok, skip_special=skip, at_start=at_start)
    pieces = [stream.push(ids[a:b]) for a, b in zip([0, *cuts], [*cuts, len(ids)], strict=True)] + [stream.finish()]
    assert "".join(pieces) == tok.decode(ids, skip_special=skip, at_start=at_start)


@pytest.mark.parametrize("name", TOKENIZERS)
@settings(max_examples=150)
@given(text=st.text(max_size=30))
def test_any_text_survives_encoding_and_streaming_token_by_token(name, text):
    tok = TOKENIZERS[name]
    if tok.vocab.spelling == "spaces":                              # the space sign of SentencePiece cannot be told from a space
        text = text.replace("\u2581", "_")
    if name == "smollm2":                                           # its vocabulary has no token for 21 of the 256 bytes
        text = "".join(c for c in text if all(tok.token_id(CHAR_OF_BYTE[b]) is not None for b in c.encode()))
    stream = StreamDecoder(tok, skip_special=False, at_start=True)
    ids = tok.encode(text, add_special=False, parse_special=False)
    assert "".join([stream.push([i]) for i in ids] + [stream.finish()]) == text


def test_half_a_character_is_held_back_and_never_shown():
    tok = TOKENIZERS["gemma3"]
    ids = [tok.token_id(f"<0x{b:02X}>") for b in "é😀".encode()]
    stream = StreamDecoder(tok)
    assert [stream.push([i]) for i in ids] == ["", "é", "", "", "", "😀"]
    assert stream.push(ids[2:4]) == "" and stream.finish() == "\ufffd"


def test_the_space_that_sentencepiece_puts_in_front_is_dropped_only_at_the_start():
    tok = TOKENIZERS["archive_llama-spm"]
    ids = tok.encode("Hello world", add_special=False)
    assert tok.decode(ids) == "Hello world"
    continued = StreamDecoder(tok, at_start=False)
    assert continued.push(ids) + continued.finish() == " Hello world"


@pytest.mark.parametrize(
    "change, message",
    [
        ({"tokenizer.ggml.model": "rwkv"}, "tokenizer.ggml.model' is 'rwkv'"),
        ({"tokenizer.ggml.pre": "nobody-knows"}, "'nobody-knows'"),
        ({"tokenizer.ggml.tokens": None}, "tokenizer.ggml.tokens' is missing"),
        ({"tokenizer.ggml.merges": None}, "tokenizer.ggml.merges' is missing"),
        ({"tokenizer.ggml.merges": ["ab"]}, "merges' item 0 is 'ab'"),
        ({"tokenizer.ggml.merges": ["nobody knows-this-token"]}, "do not fit"),
        ({"tokenizer.ggml.token_type": np.zeros(3, np.int32)}, "has 3 entries"),
        ({"tokenizer.ggml.eos_token_id": 10**6}, "eos_token_id' is 1000000"),
        ({"tokenizer.ggml.bos_token_id": "two"}, "bos_token_id' is 'two'"),
        ({"tokenizer.ggml.eos_token_id": np.arange(3)}, "eos_token_id' is array"),
        ({"tokenizer.ggml.tokens": np.arange(3)}, "tokenizer.ggml.tokens' is missing or not"),
        ({"tokenizer.ggml.tokens": [[1], [2]], "tokenizer.ggml.token_type": np.array([3, 3])}, "do not fit|vocabulary has 2"),
        ({"tokenizer.ggml.merges": [1, 2]}, "do not fit"),
    ],
)
def test_a_wrong_vocabulary_is_refused_by_the_name_of_its_key(change, message):
    with pytest.raises(FormatError, match=message):
        Tokenizer.from_gguf({**metadata("smollm2"), **change})


def test_a_sentencepiece_vocabulary_without_scores_is_refused():
    meta = metadata("gemma3")
    del meta["tokenizer.ggml.scores"]
    with pytest.raises(FormatError, match=r"tokenizer\.ggml\.scores' has 0 entries"):
        Tokenizer.from_gguf(meta)


@given(text=st.text(alphabet="<|ab>", max_size=40))
def test_splitting_at_specials_loses_nothing_and_prefers_the_longest(text):
    names = {"<a>": 1, "<a><b>": 2, "<|": 3, "b": 4}
    by_id = {i: t for t, i in names.items()}
    pieces = list(SpecialSplitter(names).split(text))
    assert "".join(by_id[p] if isinstance(p, int) else p for p in pieces) == text
    assert all(t not in p for p in pieces if isinstance(p, str) for t in ("<|", "b"))
    if "<a><b>" in text:
        assert 2 in pieces


def _hub_folder(folder: Path) -> Path:
    """A byte-level tokenizer.json as a hub holds it: added tokens, a template for <s>, a length limit that must not cut."""
    byte_chars = pre_tokenizers.ByteLevel.alphabet()
    vocab = {c: i for i, c in enumerate(sorted(byte_chars))} | {"he": 256, "ll": 257, "Ġw": 258}
    tok = HfTokenizer(models.BPE(vocab, [("h", "e"), ("l", "l"), ("Ġ", "w")]))
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    tok.add_special_tokens([AddedToken("<s>", special=True), AddedToken("<|im_end|>", special=True), AddedToken("</s>", special=True)])
    tok.add_tokens([AddedToken("<think>", special=False)])
    tok.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 259)])
    tok.enable_truncation(4)
    tok.enable_padding(length=16)
    tok.save(str(folder / "tokenizer.json"))
    config = {"bos_token": {"content": "<s>"}, "eos_token": "</s>", "chat_template": [{"name": "default", "template": "T"}]}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [261, 97]}))
    return folder


def test_a_hub_folder_gives_ids_ends_and_template(tmp_path):
    tok = Tokenizer.from_json(_hub_folder(tmp_path))
    text = "hello world and more than four tokens"
    ids = tok.encode(text)
    assert ids[0] == tok.bos_id == 259 and tok.decode(ids) == text
    assert tok.turn_end_ids == {260, 261, 97}
    assert tok.chat_template == "T"
    assert tok.encode("<|im_end|><think>", add_special=False) == [260, 262]
    assert 260 not in tok.encode("<|im_end|>", parse_special=False)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"model": {"type": "BPE", "vocab": {"a": 4000000000}, "merges": []}}', b"\xff\xfe"])
def test_a_malformed_tokenizer_json_is_refused_in_one_line(tmp_path, content):
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(FormatError, match=r"tokenizer\.json") as e:
        Tokenizer.from_json(tmp_path)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("name", ["tokenizer_config.json", "generation_config.json"])
@pytest.mark.parametrize("content", [b"[", b"[" * 100_000, b"[]", b"\xff"])
def test_a_malformed_config_beside_the_tokenizer_is_named(tmp_path, name, content):
    (_hub_folder(tmp_path) / name).write_bytes(content)
    with pytest.raises(FormatError, match=name):
        Tokenizer.from_json(tmp_path)
