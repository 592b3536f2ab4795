"""The native library: loading it, choosing the instruction set and the threads, and every operation alone on numpy arrays.

Environment: HEADWATER_ISA=amx|avx512|avx2|portable chooses an instruction set, HEADWATER_THREADS the threads, HEADWATER_NATIVE=off runs the
numpy reference instead; any other value of it is a folder with another build of the module.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from headwater.kernels.program import Head
    from headwater.kernels.weights import Weight

KERNEL_VERSION = 2                 # raise it with every change that moves bits: it is part of the KV identity


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


def signature() -> str:
    """What bits are promised for (ADR 001, 9): the family of instruction sets that agree, and the version of the kernels."""
    return f"lanes16-{KERNEL_VERSION}" if available() else f"numpy-{KERNEL_VERSION}"


def _rows(x: np.ndarray) -> np.ndarray:
    if x.ndim != 2:
        raise ValueError(f"expected float32[rows, columns], got shape {x.shape}")
    return np.ascontiguousarray(x, np.float32)


def _vector(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x, np.float32)


def linear(x: np.ndarray, weight: Weight, bias: np.ndarray | None = None, *, fine: bool = False) -> np.ndarray:
    """x: f32[n, cols] -> f32[n, rows] = x · Wᵀ + bias; bits of a row do not depend on the others. fine: see `ops.linear`."""
    out = np.empty((len(x), weight.rows), np.float32)
    library().linear(weight.native, _rows(x), None if bias is None else _vector(bias), out, fine)
    return out


def linear_rows(x: np.ndarray, weight: Weight, ids: np.ndarray, bias: np.ndarray | None = None, *, fine: bool = False) -> np.ndarray:
    """f32[n, len(ids)]: only these rows of the weight, the same bits as `linear(x, weight, bias, fine=fine)[:, ids]`."""
    out = np.empty((len(x), len(ids)), np.float32)
    library().linear_rows(weight.native, _rows(x), np.ascontiguousarray(ids, np.int32), None if bias is None else _vector(bias), out, fine)
    return out


def gather(weight: Weight, ids: np.ndarray) -> np.ndarray:
    """Rows `ids` dequantised: f32[len(ids), cols]."""
    out = np.empty((len(ids), weight.cols), np.float32)
    library().gather(weight.native, np.ascontiguousarray(ids, np.int32), out)
    return out


def quantise_rows(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """f32[n, cols] -> int8[n, cols], f32[n, cols / 32] (ADR 001, 1)."""
    rows = _rows(x)
    q, scale = np.empty(rows.shape, np.int8), np.empty((len(rows), rows.shape[1] // 32), np.float32)
    library().quantise_rows(rows, q, scale)
    return q, scale


def rms_norm(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    """Each head of len(weight) channels by itself; f32[n, dim]."""
    out = np.empty(x.shape, np.float32)
    library().rms_norm(_rows(x), _vector(weight), eps, out)
    return out


def gated_rms_norm(x: np.ndarray, gate: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    """rms_norm(x) · silu(gate), f32[n, dim]."""
    out = np.empty(x.shape, np.float32)
    library().gated_rms_norm(_rows(x), _rows(gate), _vector(weight), eps, out)
    return out


def layer_norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float) -> np.ndarray:
    """f32[n, dim]."""
    out = np.empty(x.shape, np.float32)
    library().layer_norm(_rows(x), _vector(weight), _vector(bias), eps, out)
    return out


def silu_mul(gate_up: np.ndarray) -> np.ndarray:
    """f32[n, 2·d] -> silu(gate) · up, f32[n, d]."""
    return _gate(gate_up, gelu=False)


def gelu_mul(gate_up: np.ndarray) -> np.ndarray:
    """f32[n, 2·d] -> gelu_tanh(gate) · up, f32[n, d]."""
    return _gate(gate_up, gelu=True)


def _gate(gate_up: np.ndarray, gelu: bool) -> np.ndarray:
    out = np.empty((len(gate_up), gate_up.shape[1] // 2), np.float32)
    library().gate_mul(_rows(gate_up), gelu, out)
    return out


def gelu(x: np.ndarray) -> np.ndarray:
    """Exact gelu (erf), f32[n, d]."""
    out = np.empty(x.shape, np.float32)
    library().gelu(_rows(x), out)
    return out


def sigmoid_mul(x: np.ndarray, gate: np.ndarray) -> np.ndarray:
    """x · sigmoid(gate), f32[n, d]."""
    out = np.empty(x.shape, np.float32)
    library().sigmoid_mul(_rows(x), _rows(gate), out)
    return out


def softcap(x: np.ndarray, scale: float, cap: float, out: np.ndarray | None = None) -> np.ndarray:
    """cap · tanh(x · scale / cap), cap 0 = x · scale; out may be x."""
    if out is None:
        out = np.empty(x.shape, np.float32)
    library().softcap(_rows(x), scale, cap, out)
    return out


def logits(hidden: np.ndarray, head: Head, ids: np.ndarray | None = None) -> np.ndarray:
    """f32[n, dim] -> f32[n, vocabulary], or only the columns `ids` with the same bits."""
    fine = head.fine
    y = linear(hidden, head.weight, fine=fine) if ids is None else linear_rows(hidden, head.weight, ids, fine=fine)
    return y if head.softcap == 0 and head.scale == 1 else softcap(y, head.scale, head.softcap, out=y)
