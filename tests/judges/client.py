"""A server on loopback and one unmodified client against it.

    python tests/judges/client.py NAME --python PYTHON_OF_ITS_ENVIRONMENT [--model echo] [--arguments ...]

Runs clients/NAME_client.py URL MODEL there; every line that it prints is something that held. Exit code 0 when all of it did.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from served import served

HERE = Path(__file__).parent
PROXIES = ("http_proxy", "https_proxy", "all_proxy")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name")
    parser.add_argument("--python", required=True)
    parser.add_argument("--model", default="echo")
    parser.add_argument("--served-model-name", default=None, help="what the client calls it")
    parser.add_argument("--arguments", nargs="*", default=[], help="further ones of the script")
    args = parser.parse_args()
    name = args.served_model_name or args.model
    # a client at home: no proxy in between, no telemetry, no key of somebody's account
    environment = {k: v for k, v in os.environ.items() if k.lower() not in PROXIES and k != "PYTHONPATH"}
    ours = os.pathsep.join(str(Path(p).resolve()) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p)
    environment |= {
        "OPENAI_API_KEY": "none", "ANTHROPIC_API_KEY": "none", "HF_HUB_OFFLINE": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "DO_NOT_TRACK": "1",
        "NO_PROXY": "127.0.0.1,localhost", "HEADWATER_PYTHON": sys.executable, "HEADWATER_MODEL": args.model,
        "HEADWATER_PYTHONPATH": ours, "TQDM_DISABLE": "1",
    }
    flags = ("--served-model-name", name) if args.served_model_name else ()
    with tempfile.TemporaryDirectory() as folder, served(args.model, *flags) as url:
        environment["HOME"] = folder
        command = [args.python, str(HERE / "clients" / f"{args.name}_client.py"), url, name, *args.arguments]
        return subprocess.run(command, cwd=folder, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
