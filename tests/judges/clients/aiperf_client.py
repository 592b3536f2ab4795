"""aiperf: streamed chat under concurrency, several turns with a session, completions, cancelled requests; token counts of the server."""

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

URL, MODEL = sys.argv[1], sys.argv[2]
Path("single.jsonl").write_text("\n".join(json.dumps({"text": f"Count to {i}."}) for i in range(40)))
Path("turns.jsonl").write_text("\n".join(
    json.dumps({"session_id": f"s{i}", "turns": [{"text": f"Hello {i}."}, {"text": "And then?"}, {"text": "Thank you."}]}) for i in range(6)
))
COMMON = (
    "--model", MODEL, "--url", URL, "--tokenizer", str(Path("tokenizer").resolve()), "--use-server-token-count", "--ui-type",
    "none", "--random-seed", "1", "--extra-inputs", "max_completion_tokens:24", "ignore_eos:true",   # an answer without a word counts as none
)


def make_tokenizer() -> None:
    """One token per byte, in the form that it can load without a hub; the counts that it reports are the server's."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(letters)}, merges=[]))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained("tokenizer")


def run(name: str, *flags: str) -> dict:
    command = [str(Path(sys.executable).with_name("aiperf")), "profile", *COMMON, *flags, "--output-artifact-dir", name]
    # told to be offline, it looks for a folder's name in the hub's cache
    environment = {k: v for k, v in os.environ.items() if k != "HF_HUB_OFFLINE"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False, env=environment)
    reports = list(Path(name).rglob("profile_export_aiperf.json"))
    if done.returncode or not reports:
        raise SystemExit(done.stdout[-3000:] + done.stderr[-3000:])
    return json.loads(reports[0].read_text())


def problem(report: dict) -> object:
    """What it says went wrong."""
    return report.get("error_summary"), {k: report[k].get("avg") for k in ("request_count", "error_request_count") if report.get(k)}


def count(report: dict, metric: str) -> float:
    return (report.get(metric) or {}).get("avg", 0)


make_tokenizer()
print(f"aiperf {version('aiperf')}")
single = ("--input-file", "single.jsonl", "--custom-dataset-type", "single_turn", "--request-count", "24", "--concurrency", "4")
report = run("chat", "--endpoint-type", "chat", "--streaming", *single)
assert count(report, "request_count") == 24 and not count(report, "error_request_count") and count(report, "time_to_first_token") > 0, problem(report)
print("24 streamed chats, four at a time, none failed")
turns = ("--input-file", "turns.jsonl", "--custom-dataset-type", "multi_turn", "--concurrency", "3", "--request-count", "18")
report = run("turns", "--endpoint-type", "chat", "--streaming", *turns)
assert count(report, "request_count") == 18 and not count(report, "error_request_count"), problem(report)
print("6 sessions of three turns, none failed")
cut = ("--request-cancellation-rate", "50", "--request-cancellation-delay", "0.01")
report = run("cancelled", "--endpoint-type", "chat", "--streaming", *single, *cut)
print(f"half of the requests cancelled: {count(report, 'request_count'):.0f} answered, {count(report, 'error_request_count'):.0f} cut")
report = run("embeddings", "--endpoint-type", "embeddings", *single)
assert count(report, "request_count") == 24 and not count(report, "error_request_count"), problem(report)
print("24 embeddings, none failed")
