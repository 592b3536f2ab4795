"""Speculative decoding keeps the distribution: with draws keyed by (seed, position) it keeps every single draw, and the log-probabilities' bits."""

from __future__ import annotations

from typing import Any

EXPERIMENT = {
    "title": "Tokens and log-probabilities with drafts on are those of plain decoding, greedy and sampled, for every drafter",
    "family": "exactness",
    "timeout": 3600.0,
    "needs": ["smollm2-135m-instruct"],
    "setting": {"model": "SmolLM2-135M-Instruct", "tokens": "40"},
}

DRAFTS = ("ngram", "suffix", "suffix+ngram", "selfdraft:budget=8,most=24", "suffix+ngram+selfdraft:budget=8,interval=8,most=24")
PROMPTS = (
    "Repeat after me: one two three, one two three, one two three,",
    "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n    return a - b\n\n\ndef mul(a, b):\n",
    "The sea was calm. The sky was blue. The sea was",
)


def run(setting: dict[str, str]) -> dict[str, Any]:
    """One outcome; see experiments/README.md."""
    from headwater import __version__
    from headwater.bench.speculate_cost import Bench
    from headwater.core.params import SamplingParams
    from headwater.engine.expand import GenerateRequest
    from headwater.llm import LLM

    llm = LLM("smollm2-135m-instruct", context=1024)
    bench = Bench(llm)
    wants = [
        GenerateRequest(llm.tokenizer.encode(p), SamplingParams(temperature=t, top_p=0.95, seed=5, max_tokens=int(setting["tokens"]), logprobs=2,
                                                                ignore_eos=True, repetition_penalty=r))
        for p in PROMPTS for t, r in ((0.0, 1.0), (0.8, 1.0), (1.2, 1.1))
    ]

    def said() -> list[list[tuple[int, float]]]:
        return [[(e.token, e.logprob) for e in c.logprobs or []] for a in bench.run(wants).answers for c in a.choices]

    try:
        bench.draft_with("none")
        plain = said()
        compared, violations, example, by_draft, used = 0, 0, "", {}, {}
        for draft in DRAFTS:
            bench.draft_with(draft)
            bench.guessers[draft].cost = None                       # eager: guesses at a fixed price, so that many are checked
            differs = 0
            for _ in range(2):                                      # the second time past outputs are there to draft from
                for n, (ours, theirs) in enumerate(zip(said(), plain, strict=True)):
                    for at, (a, b) in enumerate(zip(ours, theirs, strict=True)):
                        compared += 1
                        if a != b:
                            differs += 1
                            example = example or f"{draft}, request {n}, token {at}: {a} against {b}"
            violations += differs
            by_draft[draft] = differs
            used[draft] = {s: list(c) for s, c in bench.guessers[draft].counts.by_source.items()}
    finally:
        llm.close()
    return {
        "metric": "identity", "n": len(DRAFTS) * len(wants) * 2,
        "setting": {"model": "SmolLM2-135M-Instruct", "task": "continuation, greedy and sampled", "baseline": "plain decoding"},
        "exactness": {"compared": compared, "violations": violations, "counter_example": example},
        "companions": {
            "baseline_name": "plain decoding", "baseline_version": __version__, "baseline_flags": "--draft none", "baseline_generation": "same build",
            "quality_cost": 0.0 if not violations else None, "ablation": by_draft, "guesses drafted and accepted": used,
        },
        "note": "deterministic drafts checked against the target's own keyed draws: stronger than keeping the distribution; a sampled drafter would "
                "need rejection sampling, which keeps the distribution and not the draws",
    }
