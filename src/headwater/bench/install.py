"""Peers by name: which script runs them, what they are given, and how to make an environment for one."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from headwater.bench.peer import PeerSpec
from headwater.core.errors import UserInputError


@dataclass(frozen=True, slots=True)
class Known:
    """script: in `bench/peers`. takes: `gguf` (the model file) or `folder` (its own format). packages: what pip installs; env: for the build."""

    script: str
    takes: str
    packages: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()


PEERS = {
    "llama-cpp": Known(
        "run_llama_cpp.py", "gguf", ("--no-binary", "llama-cpp-python", "llama-cpp-python==0.3.36"),
        (("CMAKE_ARGS", "-DGGML_NATIVE=ON -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_BUILD_TOOLS=OFF"),),
    ),
    "ik-llama-cpp": Known("run_llama_cpp.py", "gguf", ("ik-llama-cpp-python==0.1.5", "numpy")),
    "transformers": Known("run_transformers.py", "gguf", ("torch==2.13.0", "transformers", "gguf", "accelerate")),
    "openvino": Known("run_openvino.py", "folder", ("openvino-genai",)),
    "onnx": Known("run_onnx.py", "folder", ("onnxruntime-genai", "numpy")),
}


def model_file(model: str) -> str:
    """The single GGUF file behind a model name. Raises UserInputError where there is none (parts, folders)."""
    from headwater.model.catalog import resolve

    paths = resolve(model)
    if len(paths) != 1 or paths[0].suffix != ".gguf":
        raise UserInputError(f"--model {model}: peers need one .gguf file", field="model")
    return str(paths[0])


def parse_peer(text: str, model: str) -> PeerSpec:
    """`llama-cpp=/path/to/python,1` -> how to start it. The first argument after the environment of a folder peer is its model folder."""
    label, _, rest = text.partition("=")
    name = label.split(":")[0]
    python, *args = rest.split(",") if rest else [""]
    if name not in PEERS:
        raise UserInputError(f"--peer {text}: no peer '{name}'; known: {', '.join(PEERS)}", field="peer")
    if not Path(python).is_file():
        raise UserInputError(f"--peer {text}: '{python}' is no Python; `headwater bench install {name} FOLDER` makes an environment", field="peer")
    known = PEERS[name]
    return PeerSpec(label, python, known.script, [model_file(model), *args] if known.takes == "gguf" else args)


def install(name: str, folder: Path) -> Path:
    """Make a virtual environment with the peer in it; -> its python. Long: builds from source where that is the peer's best."""
    import os

    known = PEERS[name]
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    subprocess.run([str(python), "-m", "pip", "install", *known.packages], check=True, env={**os.environ, **dict(known.env)})
    return python
