"""`headwater complete` without the command-line library, whose import takes a quarter of the time to a first token.

Only command lines that are understood completely come this way: everything else, mistakes and --help included, goes to `cli/complete.py`. The
options are the same by test.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

OPTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {            # spelling -> parameter of `run`, and what its value is
    "--model": ("model", str), "-m": ("model", str), "--max-tokens": ("max_tokens", int), "--temperature": ("temperature", float),
    "--top-p": ("top_p", float), "--top-k": ("top_k", int), "--seed": ("seed", int), "--stop": ("stop", str), "--weights": ("weights", str),
    "--kv-memory": ("kv_memory", str), "--context": ("context", int), "--threads": ("threads", int), "--draft": ("draft", str),
    "--backend": ("backend", str),
}
SEVERAL = ("stop",)


def parse(argv: Sequence[str]) -> dict[str, Any] | None:
    """The arguments of `run` from what stands after `complete`; None when anything is unclear."""
    found: dict[str, Any] = {}
    at = 0
    while at < len(argv):
        word = argv[at]
        if word not in OPTIONS:
            if (word.startswith("-") and word != "-") or "prompt" in found:
                return None
            found["prompt"] = word
            at += 1
            continue
        name, kind = OPTIONS[word]
        if at + 1 == len(argv) or argv[at + 1] in OPTIONS or (name in found and name not in SEVERAL):
            return None
        try:
            value = kind(argv[at + 1])
        except ValueError:
            return None
        if name in SEVERAL:
            found.setdefault(name, []).append(value)
        else:
            found[name] = value
        at += 2
    return found if "prompt" in found else None


def run(
    prompt: str, *, model: str = "smollm2-135m-instruct", max_tokens: int | None = 128, temperature: float = 0.0, top_p: float = 1.0, top_k: int = 0,
    seed: int | None = None, stop: Sequence[str] = (), weights: str = "as-is", kv_memory: str | None = None, context: int | None = None,
    threads: int | None = None, draft: str = "none", backend: str = "auto", accept_licence: bool = False,
) -> None:
    """Continue the prompt (`-`: standard input) and stream the text to standard output; a seed that was drawn for it goes to standard error."""
    from headwater.cli.loadbar import load_progress
    from headwater.core.params import SamplingParams
    from headwater.llm import LLM

    text = sys.stdin.read() if prompt == "-" else prompt
    params = SamplingParams(max_tokens=max_tokens, temperature=temperature, top_p=top_p, top_k=top_k, seed=seed, stop=list(stop))
    llm = LLM(
        model, weights=weights, kv_memory=kv_memory, context=context, threads=threads, draft=draft, backend=backend, accept_licence=accept_licence,
        progress=load_progress(),
    )
    done = llm.generate(text, params, on_delta=lambda _, d: print(d.text, end="", flush=True))[0]
    print()
    if seed is None and temperature > 0:
        print(f"seed {done.outputs[0].x_seed}", file=sys.stderr)
