"""Almost right bodies for every POST endpoint of the echo model, in this process: no 5xx, no endless answer, no error of more than a line.

    python tests/judges/body_fuzz.py [--bodies 100000] [--seed N] [--only PATH ...]

Exit code 0 when nothing was found; otherwise the smallest body that shows each fault is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import time
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.wire.bodies import BODIES, bodies
from tests.wire.fuzzed import complaint, encode, post

from headwater.engine.build import EngineSpec, build_front
from headwater.serve.app import create_app
from headwater.serve.settings import ServeSettings


def fuzz(loop: asyncio.AbstractEventLoop, app: object, path: str, count: int, start: int) -> tuple[int, dict[int, int], str | None]:
    """-> (bodies sent, answers by status, the smallest fault found)."""
    sent, statuses, found = 0, dict[int, int](), ""

    @seed(start)
    @settings(max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck), phases=(Phase.generate, Phase.shrink))
    @given(bodies(path))
    def check(body: object) -> None:
        nonlocal sent, found
        sent += 1
        raw = encode(body)
        answer = loop.run_until_complete(post(app, path, raw))      # type: ignore[arg-type]
        statuses[answer[0]] = statuses.get(answer[0], 0) + 1
        wrong = complaint(path, *answer)
        if wrong is not None:
            found = f"{raw[:1000].decode()} -> {wrong}"
        assert wrong is None

    try:
        check()
    except AssertionError:
        return sent, statuses, found
    except Exception as e:
        return sent, statuses, f"{type(e).__name__}: {e}"
    return sent, statuses, None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bodies", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", nargs="*", choices=sorted(BODIES), default=list(BODIES))
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    print(f"seed {args.seed}")
    loop = asyncio.new_event_loop()
    front = build_front(EngineSpec(model="echo"))
    loop.run_until_complete(front.start())
    app, bad, total = create_app(front, ServeSettings()), 0, 0
    for path in args.only:
        sent, statuses, found = fuzz(loop, app, path, max(1, args.bodies // len(args.only)), args.seed)
        total += sent
        bad += found is not None
        left = len(front._by_id)
        print(f"{path}: {sent:,} bodies, statuses {dict(sorted(statuses.items()))}, {left} rows left behind: {found or 'nothing found'}", flush=True)
        bad += left > 0
    loop.run_until_complete(front.close())
    print(f"{total:,} bodies")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
