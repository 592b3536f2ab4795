"""Judge: our token ids against llama-cpp-python's and against the encode vectors of its source archive; records small vectors.

    python tests/judges/tokenizer.py --peer PYTHON --archive llama_cpp_python-0.3.36.tar.gz --model NAME=PATH[,PATH...] [--record]

--peer: a Python with llama-cpp-python. --model: a GGUF, or its parts in order; NAME is used in the report and the recorded files.
--record rewrites tests/data/tokenizer_*.json, from which `make test` rebuilds small vocabularies. Exit code 1 on any difference.
"""

from __future__ import annotations

import argparse
import json
import struct
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hard_texts import HARD_TEXTS

from headwater.model.load.gguf import open_gguf
from headwater.text.pretokenize import PRE_TOKENIZERS
from headwater.text.tokenizer import Tokenizer
from headwater.text.vocab import BYTE, BYTE_OF_CHAR, CONTROL

HERE = Path(__file__).parent
DATA = HERE.parent / "data"
SEPARATOR = "\n__ggml_vocab_test__\n"
# llama.cpp takes every token named </s> for a control token; in these vocabularies it is the HTML tag, as their own definitions say
PEER_MISREADS = {"</s>"}
CARRIER = "llama-bpe"                                               # the vocabulary that lends itself to the other pre-tokenizers


def peer_ids(python: str, model: Path, cases: list[list[Any]]) -> list[list[int]]:
    done = subprocess.run(
        [python, str(HERE / "llama_cpp_ids.py")],
        input=json.dumps({"model": str(model), "cases": cases}), capture_output=True, text=True, check=False,
    )
    if done.returncode:
        raise SystemExit(f"{model.name}: the peer failed: {done.stderr[-400:]}")
    return json.loads(done.stdout)


def compare(name: str, tok: Tokenizer, cases: list[list[Any]], want: list[list[int]]) -> int:
    wrong = aside = 0
    for (text, add_special, parse_special), ids in zip(cases, want, strict=True):
        got = tok.encode(text, add_special, parse_special)
        if got == ids:
            continue
        if any(t in text for t in PEER_MISREADS):
            aside += 1
            continue
        wrong += 1
        at = next((i for i, (a, b) in enumerate(zip(got, ids, strict=False)) if a != b), min(len(got), len(ids)))
        print(f"  {name}: {text[:60]!r} special={parse_special}: at {at} peer {_spell(tok, ids[at:])}, ours {_spell(tok, got[at:])}")
    note = f", {aside} set aside ({', '.join(PEER_MISREADS)})" if aside else ""
    print(f"{name}: {len(cases) - wrong - aside} of {len(cases)} equal{note}")
    return wrong


def _spell(tok: Tokenizer, ids: list[int]) -> list[str]:
    return [tok.vocab.text(i) for i in ids[:6]]


def with_pre(source: Path, pre: str, target: Path) -> Path:
    """A copy of a vocabulary-only GGUF whose `tokenizer.ggml.pre` is `pre`."""
    data, key = source.read_bytes(), b"tokenizer.ggml.pre"
    at = data.index(struct.pack("<Q", len(key)) + key) + 8 + len(key) + 4
    (old,) = struct.unpack_from("<Q", data, at)
    target.write_bytes(data[:at] + struct.pack("<Q", len(pre)) + pre.encode() + data[at + 8 + old :])
    return target


def small_vocabulary(tok: Tokenizer, metadata: dict[str, Any], cases: list[list[Any]], ids: list[list[int]]) -> dict[str, Any]:
    """The part of a vocabulary that can play a role in `cases`: what merging their words may meet, the bytes, what the ids name.

    A word's merges only ever make pieces of that word, so tokens that occur in no case leave the result untouched.
    """
    tokens = tok.vocab.all_tokens()
    spelled = _spellings(tok, cases)
    merges = [m for m in metadata.get("tokenizer.ggml.merges", ()) if m.replace(" ", "", 1) in spelled]
    keep = {i for row in ids for i in row}
    keep |= {i for i, t in enumerate(tokens) if t in spelled}
    keep |= set(np.flatnonzero(tok.vocab.types == CONTROL)[:64].tolist()) | set(np.flatnonzero(tok.vocab.types == BYTE).tolist())
    keep |= {i for i, t in enumerate(tokens) if len(t) == 1 and t in BYTE_OF_CHAR}
    keep |= {i for i in (tok.vocab.bos_id, tok.vocab.eos_id, tok.vocab.unk_id) if i is not None}
    order = sorted(keep)
    place = {old: new for new, old in enumerate(order)}
    keys = {k: v for k, v in metadata.items() if k.startswith("tokenizer.ggml.") and isinstance(v, str | bool)}
    for role in ("bos", "eos", "unknown"):
        old = metadata.get(f"tokenizer.ggml.{role}_token_id")
        if old is not None:
            keys[f"tokenizer.ggml.{role}_token_id"] = place[old]
    out = {"keys": keys, "tokens": [tokens[i] for i in order], "types": [int(tok.vocab.types[i]) for i in order], "merges": merges}
    if "tokenizer.ggml.scores" in metadata:
        out["scores"] = [float(metadata["tokenizer.ggml.scores"][i]) for i in order]
    return {**out, "cases": cases, "ids": [[place[i] for i in row] for row in ids]}


