"""Judge: our logits against `transformers` in float32 with weights from the same GGUF file, and against llama-cpp-python at the same positions.

    python tests/judges/divergence.py --reference PYTHON [--peer PYTHON] --model NAME=PATH[,PATH...] [--cache FOLDER] [--prompts N]

--reference: a Python with torch and transformers; it continues every prompt greedily by 64 tokens, and everybody is asked for the logits that
chose them. --peer: a Python with llama-cpp-python. --model: a GGUF, or its parts in order. --cache: keeps the reference's logits for later runs.

Asked for: the numpy path has the reference's arg-max wherever its two best logits are more than 1e-3 apart; the native path's mean KL divergence
is at most 2e-3 a token and at most 1.1 times the peer's. Exit code 1 when one of them fails.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from executors import native_logits, numpy_logits
from prompts import PROMPTS, long_prompt

from headwater.model.load.loader import Model, load_model
from headwater.text.tokenizer import Tokenizer

HERE = Path(__file__).parent
NEW_TOKENS = 64
GAP = 1e-3
KL_LIMIT = 2e-3
PEER_FACTOR = 1.1

Logits = Callable[[np.ndarray, np.ndarray], np.ndarray]              # (ids, positions) -> float32[positions, vocabulary]


@dataclass(frozen=True, slots=True)
class Score:
    """kl: nats per position. equal: whether the arg-max is the reference's. clear: whether the reference's best two are more than GAP apart."""

    kl: np.ndarray
    equal: np.ndarray
    clear: np.ndarray

    @property
    def broken(self) -> int:
        return int((self.clear & ~self.equal).sum())


def log_softmax(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64)
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def score(reference: np.ndarray, ours: np.ndarray) -> Score:
    p, q = log_softmax(reference), log_softmax(ours)
    best = np.partition(reference, -2, axis=-1)[:, -2:]
    return Score((np.exp(p) * (p - q)).sum(-1), reference.argmax(-1) == ours.argmax(-1), best[:, 1] - best[:, 0] > GAP)


def recorded(folder: Path) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(ids, logits) of each prompt, in order."""
    for file in sorted(folder.glob("*.npz"), key=lambda p: int(p.stem)):
        with np.load(file) as data:
            yield data["ids"], data["logits"]


def measure(folder: Path, logits: Logits) -> Score:
    """Teacher-forced: every position sees the reference's own tokens."""
    scores = []
    for ids, reference in recorded(folder):
        last = len(ids) - 1
        scores.append(score(reference, logits(ids[:-1], np.arange(last - len(reference), last))))
    return Score(*(np.concatenate([getattr(s, f) for s in scores]) for f in ("kl", "equal", "clear")))


def make_reference(python: str, gguf: Path, prompts: list[list[int]], cache: Path) -> Path:
    """Folder of the reference's logits; derived once per (file, prompts, script) when the cache is kept."""
    script = HERE / "reference_logits.py"
    with gguf.open("rb") as file:
        start = file.read(1 << 20)
    key = hashlib.sha256(f"{gguf.stat().st_size} {prompts} {NEW_TOKENS}".encode() + script.read_bytes() + start).hexdigest()
    folder = cache / key[:16]
    if (folder / "done").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prompts.json").write_text(json.dumps(prompts))
    command = [python, str(script), str(gguf), str(folder / "prompts.json"), str(folder), str(NEW_TOKENS)]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    (folder / "done").touch()
    return folder


def peer_score(python: str, gguf: Path, folder: Path, threads: int = 1) -> float:
    """The peer's mean KL."""
    done = subprocess.run([python, str(HERE / "peer_kl.py"), str(gguf), str(folder), str(threads)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the peer failed: {done.stderr[-400:]}")
    return float(np.concatenate([np.asarray(k) for k in json.loads(done.stdout)["kl"]]).mean())


def joined(paths: Sequence[Path], work: Path) -> Path:
    """One file: the reference and the peer cannot read parts."""
    if len(paths) == 1:
        return paths[0]
    target = work / "joined.gguf"
    with target.open("wb") as out:
        for path in paths:
            with path.open("rb") as part:
                shutil.copyfileobj(part, out, 1 << 20)
    return target


def judge(name: str, paths: Sequence[Path], args: argparse.Namespace, work: Path) -> int:
    model: Model = load_model(paths)
    tokenizer = Tokenizer.from_gguf(model.tokenizer.metadata)
    texts = [*PROMPTS, long_prompt()] if any(model.config.windows) else PROMPTS
    prompts = [list(map(int, tokenizer.encode(text))) for text in texts[-args.prompts :]]
    gguf = joined(paths, work)
    folder = make_reference(args.reference, gguf, prompts, args.cache or work)
    native = measure(folder, partial(native_logits, model))
    exact = measure(folder, partial(numpy_logits, model))
    peer = peer_score(args.peer, gguf, folder) if args.peer else None
    kl = float(native.kl.mean())
    print(f"{name}: {len(native.kl)} positions of {len(prompts)} prompts, the longest {max(map(len, prompts))} tokens")
    differs = int((~exact.equal).sum())
    print(f"  numpy path:  mean KL {exact.kl.mean():.2e}, arg-max differs at {differs}, {exact.broken} of them past a gap of {GAP:g}")
    print(f"  native path: mean KL {kl:.2e} (at most {KL_LIMIT:g}), arg-max differs at {int((~native.equal).sum())}")
    if peer is not None:
        print(f"  the peer:    mean KL {peer:.2e}, ours is {kl / peer:.2f} times that (at most {PEER_FACTOR})")
    return int(exact.broken > 0 or kl > KL_LIMIT or (peer is not None and kl > PEER_FACTOR * peer))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--reference", required=True)
    parser.add_argument("--peer")
    parser.add_argument("--model", action="append", required=True)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--prompts", type=int, default=len(PROMPTS) + 1, help="only the last N prompts")
    args = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as work:
        for item in args.model:
            name, _, paths = item.partition("=")
            failed |= judge(name, [Path(p) for p in paths.split(",")], args, Path(work))
    return failed


if __name__ == "__main__":
    sys.exit(main())
