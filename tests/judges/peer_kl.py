"""Runs in the peer's environment: llama-cpp-python's logits at the same positions of the same file, as divergences from the reference.

    python peer_kl.py FILE.gguf FOLDER THREADS

FOLDER: the .npz files of reference_logits.py. Prints one JSON object: {"kl": [[per token] per prompt], "argmax": [[equal?] per prompt]}.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import llama_cpp.llama_cpp as library
import numpy as np
from llama_cpp import Llama

_defaults = library.llama_model_default_params


def without_repacking() -> library.llama_model_params:
    """Repacked weights may use AMX, which some virtual machines announce and then trap."""
    params = _defaults()
    params.use_extra_bufts = False
    return params


library.llama_model_default_params = without_repacking


def log_softmax(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64)
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def main() -> None:
    folder = Path(sys.argv[2])
    files = sorted(folder.glob("*.npz"), key=lambda p: int(p.stem))
    longest = max(len(np.load(f)["ids"]) for f in files)
    threads = int(sys.argv[3])
    llama = Llama(sys.argv[1], n_ctx=longest + 8, n_batch=512, n_threads=threads, n_threads_batch=threads, logits_all=True, verbose=False)
    kl, argmax = [], []
    for file in files:
        with np.load(file) as data:
            ids, logits = data["ids"], data["logits"]
        llama.reset()
        llama.eval([int(t) for t in ids[:-1]])
        theirs = llama.scores[len(ids) - 1 - len(logits) : len(ids) - 1]
        p, q = log_softmax(logits), log_softmax(np.asarray(theirs))
        kl.append((np.exp(p) * (p - q)).sum(-1).tolist())
        argmax.append((p.argmax(-1) == q.argmax(-1)).tolist())
    print(json.dumps({"kl": kl, "argmax": argmax}))


if __name__ == "__main__":
    main()