def _spellings(tok: Tokenizer, cases: list[list[Any]]) -> set[str]:
    """Every piece of every text as the vocabulary would spell it, up to 40 characters."""
    char_of = {b: c for c, b in BYTE_OF_CHAR.items()}
    found = set()
    for text, *_ in cases:
        in_bytes = tok.vocab.spelling == "bytes"
        spelled = "".join(char_of[b] for b in text.encode()) if in_bytes else (" " + text).replace(" ", "\u2581")
        found |= {spelled[i : i + n] for n in range(1, 41) for i in range(len(spelled) - n + 1)}
        found |= {text[i : i + n] for n in range(1, 41) for i in range(len(text) - n + 1)}
    return found


def record(name: str, content: dict[str, Any]) -> None:
    DATA.mkdir(exist_ok=True)
    path = DATA / f"tokenizer_{name}.json"
    path.write_text(json.dumps(content, ensure_ascii=True, separators=(",", ":")) + "\n")
    print(f"  recorded {path.name}: {len(content['cases'])} cases, {len(content['tokens']):,} tokens, {path.stat().st_size:,} bytes")


def judge_models(args: argparse.Namespace, work: Path) -> int:
    wrong = 0
    for spec in args.model:
        name, _, paths = spec.partition("=")
        parts = [Path(p) for p in paths.split(",")]
        whole = parts[0]
        if len(parts) > 1:
            whole = work / f"{name}.gguf"
            with whole.open("wb") as out:
                for p in parts:
                    out.write(p.read_bytes())
        metadata = open_gguf(parts).metadata
        tok = Tokenizer.from_gguf(metadata, name)
        cases = [[t, bos, special] for t in HARD_TEXTS for bos in (True, False) for special in (True, False)]
        want = peer_ids(args.peer, whole, cases)
        wrong += compare(name, tok, cases, want)
        if args.record:
            kept = [i for i, c in enumerate(cases) if c[1] == c[2] and not any(t in c[0] for t in PEER_MISREADS)]
            record(name, small_vocabulary(tok, metadata, [cases[i] for i in kept], [want[i] for i in kept]))
    return wrong


def judge_archive(args: argparse.Namespace, work: Path) -> int:
    wrong = 0
    with tarfile.open(args.archive) as tar:
        for member in tar:
            if "/vendor/llama.cpp/models/ggml-vocab-" in member.name and member.isfile():
                (work / Path(member.name).name).write_bytes(tar.extractfile(member).read())  # type: ignore[union-attr]
    for inputs in sorted(work.glob("*.gguf.inp")):
        vocab = inputs.with_suffix("")
        name = vocab.name.removeprefix("ggml-vocab-").removesuffix(".gguf")
        metadata = open_gguf(vocab).metadata
        if metadata["tokenizer.ggml.model"] == "bert":              # WordPiece models come with a tokenizer.json
            continue
        tok = Tokenizer.from_gguf(metadata, name)
        texts = inputs.read_bytes().decode().split(SEPARATOR)
        want = [[int(i) for i in line.split()] for line in vocab.with_suffix(".gguf.out").read_text().split("\n")][: len(texts)]
        cases = [[t, False, False] for t in texts]
        wrong += compare(f"{name} (archive)", tok, cases, want)
        if args.record:
            record(f"archive_{name}", small_vocabulary(tok, metadata, cases, want))
    return wrong + judge_pre_tokenizers(args, work)


def judge_pre_tokenizers(args: argparse.Namespace, work: Path) -> int:
    """Every pre-tokenizer that we claim, under one vocabulary: the ids differ wherever the cuts do."""
    wrong, seen = 0, set()
    carrier = work / f"ggml-vocab-{CARRIER}.gguf"
    cases = [[t, False, False] for t in HARD_TEXTS]
    table = {}
    for pre, rule in PRE_TOKENIZERS.items():
        if not rule.byte_level:
            continue
        patched = with_pre(carrier, pre, work / "patched.gguf")
        metadata = open_gguf(patched).metadata
        want = peer_ids(args.peer, patched, cases)
        wrong += compare(f"pre {pre}", Tokenizer.from_gguf(metadata, pre), cases, want)
        if rule not in seen:
            table[pre] = want
        seen.add(rule)
    if args.record:
        metadata = open_gguf(carrier).metadata
        rows = [row for rows in table.values() for row in rows]
        content = small_vocabulary(Tokenizer.from_gguf(metadata, CARRIER), metadata, cases * len(table), rows)
        n = len(cases)
        by_pre = {pre: content["ids"][i * n : (i + 1) * n] for i, pre in enumerate(table)}
        record("pre", {**content, "cases": cases, "ids": by_pre})
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--peer", required=True)
    parser.add_argument("--archive", type=Path)
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--record", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        wrong = judge_models(args, Path(work))
        if args.archive:
            wrong += judge_archive(args, Path(work))
    print(f"{wrong} differences")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
