"""The in-process half of lmeval_client.py: the same log-likelihoods from `LLM`, without a server.

    lmeval_in_process.py MODEL SCORED.json
"""

import json
import sys
from pathlib import Path

from headwater.core.params import SamplingParams
from headwater.llm import LLM

llm = LLM(sys.argv[1])
scored = json.loads(Path(sys.argv[2]).read_text())
worst = 0.0
for item in scored:
    context, continuation = item["context"], item["continuation"]
    stripped = context.rstrip()                                     # lm-eval moves trailing spaces to the continuation
    encode = llm.tokenizer.encode
    whole, kept = (encode(t, add_special=False) for t in (context + continuation, stripped))
    out = llm.generate([whole], SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=1))[0]
    told = out.prompt_logprobs[len(kept) :]
    total = sum(entry[token].logprob for entry, token in zip(told, whole[len(kept) :], strict=True))
    greedy = all(entry[token].logprob == max(x.logprob for x in entry.values()) for entry, token in zip(told, whole[len(kept) :], strict=True))
    worst = max(worst, abs(total - item["logprob"]))
    assert greedy == item["greedy"], item
assert worst < 5e-5, f"differs by {worst}"
