"""Record what `transformers` (float32) computes for the small generated models of `tests/unit/tiny_models.py`: tests/data/tiny_logits.npz.

    .venv-judges/bin/python tests/judges/record_vectors.py [--check]

--check: derive the vectors anew and compare with the recorded ones instead of writing.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModel, AutoModelForCausalLM

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "unit"))
import tiny_models as tiny  # noqa: E402

TARGET = ROOT / "tests" / "data" / "tiny_logits.npz"
LENGTH = 40
# positions whose logits are kept
KEPT = (0, 1, 6, 7, 8, 15, 16, 17, 24, 31, 38, 39)


def derive(name: str) -> np.ndarray:
    """float32[len(KEPT), vocab] logits, or hidden rows for encoders."""
    with tempfile.TemporaryDirectory() as folder:
        tiny.write_folder(name, Path(folder))
        kind = AutoModel if name == "bert" else AutoModelForCausalLM
        model = kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    model.eval()
    ids = torch.from_numpy(tiny.tokens(7, LENGTH)).long()[None]
    with torch.no_grad():
        out = model(ids)
    rows = out.last_hidden_state if name == "bert" else out.logits
    return rows[0, list(KEPT)].float().numpy()


def main() -> int:
    derived = {name: derive(name) for name in tiny.CONFIGS}
    if "--check" in sys.argv[1:]:
        with np.load(TARGET) as recorded:
            worst = {name: float(np.abs(recorded[name] - x).max()) for name, x in derived.items()}
        print("largest difference to the recorded vectors:", worst)
        return int(max(worst.values()) > 1e-4)
    np.savez_compressed(TARGET, **derived)
    print(f"{TARGET.relative_to(ROOT)}: {TARGET.stat().st_size:,} bytes, {', '.join(derived)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
