"""How fast the server notices trouble and comes back, on a real model: printed beside what is promised; exit code 1 where a promise is broken.

    python tests/judges/trouble.py [--model smollm2-135m-instruct] [--prompt 7000]

Wall-clock figures: they mean something on a quiet machine only.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from pathlib import Path

import httpx

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.trouble.serving import PATIENCE, Served, serving

DEADLINE = 10.0                                                     # the default of --progress-deadline
BEAT = 1.0                                                          # two looks of the watchdog


def status(served: Served) -> int:
    return served.health().status_code


def seconds_until(served: Served, wanted: int, since: float) -> float:
    while status(served) != wanted:
        if time.perf_counter() - since > PATIENCE:
            return float("inf")
        time.sleep(0.01)
    return time.perf_counter() - since


def outage(served: Served, sig: signal.Signals) -> tuple[float, float]:
    """-> seconds from the signal to the engine until /health is 503, and from there until a request is answered again."""
    served.complete()
    begin = time.perf_counter()
    os.kill(served.engine, sig)
    noticed = seconds_until(served, 503, begin)
    middle = time.perf_counter()
    seconds_until(served, 200, middle)
    served.complete()
    return noticed, time.perf_counter() - middle


def health_under_prefill(served: Served, tokens: int) -> list[float]:
    """Seconds of each /health while one prompt of `tokens` tokens is computed."""
    ids = [100 + i * 7 % 20_000 for i in range(tokens)]
    asked = threading.Thread(target=served.post, args=("/v1/completions", {"prompt": ids, "max_tokens": 1}))
    times = []
    with httpx.Client(timeout=PATIENCE) as client:
        client.get(f"{served.url}/health")
        asked.start()
        while asked.is_alive():
            begin = time.perf_counter()
            client.get(f"{served.url}/health")
            times.append(time.perf_counter() - begin)
            time.sleep(0.02)
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="smollm2-135m-instruct")
    parser.add_argument("--prompt", type=int, default=7000)
    args = parser.parse_args()
    rows: list[tuple[str, float, float]] = []
    with serving(args.model) as served:
        times = health_under_prefill(served, args.prompt)
        rows.append((f"/health at most, of {len(times)} looks while {args.prompt:,} tokens are prefilled", max(times), 0.05))
        noticed, back = outage(served, signal.SIGKILL)
        rows += [("SIGKILL to 503", noticed, 2.0), ("from there to an answer", back, 5.0)]
    with serving(args.model) as served:
        noticed, back = outage(served, signal.SIGSTOP)
        rows += [("SIGSTOP to 503", noticed, DEADLINE + BEAT), ("from there to an answer", back, 5.0)]
    for what, seconds, promised in rows:
        print(f"{what}: {seconds:.3f} s (promised {promised:g} s){'' if seconds <= promised else '  BROKEN'}")
    return int(any(seconds > promised for _, seconds, promised in rows))


if __name__ == "__main__":
    sys.exit(main())
