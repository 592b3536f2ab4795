"""headwater doctor: what this machine can do, which kernels run and why, and what a model will take before it is loaded."""

from __future__ import annotations

from typing import Annotated

import typer

from headwater.cli import options as o


def doctor(
    model: Annotated[str, typer.Argument(help="Model whose memory plan to print; none: only the machine.")] = "",
    weights: o.Weights = "as-is",
    kv_memory: o.KvMemory = None,
    kv_format: o.KvFormat = "f16",
    context: o.Context = None,
    attend: o.Attend = "dense",
    rope_scaling: o.RopeScaling = "",
    accept_licence: o.AcceptLicence = False,
    kv: Annotated[str, typer.Option("--kv", metavar="MODEL", help="Only this: KV bytes per token of a model, beside those of published ones.")] = "",
) -> None:
    """Print instruction sets, threads, chosen kernels, kernel signature, and the memory plan of MODEL."""
    if kv:
        _kv(kv, accept_licence)
        return
    _machine()
    _kernels()
    if model and model != "echo":
        from headwater.engine.build import EngineSpec, survey

        _plan(survey(EngineSpec(
            model, weights=weights, kv_memory=kv_memory, kv_format=kv_format, context=context, attend=attend, rope_scaling=rope_scaling,
            accept_licence=accept_licence,
        )))


def _line(name: str, value: str) -> None:
    print(f"{name:18} {value}")


def _machine() -> None:
    import os
    import platform
    import sys

    from headwater import __version__
    from headwater.engine.memory import available_bytes

    _line("headwater", f"{__version__}, Python {platform.python_version()}, {sys.platform} {platform.machine()}")
    _line("processor", _processor())
    logical = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    from headwater.kernels import native

    _line("cores", f"{native.usable_cores()} physical ones usable (affinity and cgroup), {logical} logical in the affinity mask")
    _line("memory", f"{_mib(available_bytes())} free for this process (system and cgroup)")


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            return next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), "unknown")
    except OSError:
        return "unknown"


def _kernels() -> None:
    from headwater.kernels import native, signature
    from headwater.kernels.table import choices

    if native.available():
        lib = native.library()
        _line("instruction set", f"{lib.isa()} in use, {lib.detected_isa()} is the best of this processor (HEADWATER_ISA chooses another)")
        _line("threads", f"{lib.threads()} (HEADWATER_THREADS or --threads chooses another number)")
    else:
        _line("instruction set", "numpy reference: the native module is missing or HEADWATER_NATIVE=off (slow)")
    _line("kernel signature", signature())
    for choice in choices():
        _line(f"  {choice.op}", f"{choice.chosen}: {choice.why}")


def _plan(s: object) -> None:
    from headwater.engine.build import Survey

    assert isinstance(s, Survey)
    _line("model", f"{s.name}, family {s.family}, context {s.context:,}")
    _line("  weights", _mib(s.weights))
    _line("  norms, tables", _mib(s.vectors))
    tokens = s.kv.blocks[0] * 16 if s.kv.blocks else 0
    _line("  keys and values", f"{_mib(s.kv.bytes)} for {tokens:,} tokens ({s.kv_per_token / 1024:,.1f} KiB each), taken as they fill")
    if s.kv.slots:
        _line("  states", f"{s.kv.slots} slots, counted above")
    _line("  tokenizer", _mib(s.tokenizer))
    _line("  scratch", f"{_mib(s.scratch)} in the largest step")
    _line("  total", f"{_mib(s.total)} of {_mib(s.free)} free" + ("" if s.total <= s.free else ": TOO MUCH; give --kv-memory or --context"))


def _kv(model: str, accept_licence: bool) -> None:
    """KV bytes per token of `model` in each cache format, then the families of the literature."""
    from headwater.core.kvfamilies import FAMILIES
    from headwater.core.kvspec import CACHE_FORMATS, KVSpec
    from headwater.engine.build import EngineSpec, survey

    def line(name: str, how: str, spec: KVSpec, known: int | None, basis: str) -> None:
        n = spec.bytes_per_token
        verdict = "" if known is None else "as known" if known == n else f"KNOWN AS {known:,}"
        print(f"{name:22.22} {how:26} {n:>9,} {n * 2**15 / 2**20:>10,.0f} {n * 2**17 / 2**20:>10,.0f}  {verdict:9} {basis}")

    print(f"{'model':22} {'kept':26} {'B/token':>9} {'MiB at 32k':>10} {'at 128k':>10}  {'':9} basis")
    for format in CACHE_FORMATS:
        s = survey(EngineSpec(model, kv_format=format, accept_licence=accept_licence))
        line(s.name, format, s.spec, None, "its file")
        constant = s.spec.bytes_per_slot + sum(g.bytes_per_token * g.window for g in s.spec.groups if g.kind == "window")
        if constant:
            print(f"{'':22} besides {constant / 2**20:,.1f} MiB per sequence for windows and recurrent states")
    for f in FAMILIES:
        line(f.name, f.how, f.spec, f.known, f.basis)


def _mib(n: int) -> str:
    return f"{n / 2**20:,.1f} MiB"
