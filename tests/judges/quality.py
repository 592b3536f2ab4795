"""Judge: what the fast path costs in quality. Perplexity against exact arithmetic on long plain text and on arithmetic, and what 8-bit keys and
values add.

    python tests/judges/quality.py --model NAME=PATH[,PATH...] --text NAME=FILE [--tokens 50000] [--window 512] [--kv-context 4096] [--kv q8,q8r]

The exact side is the recorded program in float64 with dequantised weights (`tests/unit/plain_forward.py`); it shares nothing with the kernels.
--text: plain text, or .jsonl whose string fields are joined line by line. Texts are cut into windows of --window tokens, each read without the
ones before; every token but a window's first is scored. --kv-context: the mean KL to the exact logits of the last 256 positions of that many
tokens, with f16 keys and values and with those of the --kv formats; 0 leaves it out.

Asked for: perplexity within 0.5 %; q8 at most 1e-3 more mean KL than f16 (a model named qwen... is reported only: its key biases make channels
that stand out, and 8 bits per 32 channels of a token lose their neighbours). Exit code 1 when one of them fails.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from divergence import log_softmax
from executors import native_logits
from rich.console import Console
from rich.progress import track

from headwater.model.load.loader import Model, load_model
from headwater.text.tokenizer import Tokenizer

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.unit.plain_forward import forward

PERPLEXITY_LIMIT = 5e-3
KV_LIMIT = 1e-3
KV_POSITIONS = 256


@dataclass(frozen=True, slots=True)
class Both:
    """Mean negative log-likelihood in nats, ours and the exact one, over `tokens` scored tokens."""

    ours: float
    exact: float
    tokens: int

    @property
    def excess(self) -> float:
        """Relative difference of the perplexities."""
        return float(np.expm1(self.ours - self.exact))


def read_text(path: Path) -> str:
    if path.suffix != ".jsonl":
        return path.read_text("utf-8", "replace")
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
    return "\n\n".join("\n".join(v for v in row.values() if isinstance(v, str)) for row in rows)


def likelihood(logits: np.ndarray, targets: np.ndarray) -> float:
    """Sum of negative log-likelihoods."""
    return float(-log_softmax(logits)[np.arange(len(targets)), targets].sum())


def perplexity(model: Model, weights: dict[int, np.ndarray], ids: np.ndarray, window: int) -> Both:
    ours = exact = 0.0
    scored = 0
    for start in track(range(0, len(ids) - 1, window), "windows", console=Console(stderr=True), transient=True):
        piece = ids[start : start + window + 1]
        if len(piece) < 2:
            break
        inputs, at = piece[:-1], np.arange(len(piece) - 1)
        ours += likelihood(native_logits(model, inputs, at), piece[1:])
        exact += likelihood(forward(model.program, inputs, weights), piece[1:])
        scored += len(at)
    return Both(ours / scored, exact / scored, scored)


def kv_cost(paths: list[Path], model: Model, weights: dict[int, np.ndarray], ids: np.ndarray, formats: list[str]) -> list[float]:
    """Mean KL to the exact logits of the last positions, with f16 keys and values and with those of each format."""
    at = np.arange(max(0, len(ids) - KV_POSITIONS), len(ids))
    exact = log_softmax(forward(model.program, ids, weights)[at])
    out = []
    for kept in (model, *(load_model(paths, kv_format=format) for format in formats)):
        out.append(float((np.exp(exact) * (exact - log_softmax(native_logits(kept, ids, at)))).sum(-1).mean()))
    return out


def judge(name: str, paths: list[Path], args: argparse.Namespace) -> int:
    model = load_model(paths)
    weights: dict[int, np.ndarray] = {}
    tokenizer = Tokenizer.from_gguf(model.tokenizer.metadata) if model.tokenizer.kind == "gguf" else Tokenizer.from_json(model.tokenizer.folder)
    failed = 0
    for label, file in args.text:
        text = read_text(file)
        ids = np.array(tokenizer.encode(text[: 8 * max(args.tokens, args.kv_context)]), np.int32)
        began = time.perf_counter()
        if args.tokens:
            both = perplexity(model, weights, ids[: args.tokens], args.window)
            bad = abs(both.excess) > PERPLEXITY_LIMIT
            failed |= bad
            print(f"{name} {label}: perplexity {np.exp(both.ours):.4f}, exact {np.exp(both.exact):.4f}, {100 * both.excess:+.3f} % over "
                  f"{both.tokens:,} tokens{'  FAILS' if bad else ''}  ({time.perf_counter() - began:.0f} s)", flush=True)
        if args.kv_context:
            formats = args.kv.split(",")
            half, *coded = kv_cost(paths, model, weights, ids[: args.kv_context], formats)
            for format, cost in zip(formats, coded, strict=True):
                bad = format.startswith("q8") and cost - half > KV_LIMIT and not name.startswith("qwen")
                failed |= bad
                print(f"{name} {label}: mean KL at {min(len(ids), args.kv_context):,} tokens: f16 {half:.3e}, {format} {cost:.3e}, {cost - half:+.2e}"
                      f"{'  FAILS' if bad else ''}", flush=True)
    return int(failed)


def named(text: str, several: bool) -> tuple[str, list[Path]] | tuple[str, Path]:
    name, _, paths = text.partition("=")
    return (name, [Path(p) for p in paths.split(",")]) if several else (name, Path(paths))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", action="append", required=True, type=partial(named, several=True))
    parser.add_argument("--text", action="append", required=True, type=partial(named, several=False))
    parser.add_argument("--tokens", type=int, default=50_000)
    parser.add_argument("--window", type=int, default=512)
    parser.add_argument("--kv-context", type=int, default=4096)
    parser.add_argument("--kv", default="q8")
    args = parser.parse_args()
    return max(judge(name, paths, args) for name, paths in args.model)


if __name__ == "__main__":
    sys.exit(main())
