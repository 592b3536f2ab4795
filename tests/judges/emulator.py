"""Judge: processors that this machine is not. The same answer, bit for bit, from a whole Python under a user-mode emulator (Debian's `qemu-user`).

    python tests/judges/emulator.py --model FILE [--cpu Nehalem ...] [--tokens 4]

Nehalem has SSE4.2 and no AVX (what numpy needs at least): the plainest kernels. Haswell has AVX2. Exit code 1 when an answer differs, or when an
emulated processor is given kernels that it does not have.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys

CPUS = {"Nehalem": "portable", "Haswell": "avx2"}                    # -> the kernels that it must be given
ASK = """
import json, sys
from headwater import LLM, SamplingParams
from headwater.kernels import native
greedy = SamplingParams(temperature=0, max_tokens=int(sys.argv[2]), logprobs=3)
choice = LLM(sys.argv[1], context=256, threads=1).generate("The capital of France is", greedy)[0].outputs[0]
print(json.dumps({"isa": native.library().isa(), "ids": list(choice.token_ids), "logprobs": repr(choice.logprobs)}))
"""


def answer(model: str, tokens: int, emulator: list[str]) -> dict[str, str]:
    env = {**os.environ, "OPENBLAS_CORETYPE": "NEHALEM"} if emulator else dict(os.environ)
    done = subprocess.run([*emulator, sys.executable, "-c", ASK, model, str(tokens)], capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        raise SystemExit(f"{' '.join(emulator) or 'here'}: ended with code {done.returncode}\n{done.stderr[-2000:]}")
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--cpu", nargs="*", choices=CPUS, default=list(CPUS))
    parser.add_argument("--tokens", type=int, default=4)
    args = parser.parse_args()
    qemu = shutil.which("qemu-x86_64")
    if qemu is None:
        raise SystemExit("qemu-x86_64 is not installed (Debian: qemu-user)")
    here, failed = answer(args.model, args.tokens, []), False
    for cpu in args.cpu:
        there = answer(args.model, args.tokens, [qemu, "-cpu", cpu])
        same = all(there[k] == here[k] for k in ("ids", "logprobs"))
        right = there["isa"] == CPUS[cpu]
        print(f"{cpu}: kernels {there['isa']} (here {here['isa']}); {args.tokens} tokens and log-probabilities "
              f"{'the same bits' if same else 'DIFFER'}{'' if right else f'; {CPUS[cpu]} EXPECTED'}", flush=True)
        failed = failed or not same or not right
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
