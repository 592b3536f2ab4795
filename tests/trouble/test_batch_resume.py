"""`headwater run-batch` is killed in the middle: the next run answers what is missing, once, and leaves the rest as it was."""

import json
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from headwater.cli.main import app
from tests.trouble.serving import until

REQUESTS = 120


def written(tmp_path: Path) -> tuple[Path, Path]:
    file, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    body = {"prompt": "abc", "max_tokens": 60, "temperature": 0, "ignore_eos": True}
    lines = [{"custom_id": f"r{i}", "method": "POST", "url": "/v1/completions", "body": {**body, "seed": i}} for i in range(REQUESTS)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file, out


def again(file: Path, out: Path) -> list[dict]:
    result = CliRunner().invoke(app, ["run-batch", str(file), "--out", str(out), "--model", "echo"])
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in out.read_text("utf-8").splitlines()]


def test_a_killed_batch_goes_on_where_it_stopped(tmp_path) -> None:
    file, out = written(tmp_path)
    command = [sys.executable, "-m", "headwater.cli.main", "run-batch", str(file), "--out", str(out), "--model", "echo", "--parallel", "2"]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: process.poll() is not None or (out.exists() and out.read_bytes().count(b"\n") >= 3), "some lines are there")
    process.kill()
    process.wait()
    whole = out.read_bytes()
    whole = whole[: whole.rfind(b"\n") + 1]
    out.write_bytes(whole + b'{"id": "batch_req_r119", "custom_i')   # what a crash leaves of the line that was being written
    answers = again(file, out)
    assert out.read_bytes().startswith(whole) and 3 <= whole.count(b"\n") < REQUESTS
    assert sorted(a["custom_id"] for a in answers) == sorted(f"r{i}" for i in range(REQUESTS))
    assert {a["response"]["status_code"] for a in answers} == {200}


def test_lines_that_failed_by_our_fault_are_asked_again_and_those_that_were_wrong_are_not(tmp_path) -> None:
    file, out = written(tmp_path)
    kept = {"id": "x", "custom_id": "r0", "response": {"status_code": 400, "body": "wrong"}, "error": None}
    failed = [{"id": "x", "custom_id": f"r{i}", "response": {"status_code": s, "body": "late"}, "error": None} for i, s in ((1, 503), (2, 429))]
    out.write_text("".join(json.dumps(line) + "\n" for line in (failed[0], kept, failed[1])))
    answers = again(file, out)
    assert len(answers) == REQUESTS and answers[0] == kept
    assert {a["response"]["status_code"] for a in answers[1:]} == {200}
