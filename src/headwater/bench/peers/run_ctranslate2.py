"""CTranslate2; the model folder comes from its own converter. It wants tokens as text: ids are looked up in the folder's vocabulary."""

import json
import sys
import time
from pathlib import Path

from protocol import prompt, serve


class CTranslate2:
    def __init__(self, folder, compute="int8"):
        import ctranslate2

        self.version = ctranslate2.__version__
        self.generator = ctranslate2.Generator(folder, device="cpu", compute_type=compute, inter_threads=1, intra_threads=2)
        self.vocabulary = json.loads((Path(folder) / "vocabulary.json").read_text("utf-8"))
        self.seed = 0

    def _run(self, n, streams, tokens):
        """Seconds from the start and from the moment every stream has its first token to the end."""
        self.seed += 1
        starts = [[self.vocabulary[i] for i in prompt(n, self.seed * 100 + s)] for s in range(streams)]
        seen = set()
        first: list[float] = []

        def note(step):
            seen.add(step.batch_id)
            if not first and len(seen) == streams:
                first.append(time.perf_counter())
            return False

        begin = time.perf_counter()
        self.generator.generate_batch(
            starts, max_batch_size=streams, max_length=tokens, min_length=tokens, end_token=[], sampling_topk=1, include_prompt_in_result=False,
            callback=note,
        )
        end = time.perf_counter()
        return end - begin, end - first[0]

    def prefill(self, n):
        return self._run(n, 1, 1)[0]

    def decode(self, n, tokens):
        return self._run(n, 1, tokens + 1)[1]

    def batch(self, streams, n, tokens):
        return self._run(n, streams, tokens + 1)[1]


if __name__ == "__main__":
    serve(lambda: CTranslate2(*sys.argv[1:]))
