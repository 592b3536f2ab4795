"""guidellm: synchronous, concurrent and Poisson load with its own backend, no request lost."""

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

URL, MODEL = sys.argv[1], sys.argv[2]
Path("prompts.jsonl").write_text("\n".join(json.dumps({"prompt": f"Count to {i}.", "output_tokens_count": 16}) for i in range(1, 200)))


def run(profile: str, requests: int, path: str) -> dict:
    command = [
        str(Path(sys.executable).with_name("guidellm")), "run", "--backend", f"kind=openai_http,target={URL},model={MODEL},request_format={path}",
        "--profile", profile, "--constraint", f"kind=max_requests,count={requests}", "--data", "kind=json_file,path=prompts.jsonl",
        "--output", "kind=json,path=report.json", "--disable-console",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    if done.returncode:
        raise SystemExit(done.stdout[-1500:] + done.stderr[-1500:])
    return json.loads(Path("report.json").read_text())["benchmarks"][0]


print(f"guidellm {version('guidellm')}")
for profile, requests, path in (
    ("kind=synchronous", 8, "/v1/chat/completions"), ("kind=concurrent,streams=4", 24, "/v1/chat/completions"),
    ("kind=poisson,rate=8", 24, "/v1/completions"),
):
    report = run(profile, requests, path)
    totals = report["metrics"]["request_totals"]
    assert totals["successful"] >= requests and totals["errored"] == 0, totals
    assert report["metrics"]["time_to_first_token_ms"]["successful"]["mean"] > 0
    print(f"{profile.partition('=')[2].partition(',')[0]} load on {path}: {totals['successful']} requests, none failed")
