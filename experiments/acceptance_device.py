"""Does acceptance collapse on a device? One text, drafted under one way of computing and checked under others: batches, chunks, kernels, KV."""

from __future__ import annotations

from typing import Any

EXPERIMENT = {
    "title": "Acceptance of a model's own greedy text when another kernel, KV format or batch shape checks it",
    "family": "exactness",
    "timeout": 3600.0,
    "needs": ["smollm2-135m-instruct"],
    "setting": {"model": "SmolLM2-135M-Instruct", "tokens": "32"},
}

PROMPTS = (
    "The capital of France is", "Once upon a time there was a", "def fibonacci(n):\n    ", "Water boils at one hundred degrees, and ice",
    "Dear Sir or Madam,\n\nI am writing to", "The three primary colours are",
)
# the same kernel signature: acceptance must be one; another signature or KV format: another model, numerically
SAME = {"one row at a time": {}, "steps of 7 tokens": {"step_tokens": 7}, "one thread": {"threads": 1}}
OTHER = {"kv q8": {"kv_format": "q8"}, "numpy kernels": {"backend": "reference"}}


def _drafts(tokens: int) -> tuple[list[list[int]], list[list[int]]]:
    """(prompts, greedy continuations), all rows of one batch."""
    from headwater.llm import LLM, SamplingParams

    llm = LLM("smollm2-135m-instruct", context=512)
    try:
        outs = llm.generate(list(PROMPTS), SamplingParams(temperature=0.0, max_tokens=tokens, ignore_eos=True))
        return [o.prompt_token_ids for o in outs], [o.outputs[0].token_ids for o in outs]
    finally:
        llm.close()


def _held(prompts: list[list[int]], drafts: list[list[int]], alone: bool, fields: dict[str, Any]) -> list[bool]:
    """Whether each drafted token is what this way of computing would have drawn at its place."""
    from headwater.llm import LLM, SamplingParams

    llm = LLM("smollm2-135m-instruct", context=512, **fields)
    try:
        params = SamplingParams(temperature=0.0, max_tokens=1, prompt_logprobs=1)
        asked = [p + d for p, d in zip(prompts, drafts, strict=True)]
        outs = [llm.generate([a], params)[0] for a in asked] if alone else llm.generate(asked, params)
        return [
            next(t for t, e in place.items() if e.rank == 1) == token
            for o, p, d in zip(outs, prompts, drafts, strict=True)
            for place, token in zip((o.prompt_logprobs or [])[len(p) :], d, strict=True)
        ]
    finally:
        llm.close()


def run(setting: dict[str, str]) -> dict[str, Any]:
    """One outcome; see experiments/README.md."""
    from headwater import __version__
    from headwater.kernels import native

    prompts, drafts = _drafts(int(setting["tokens"]))
    alpha, compared, violations, example = {}, 0, 0, ""
    for name, fields in (SAME | OTHER).items():
        if name == "numpy kernels" and not native.available():
            continue
        held = _held(prompts, drafts, name == "one row at a time", fields)
        alpha[name] = round(sum(held) / len(held), 4)
        if name in SAME:
            compared += len(held)
            violations += held.count(False)
            if not all(held):
                example = example or f"{name}: token {held.index(False)} of {len(held)}"
    return {
        "metric": "acceptance", "n": len(PROMPTS) * len(alpha),
        "setting": {"model": "SmolLM2-135M-Instruct", "task": "greedy continuation", "baseline": "a batch of six rows, native kernels, KV f16"},
        "exactness": {"compared": compared, "violations": violations, "counter_example": example},
        "companions": {
            "baseline_name": "the draft checked by the very way that made it", "baseline_version": __version__,
            "baseline_flags": f"native kernels {native.signature() if native.available() else 'reference'}, --kv-format f16",
            "baseline_generation": "same build", "quality_cost": 0.0 if not violations else None, "ablation": alpha,
        },
        "note": "batch shape, chunks and threads of one kernel signature are held to exactness; other kernels and KV formats stand in `ablation`",
    }
