"""The memory plan against what the process really takes, and the source file's mapping."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.core.errors import UserInputError
from headwater.core.kvspec import CacheGroup, KVSpec, StateSpec
from headwater.engine.memory import available_bytes, default_kv_budget, parse_bytes, share_kv
from headwater.kernels import native

SCRIPT = """
import json, sys
from pathlib import Path
import numpy as np
from headwater.engine.build import EngineSpec, survey, load
from headwater.engine.offline import Offline
from headwater.engine.expand import GenerateRequest
from headwater.core.params import SamplingParams
from headwater.model.load import loader
from headwater.worker.model_forward import ModelForward
from headwater.text.gguf_vocab import build
import headwater.llm

def anonymous():
    return next(int(l.split()[1]) * 1024 for l in Path("/proc/self/status").read_text().splitlines() if l.startswith("RssAnon"))

idle = anonymous()
spec = EngineSpec(sys.argv[1], kv_memory="192M", context=2048, step_tokens=512)
plan = survey(spec)
engine, text = load(spec)
offline = Offline(engine, text)
rng = np.random.default_rng(0)
blocks = engine.executor.caps().blocks[0]
for i in range(-(-blocks * 16 // 2000)):                            # write every block once, with the largest steps
    offline.run([GenerateRequest(rng.integers(0, 49000, 2000), SamplingParams(), read_only=True)])
offline.run([GenerateRequest(rng.integers(0, 49000, 5), SamplingParams(max_tokens=2)) for _ in range(64)])
maps = Path("/proc/self/maps").read_text()
print(json.dumps({"planned": plan.total, "measured": anonymous() - idle, "weights": plan.weights, "kv": plan.kv.bytes, "mapped": ".gguf" in maps}))
"""


@pytest.mark.slow
def test_the_plan_is_within_a_tenth_of_the_measured_memory_and_the_file_is_released(smollm2: Path) -> None:
    if not native.available() or not Path("/proc/self/status").exists():
        pytest.skip("needs the native module and /proc")
    out = subprocess.run([sys.executable, "-c", SCRIPT, str(smollm2)], capture_output=True, text=True, check=True)
    found = json.loads(out.stdout)
    assert not found["mapped"]
    assert abs(found["planned"] - found["measured"]) <= 0.1 * found["measured"], found


@pytest.mark.parametrize(("text", "value"), [("4G", 4 << 30), ("512MiB", 512 << 20), ("1.5k", 1536), ("100", 100), ("2e3", 2000), (77, 77)])
def test_sizes_are_read_as_people_write_them(text: str, value: int) -> None:
    assert parse_bytes(text, "kv_memory") == value


@pytest.mark.parametrize("text", ["", "G", "-1G", "4X", "1 2"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UserInputError, match="kv_memory"):
        parse_bytes(text, "kv_memory")


def test_shares_never_exceed_the_budget() -> None:
    spec = KVSpec((CacheGroup("full", 3, 1, 256), CacheGroup("window", 15, 1, 256, 512)), (StateSpec("s", 4, (16, 16)),))
    memory = share_kv(spec, 2**28, 4096)
    assert memory.bytes <= 2**28
    assert memory.blocks[1] < memory.blocks[0]
    assert memory.slots >= 8


def test_a_budget_below_one_context_names_what_would_do() -> None:
    spec = KVSpec((CacheGroup("full", 30, 3, 64),))
    with pytest.raises(UserInputError, match="give at least 181M"):
        share_kv(spec, 10 << 20, 8192)
    assert share_kv(spec, 181 << 20, 8192).blocks[0] * 16 >= 8192


def test_the_default_leaves_half_of_the_free_memory() -> None:
    spec = KVSpec((CacheGroup("full", 30, 3, 64),))
    assert default_kv_budget(spec, 8192, 1 << 30) == (1 << 30) // 2
    assert default_kv_budget(spec, 8192, 1 << 60) < 1 << 34


def test_a_cgroup_limit_counts(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable: 8388608 kB\n")
    assert available_bytes(tmp_path / "meminfo", tmp_path) == 8 << 30
    (tmp_path / "memory.max").write_text(str(3 << 30))
    (tmp_path / "memory.current").write_text(str(1 << 30))
    assert available_bytes(tmp_path / "meminfo", tmp_path) == 2 << 30
