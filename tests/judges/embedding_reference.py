"""Runs in the judges' environment: text embeddings from `transformers` in float32, mean over a text's tokens, length one.

    python embedding_reference.py FOLDER IDS.json OUT.npy
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModel


def main() -> None:
    model = AutoModel.from_pretrained(sys.argv[1], dtype=torch.float32, attn_implementation="eager").eval()
    rows = []
    with torch.inference_mode():
        for ids in json.loads(Path(sys.argv[2]).read_text()):
            hidden = model(torch.tensor([ids])).last_hidden_state[0]
            rows.append(torch.nn.functional.normalize(hidden.mean(0), dim=0).numpy())
    np.save(sys.argv[3], np.stack(rows))


if __name__ == "__main__":
    main()
