"""The pipe that all runners speak, ours included: one JSON task per line in, one JSON result per line out. Stdlib only: peers import it too.

Tasks: `prefill` {n} -> seconds of one prompt of n tokens up to its first token; `decode` {n, tokens} -> seconds of `tokens` tokens after a prompt
of n; `batch` {streams, n, tokens} -> seconds of the decoding of all streams together, their prompts computed before;
`decisions` {state, questions, length, warm} -> seconds of reading two label logits after each question over one state.
A runner is a class with those methods; `serve(runner)` does the rest.
"""

import json
import os
import sys
import time
import traceback


def prompt(n, seed=0, vocabulary=40000):
    """n token ids, the same for every runner; ordinary ids only (no special tokens at either end of the vocabulary)."""
    x, out = (seed * 2654435761 + 12345) % 2**32, []
    for _ in range(n):
        x = (x * 1664525 + 1013904223) % 2**32
        out.append(1000 + (x >> 8) % (vocabulary - 1000))
    return out


def serve(make):
    """make() -> runner. Everything the peer prints goes to stderr; results alone go to the real stdout."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    began = time.perf_counter()

    def say(**result):
        out.write(json.dumps(result) + "\n")
        out.flush()

    try:
        runner = make()
        say(ready=True, load_seconds=time.perf_counter() - began, version=getattr(runner, "version", ""))
    except Exception as e:
        input_error = getattr(e, "exit_code", None) == 2            # our own UserInputError; peers have no such thing
        say(error=str(e) if input_error else f"{type(e).__name__}: {e}", input=input_error)
        return
    for line in sys.stdin:
        task = json.loads(line)
        kind = task.pop("task")
        if kind == "quit":
            break
        try:
            say(seconds=getattr(runner, kind)(**task), peak_mb=peak_mb())
        except Exception as e:
            traceback.print_exc(file=sys.stderr)
            say(error=f"{type(e).__name__}: {e}")


def peak_mb():
    """Peak resident memory of this process."""
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) / 1024 for line in f if line.startswith("VmHWM"))
