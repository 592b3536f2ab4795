"""Judge: text embeddings of a real encoder, ours against `transformers` in float32 on the same ids.

    python tests/judges/embeddings.py --reference PYTHON --folder FOLDER

Float32 weights; our cache rounds keys and values to float16. Asked for: every cosine at least 0.99999. Exit code 1 when one is below.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from executors import hidden_rows
from prompts import PROMPTS, long_prompt

from headwater.kernels.lower import NativeProgram
from headwater.kernels.reference import ReferenceProgram
from headwater.model.load.loader import Model, load_model
from headwater.text.tokenizer import Tokenizer

HERE = Path(__file__).parent
LEAST_COSINE = 0.99999


def embed(model: Model, program: NativeProgram | ReferenceProgram, ids: list[int]) -> np.ndarray:
    """float64[dim], the mean over the text's tokens at length one."""
    mean = hidden_rows(model, program, np.array(ids), np.arange(len(ids))).astype(np.float64).mean(0)
    return mean / np.linalg.norm(mean)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--reference", required=True)
    parser.add_argument("--folder", required=True)
    args = parser.parse_args()
    model, tokenizer = load_model(args.folder), Tokenizer.from_json(args.folder)
    texts = [list(map(int, tokenizer.encode(text))) for text in (*PROMPTS, long_prompt(15))]
    with tempfile.TemporaryDirectory() as work:
        ids, out = Path(work) / "ids.json", Path(work) / "out.npy"
        ids.write_text(json.dumps(texts))
        subprocess.run([args.reference, str(HERE / "embedding_reference.py"), args.folder, str(ids), str(out)], check=True, stderr=subprocess.DEVNULL)
        expected = np.load(out)
    lowest = 1.0
    for name, program in (("native", NativeProgram(model.program)), ("numpy", ReferenceProgram(model.program))):
        cosines = [float(embed(model, program, t) @ e) for t, e in zip(texts, expected, strict=True)]
        lowest = min(lowest, *cosines)
        print(f"{name} path: lowest cosine of {len(cosines)} texts {min(cosines):.8f}, the longest has {max(map(len, texts))} tokens")
    return int(lowest < LEAST_COSINE)


if __name__ == "__main__":
    sys.exit(main())
