"""Runs in the judges' environment: greedy continuations and their logits from `transformers` in float32, weights from the same GGUF file.

    python reference_logits.py FILE.gguf PROMPTS.json OUT_FOLDER NEW_TOKENS

PROMPTS.json: a list of lists of ids. Writes OUT_FOLDER/<i>.npz with ids int32[prompt + new] and logits float32[new, vocab], where logits[j] are
those that chose token prompt + j. The library reads and dequantises the GGUF file with code of its own.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM


def continue_greedily(model: torch.nn.Module, prompt: list[int], new: int) -> tuple[np.ndarray, np.ndarray]:
    """The loop is ours, so that no generation setting of the file interferes."""
    ids, logits = list(prompt), []
    cache = None
    step = torch.tensor([ids])
    for _ in range(new):
        out = model(step, past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        row = out.logits[0, -1].float()
        logits.append(row.numpy())
        ids.append(int(row.argmax()))
        step = torch.tensor([[ids[-1]]])
    return np.array(ids, np.int32), np.stack(logits)


def main() -> None:
    gguf, prompts, out, new = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text()), Path(sys.argv[3]), int(sys.argv[4])
    model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32, attn_implementation="eager")
    model.eval()
    with torch.inference_mode():
        for i, prompt in enumerate(prompts):
            ids, logits = continue_greedily(model, prompt, new)
            np.savez(out / f"{i}.npz", ids=ids, logits=logits)
            print(f"reference: prompt {i + 1} of {len(prompts)}", flush=True)


if __name__ == "__main__":
    main()
