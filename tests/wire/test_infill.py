"""Fill-in-the-middle: the same prompt through every door, in the model's own markers; one clear line for a model without them."""

import json

import httpx
import pytest

from headwater.core.errors import UserInputError
from headwater.text.echo import echo_tokenizer
from headwater.text.infill import infill

TOKENIZER = echo_tokenizer(320)
PREFIX, MIDDLE, SUFFIX, PAD, REPO, FILE = range(263, 269)
ASK = {"temperature": 0, "seed": 1}


def plain(echo, ids: list[int], n: int = 20) -> str:
    """What the model says to these ids."""
    return httpx.post(f"{echo.v1}/completions", json={"prompt": ids, "max_tokens": n, **ASK}).json()["choices"][0]["text"]


def test_the_prompt_is_prefix_suffix_middle_and_markers_in_the_texts_stay_text() -> None:
    made = infill(TOKENIZER, "a<|fim_suffix|>", "ü")
    assert made.ids == [PREFIX, *b"a<|fim_suffix|>", SUFFIX, *"ü".encode(), MIDDLE]
    assert made.stops == [PREFIX, MIDDLE, SUFFIX, PAD, REPO, FILE]
    files = infill(TOKENIZER, "a", "b", [("x.py", "1"), ("y.py", "2")]).ids
    assert files == [REPO, *b"repository\n", FILE, *b"x.py\n1\n", FILE, *b"y.py\n2\n", FILE, *b"file\n", PREFIX, *b"a", SUFFIX, *b"b", MIDDLE]


def test_suffix_infill_and_ollama_ask_the_same(echo) -> None:
    want = plain(echo, infill(TOKENIZER, "def f(", "return").ids)
    completion = httpx.post(f"{echo.v1}/completions", json={"prompt": "def f(", "suffix": "return", "max_tokens": 20, **ASK}).json()
    assert completion["choices"][0]["text"] == want
    body = {"input_prefix": "def", "prompt": " f(", "input_suffix": "return", "n_predict": 20, **ASK}
    whole = httpx.post(f"{echo.url}/infill", json=body).json()
    assert whole["content"] == want and whole["stop"] is True and whole["stop_type"] in ("eos", "limit")
    with httpx.stream("POST", f"{echo.url}/infill", json={**body, "stream": True}) as r:
        events = [json.loads(x[6:]) for x in r.iter_lines() if x]
    assert "".join(e["content"] for e in events) == want
    assert [e["stop"] for e in events] == [False] * (len(events) - 1) + [True]
    assert events[-1]["tokens_predicted"] == whole["tokens_predicted"] == completion["usage"]["completion_tokens"]
    options = {"num_predict": 20, **ASK}
    body = {"model": "echo", "prompt": "def f(", "suffix": "return", "stream": False, "options": options}
    assert httpx.post(f"{echo.url}/api/generate", json=body).json()["response"] == want
    assert "insert" in httpx.post(f"{echo.url}/api/show", json={"model": "echo"}).json()["capabilities"]


@pytest.mark.parametrize("marker", [PREFIX, SUFFIX, MIDDLE, PAD, FILE])
def test_a_marker_ends_the_middle(echo, marker) -> None:
    body = {"prompt": "a", "suffix": "b", "max_tokens": 20, "logit_bias": {str(marker): 100}, "allowed_token_ids": [marker], **ASK}
    choice = httpx.post(f"{echo.v1}/completions", json=body).json()["choices"][0]
    assert choice["finish_reason"] == "stop" and choice["text"] == ""


def test_an_empty_suffix_is_none_and_ids_cannot_be_filled_in(echo) -> None:
    for body in ({"prompt": "abc", "suffix": ""}, {"prompt": "abc", "suffix": None}):
        text = httpx.post(f"{echo.v1}/completions", json={**body, "max_tokens": 9, **ASK}).json()["choices"][0]["text"]
        assert text == plain(echo, list(b"abc"), 9)
    r = httpx.post(f"{echo.v1}/completions", json={"prompt": [65], "suffix": "b"})
    assert r.status_code == 400 and r.json()["error"]["param"] == "prompt"


@pytest.mark.parametrize(("path", "body", "param"), [
    ("/v1/completions", {"prompt": "a", "suffix": "b"}, "suffix"),
    ("/infill", {"input_prefix": "a", "input_suffix": "b"}, "input_suffix"),
])
def test_a_model_without_the_markers_says_so_in_one_line(smol, path, body, param) -> None:
    r = httpx.post(smol.url + path, json=body)
    assert r.status_code == 400 and r.json()["error"]["param"] == param and "no fill-in-the-middle tokens" in r.json()["error"]["message"]


def test_further_files_need_a_marker_of_their_own(monkeypatch) -> None:
    fim = {role: i for role, i in TOKENIZER.vocab.fim.items() if role != "file"}
    tokenizer = echo_tokenizer(320)
    object.__setattr__(tokenizer.vocab, "fim", fim)
    with pytest.raises(UserInputError, match="input_extra"):
        infill(tokenizer, "a", "b", [("x", "y")])
