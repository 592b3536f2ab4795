"""headwater complete: continue a text on the command line."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from headwater.cli import options as o


def complete(
    prompt: Annotated[str, typer.Argument(help="The text to continue; - reads it from standard input.")],
    model: o.Model = o.DEFAULT_MODEL,
    max_tokens: o.MaxTokens = 128,
    temperature: o.Temperature = 0.0,
    top_p: o.TopP = 1.0,
    top_k: o.TopK = 0,
    seed: o.Seed = None,
    stop: Annotated[list[str], typer.Option(help="Stop before this text; may be given several times.")] = [],  # noqa: B006
    weights: o.Weights = "as-is",
    kv_memory: o.KvMemory = None,
    context: o.Context = None,
    threads: o.Threads = None,
    draft: o.Draft = "none",
    attend: o.Attend = "dense",
    rope_scaling: o.RopeScaling = "",
    backend: o.Backend = "auto",
    accept_licence: o.AcceptLicence = False,
) -> None:
    """Continue PROMPT and stream the text to standard output."""
    from headwater.core.params import SamplingParams
    from headwater.llm import LLM

    text = sys.stdin.read() if prompt == "-" else prompt
    params = SamplingParams(max_tokens=max_tokens, temperature=temperature, top_p=top_p, top_k=top_k, seed=seed, stop=stop)
    llm = LLM(
        model, weights=weights, kv_memory=kv_memory, context=context, threads=threads, draft=draft, attend=attend,
        rope_scaling=rope_scaling, backend=backend,
        accept_licence=accept_licence,
        progress=o.load_progress(),
    )
    done = llm.generate(text, params, on_delta=lambda _, d: print(d.text, end="", flush=True))[0]
    print()
    if seed is None and temperature > 0:
        print(f"seed {done.outputs[0].x_seed}", file=sys.stderr)
