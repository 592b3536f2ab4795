"""The peer's side of the tokenizer judge: run by a Python that has llama-cpp-python; imports nothing of ours.

stdin: JSON {"model": path of a GGUF, "cases": [[text, add_special, parse_special], ...]}; stdout: JSON, one list of ids for each case.
"""

import json
import sys

from llama_cpp import Llama

job = json.load(sys.stdin)
model = Llama(job["model"], vocab_only=True, verbose=False)
json.dump([model.tokenize(text.encode(), add_bos=bos, special=special) for text, bos, special in job["cases"]], sys.stdout)
