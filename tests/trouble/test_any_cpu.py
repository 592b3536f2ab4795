"""Complaint 1, "it does not run, or crawls, on this CPU": real processes told that they run on other processors than this one."""

import os
import subprocess
import sys

import pytest

from headwater.kernels import native
from headwater.kernels.table import choices
from tests.trouble.serving import serving

needs_native = pytest.mark.skipif(not native.available(), reason="needs the native module (make native)")
ISAS = [c for c in choices()[0].candidates if c != "reference"] if native.available() else []
MODEL = ("--kv-memory", "64M", "--context", "512")


def doctor(env: dict[str, str] | None = None, cpus: set[int] | None = None) -> subprocess.CompletedProcess[str]:
    """`headwater doctor` under other variables, or on these processors alone."""
    limit = None if cpus is None else lambda: os.sched_setaffinity(0, cpus)
    command = [sys.executable, "-m", "headwater.cli.main", "doctor"]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(env or {})}, preexec_fn=limit, check=False)


def line(text: str, name: str) -> str:
    return next(x for x in text.splitlines() if x.startswith(name))


@pytest.mark.slow
@needs_native
def test_1_the_plainest_instruction_set_serves_the_same_bits_as_the_best(smollm2) -> None:
    """Those between them: tests/unit/kernels."""
    answers = {}
    for isa in {ISAS[0], ISAS[-1]}:
        with serving(str(smollm2), *MODEL, env={"HEADWATER_ISA": isa}) as served:
            answers[isa] = served.complete("The capital of France is", max_tokens=6, logprobs=3)["choices"]
    assert "Paris" in answers[ISAS[0]][0]["text"]
    assert all(a == answers[ISAS[0]] for a in answers.values())


@pytest.mark.parametrize("isa", ["amx", "pdp11"])
@needs_native
def test_1_an_instruction_set_that_is_not_there_is_one_line_and_no_illegal_instruction(isa) -> None:
    if isa in ISAS:
        pytest.skip("this processor has it")
    done = doctor({"HEADWATER_ISA": isa})
    assert done.returncode > 0 and "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1 and f"HEADWATER_ISA={isa}" in done.stderr


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs a system that can pin processes")
@needs_native
def test_1_no_more_threads_than_processors_that_the_process_may_use() -> None:
    one = {min(os.sched_getaffinity(0))}
    assert line(doctor(cpus=one).stdout, "threads").split()[1] == "1"
    assert line(doctor({"HEADWATER_THREADS": "3"}, one).stdout, "threads").split()[1] == "3"      # who asks for more gets it


SLOW = "from headwater.serve.run import warn_if_slow; from headwater.engine import logs; logs.configure('text'); warn_if_slow()"


@pytest.mark.parametrize(("native_module", "lines"), [("off", 1), (None, 0)])
def test_1_without_its_native_module_the_server_says_in_one_line_that_it_is_slow(native_module, lines) -> None:
    if native_module is None and not native.available():
        pytest.skip("needs the native module (make native)")
    env = {k: v for k, v in os.environ.items() if k != "HEADWATER_NATIVE"} | ({"HEADWATER_NATIVE": native_module} if native_module else {})
    said = subprocess.run([sys.executable, "-c", SLOW], capture_output=True, text=True, env=env, check=True).stderr
    assert said.count("the numpy reference computes") == lines == len(said.splitlines())
