"""Order seeded rows with the built-in sort and by insertion; report every difference. A small experiment to try the binding with."""

import bisect
import json
import random

ROUNDS, ROWS, SEED = 20, 200, 1


def by_insertion(rows: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Stable order by the first field, one row at a time."""
    out: list[tuple[int, int]] = []
    for row in rows:
        bisect.insort_right(out, row, key=lambda r: r[0])
    return out


rng = random.Random(SEED)
violations, example = 0, ""
for _ in range(ROUNDS):
    table = [(rng.randrange(20), n) for n in range(ROWS)]
    if by_insertion(table) != sorted(table, key=lambda r: r[0]):
        violations += 1
        example = example or str(table[:5])
companions = {"baseline_name": "sorted", "baseline_version": "standard library", "baseline_flags": "key", "baseline_generation": "current",
              "quality_cost": 0, "ablation": "one mechanism only"}
exactness = {"compared": ROUNDS, "violations": violations, "counter_example": example}
print(json.dumps({"n": ROUNDS, "seed": SEED, "exactness": exactness, "companions": companions}))
