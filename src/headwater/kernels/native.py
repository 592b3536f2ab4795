"""The native library: loading it, choosing the instruction set and the threads, and every operation alone on numpy arrays.

Environment: HEADWATER_ISA=avx512|avx2|portable chooses an instruction set, HEADWATER_THREADS the threads, HEADWATER_NATIVE=off runs the
numpy reference instead; any other value of it is a folder with another build of the module.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
from pathlib import Path
from types import ModuleType
from typing import Any


class NativeError(RuntimeError):
    """The native module is there but cannot be used as asked (one line, says what would be right)."""


def available() -> bool:
    """Whether the native module can be used; without it the numpy reference runs."""
    return _load() is not None


def library() -> Any:
    """The native module; NativeError when it is missing."""
    module = _load()
    if module is None:
        raise NativeError("the native module is not available (HEADWATER_NATIVE=off, or the package was installed without it)")
    return module


@functools.cache
def _load() -> ModuleType | None:
    where = os.environ.get("HEADWATER_NATIVE", "")
    if where == "off":
        return None
    module = _load_from(Path(where)) if where else _import()
    if module is None:
        return None
    isa = os.environ.get("HEADWATER_ISA", "")
    if isa:
        try:
            module.set_isa(isa)
        except ValueError as e:
            raise NativeError(f"HEADWATER_ISA={isa}: {e}") from None
    module.set_threads(_threads_wanted())
    return module


def _import() -> ModuleType | None:
    try:
        return importlib.import_module("headwater._native")
    except ModuleNotFoundError:
        return None


def _load_from(folder: Path) -> ModuleType:
    files = sorted(folder.glob("_native*.so"))
    if not files:
        raise NativeError(f"HEADWATER_NATIVE={folder}: no _native*.so there (off, or a folder with a build)")
    spec = importlib.util.spec_from_file_location("headwater._native", files[0])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _threads_wanted() -> int:
    text = os.environ.get("HEADWATER_THREADS", "")
    if not text:
        return usable_cores()
    if not text.isdigit() or not 1 <= int(text) <= 1024:
        raise NativeError(f"HEADWATER_THREADS={text}: a number from 1 to 1024")
    return int(text)


def usable_cores() -> int:
    """Physical cores in this process's affinity mask, at most what the cgroup's cpu.max grants (rounded up)."""
    cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    cores = {_core_of(cpu) for cpu in cpus}
    quota = _cgroup_cpus()
    return max(1, len(cores) if quota is None else min(len(cores), -int(-quota // 1)))


def _core_of(cpu: int) -> tuple[str, str]:
    base = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
    try:
        return (base / "physical_package_id").read_text().strip(), (base / "core_id").read_text().strip()
    except OSError:
        return "cpu", str(cpu)


def _cgroup_cpus(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> float | None:
    """CPUs granted by the tightest cpu.max (v2) or cfs quota (v1) from our group up to the root; None = no limit."""
    limits = []
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "cpu", "cpu,cpuacct", "cpuacct,cpu"):
            continue
        base = root / (controllers if controllers else "")
        group = base / path.lstrip("/")
        for folder in (group, *group.parents):
            try:
                if controllers:
                    quota, period = (folder / "cpu.cfs_quota_us").read_text().strip(), (folder / "cpu.cfs_period_us").read_text().strip()
                else:
                    quota, period = (folder / "cpu.max").read_text().split()
                if quota not in ("max", "-1"):
                    limits.append(float(quota) / float(period))
            except (OSError, ValueError):
                pass
            if folder == base:
                break
    return min(limits, default=None)
