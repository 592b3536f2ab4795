"""Almost right bodies for every POST endpoint of the echo model, in this process: no 5xx, no endless answer, no error of more than a line.

    python tests/judges/body_fuzz.py [--bodies 100000] [--seed N] [--workers 2] [--only PATH ...]

Each worker is a process with an engine of its own. One example of hypothesis is a handful of bodies, since most of its time goes into examples, not
into bodies; the bodies of one example are asked at once. Exit code 0 when nothing was found; otherwise the smallest body that shows each fault is
printed.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import logging
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.wire.bodies import BODIES, bodies
from tests.wire.fuzzed import complaint, encode, post

from headwater.engine.build import EngineSpec, build_front
from headwater.engine.front import Front
from headwater.serve.app import create_app
from headwater.serve.settings import ServeSettings

AT_ONCE = 8                                                         # bodies of one example
SHARE = 500                                                         # bodies of one path in one piece of work


@dataclass
class Found:
    """What one piece of work saw: bodies sent, answers by status, the smallest fault, requests that the front still holds."""

    path: str
    sent: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    fault: str = ""
    left: int = 0


async def ask(app: object, path: str, asked: list[bytes], found: Found) -> str:
    """Send all at once. -> the first complaint, "" when there is none."""
    answers = await asyncio.gather(*(post(app, path, raw) for raw in asked), return_exceptions=True)     # type: ignore[arg-type]
    for raw, answer in zip(asked, answers, strict=True):
        if isinstance(answer, BaseException):
            return f"{raw[:1000].decode()} -> {type(answer).__name__}: {answer}"
        found.statuses[answer[0]] += 1
        wrong = complaint(path, *answer)
        if wrong is not None:
            return f"{raw[:1000].decode()} -> {wrong}"
    return ""


@functools.cache
def inside() -> tuple[asyncio.AbstractEventLoop, Front, object]:
    """(loop, front, application) of this worker, until it ends."""
    logging.disable(logging.CRITICAL)
    loop, front = asyncio.new_event_loop(), build_front(EngineSpec(model="echo"))
    loop.run_until_complete(front.start())
    return loop, front, create_app(front, ServeSettings())


def fuzz(path: str, count: int, start: int) -> Found:
    """One piece of work."""
    (loop, front, app), found = inside(), Found(path)

    @seed(start)
    @settings(
        max_examples=-(-count // AT_ONCE), deadline=None, database=None, suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    @given(st.lists(bodies(path), min_size=AT_ONCE, max_size=AT_ONCE))
    def check(some: list[object]) -> None:
        found.sent += len(some)
        wrong = loop.run_until_complete(ask(app, path, [encode(body) for body in some], found))
        found.fault = wrong or found.fault
        assert not wrong

    try:
        check()
    except AssertionError:
        pass
    except Exception as e:
        found.fault = f"{type(e).__name__}: {e}"
    found.left = len(front._by_id)
    return found


def pieces(paths: list[str], total: int) -> list[tuple[str, int]]:
    """(path, bodies), the paths in turn, so that a fault anywhere shows early."""
    each = -(-total // len(paths))
    rounds = -(-each // SHARE)
    return [(path, -(-each // rounds)) for _ in range(rounds) for path in paths]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bodies", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", nargs="*", choices=sorted(BODIES), default=list(BODIES))
    args = parser.parse_args()
    print(f"seed {args.seed}")
    total, bad = {path: Found(path) for path in args.only}, 0
    with ProcessPoolExecutor(args.workers) as pool:
        waiting = [pool.submit(fuzz, path, n, args.seed + i) for i, (path, n) in enumerate(pieces(args.only, args.bodies))]
        for n, done in enumerate(as_completed(waiting), 1):
            found = done.result()
            sum_of = total[found.path]
            sum_of.sent += found.sent
            sum_of.statuses += found.statuses
            if found.fault or found.left:
                bad += 1
                print(f"{found.path}: {found.fault or 'nothing wrong in an answer'}; {found.left} requests left behind", flush=True)
            if n % max(len(waiting) // 10, 1) == 0:
                print(f"{sum(f.sent for f in total.values()):,} bodies sent", flush=True)
    for path, sum_of in total.items():
        print(f"{path}: {sum_of.sent:,} bodies, statuses {dict(sorted(sum_of.statuses.items()))}")
    print(f"{sum(f.sent for f in total.values()):,} bodies, {bad} pieces of work with a fault")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
