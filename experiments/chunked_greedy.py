"""Greedy decoding under chunking: a prompt computed whole, and in pieces of several sizes, gives the same tokens and the same bits."""

from __future__ import annotations

from typing import Any

EXPERIMENT = {
    "title": "Greedy tokens and log-probabilities do not depend on how a prompt is cut into steps",
    "family": "exactness",
    "timeout": 1800.0,
    "needs": ["smollm2-135m-instruct"],
    "setting": {"model": "SmolLM2-135M-Instruct"},
}

STEP_TOKENS = (1, 7, 16, 61)      # against a whole prompt in one step
TOKENS = 24
PROMPTS = (
    "The capital of France is",
    "Question: a farmer has seventeen sheep and buys five more, then sells eight. How many sheep are left? Explain step by step.\nAnswer:",
    "List the planets of the solar system in order, and say one thing about each of them.\n" * 3,
    "def fibonacci(n):\n    \"\"\"Return the n-th Fibonacci number.\"\"\"\n",
)


def _answers(step_tokens: int) -> list[tuple[list[int], list[float]]]:
    """(tokens, log-probabilities) per prompt, all prompts running together."""
    from headwater.llm import LLM, SamplingParams

    llm = LLM("smollm2-135m-instruct", step_tokens=step_tokens)
    try:
        outputs = llm.generate(list(PROMPTS), SamplingParams(temperature=0.0, max_tokens=TOKENS, ignore_eos=True, logprobs=0))
        out = []
        for o in outputs:
            done = o.outputs[0]
            out.append((done.token_ids, [entry[t].logprob for t, entry in zip(done.token_ids, done.logprobs or [], strict=True)]))
        return out
    finally:
        llm.close()


def run(setting: dict[str, str]) -> dict[str, Any]:
    """One outcome; see experiments/README.md."""
    del setting
    from headwater import __version__

    whole = _answers(2048)
    compared, violations, example, by_size = 0, 0, "", {}
    for size in STEP_TOKENS:
        differs = 0
        for n, (ours, theirs) in enumerate(zip(_answers(size), whole, strict=True)):
            for at, pair in enumerate(zip(*ours, *theirs, strict=True)):
                compared += 1
                if pair[:2] != pair[2:]:
                    differs += 1
                    example = example or f"step_tokens {size}, prompt {n}, token {at}: {pair[:2]} against {pair[2:]}"
        violations += differs
        by_size[f"step_tokens {size}"] = differs
    return {
        "metric": "greedy_identity",
        "n": len(STEP_TOKENS) * len(PROMPTS),
        "setting": {"model": "SmolLM2-135M-Instruct", "task": "greedy continuation", "baseline": "whole prompts"},
        "exactness": {"compared": compared, "violations": violations, "counter_example": example},
        "companions": {
            "baseline_name": "whole prompts in one step", "baseline_version": __version__, "baseline_flags": "--step-tokens 2048",
            "baseline_generation": "same build", "quality_cost": 0.0 if not violations else None, "ablation": by_size,
        },
        "note": "log-probabilities are compared as float values, bit for bit",
    }
