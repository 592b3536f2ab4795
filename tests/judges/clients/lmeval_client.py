"""lm-eval's `local-completions` with the remote tokenizer: log-likelihoods equal to the in-process ones to 4 decimals, and generated answers.

    lmeval_client.py URL MODEL [ITEMS]    (the environment names HEADWATER_PYTHON for the in-process half)
"""

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from lm_eval import simple_evaluate

URL, MODEL = sys.argv[1], sys.argv[2]
ITEMS = int(sys.argv[3]) if len(sys.argv) > 3 else 100

rows = [{"question": f"Is {37 * i % 101} greater than {53 * i % 97}?", "gold": int(37 * i % 101 <= 53 * i % 97)} for i in range(ITEMS)]
Path("items.json").write_text("\n".join(map(json.dumps, rows)))
data = {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": "items.json"}}, "test_split": "test"}
choose = {
    **data, "task": "greater", "output_type": "multiple_choice", "doc_to_text": "Question: {{question}}\nAnswer:", "doc_to_target": "{{gold}}",
    "doc_to_choice": ["yes", "no"], "metric_list": [{"metric": "acc"}],
}
write = {
    **data, "task": "write", "output_type": "generate_until", "doc_to_text": "Question: {{question}}\nAnswer:", "doc_to_target": "{{gold}}",
    "generation_kwargs": {"until": ["\n"], "max_gen_toks": 8, "temperature": 0}, "metric_list": [{"metric": "exact_match"}],
}
arguments = {
    "model": MODEL, "base_url": f"{URL}/v1/completions", "tokenizer_backend": "auto", "num_concurrent": 2, "max_retries": 1, "max_length": 2048,
}


def run(task: dict, limit: int) -> tuple[dict, list[dict]]:
    done = simple_evaluate(model="local-completions", model_args=arguments, tasks=[task], limit=limit, log_samples=True, bootstrap_iters=0)
    return done["results"][task["task"]], done["samples"][task["task"]]


print(f"lm-eval {version('lm_eval')}")
result, samples = run(choose, ITEMS)
scored = []
for sample in samples:
    pairs = sample["arguments"].values() if isinstance(sample["arguments"], dict) else sample["arguments"]
    for pair, answer in zip(pairs, sample["resps"], strict=True):
        context, continuation = (pair["arg_0"], pair["arg_1"]) if isinstance(pair, dict) else pair
        scored.append({"context": context, "continuation": continuation, "logprob": answer[0][0], "greedy": answer[0][1]})
Path("scored.json").write_text(json.dumps(scored))
command = [os.environ["HEADWATER_PYTHON"], str(Path(__file__).with_name("lmeval_in_process.py")), os.environ["HEADWATER_MODEL"], "scored.json"]
subprocess.run(command, env={**os.environ, "PYTHONPATH": os.environ["HEADWATER_PYTHONPATH"]}, check=True)
print(f"{len(scored)} log-likelihoods of {ITEMS} items equal to the in-process ones to 4 decimals (accuracy {result['acc,none']:.3f})")
first, second = (run(write, min(ITEMS, 10))[1] for _ in range(2))
assert [s["resps"] for s in first] == [s["resps"] for s in second]
print("generate_until with stop strings, twice the same")
