"""transformers with torch on the CPU: weights dequantised from the same GGUF, dynamic cache, greedy."""

import sys
import time

from protocol import prompt, serve


class Transformers:
    def __init__(self, path, dtype="float32"):
        from pathlib import Path

        import torch
        import transformers

        torch.set_num_threads(2)
        torch.set_grad_enabled(False)
        self.torch, self.version = torch, f"{transformers.__version__} torch {torch.__version__}"
        file = Path(path)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(str(file.parent), gguf_file=file.name, dtype=getattr(torch, dtype)).eval()
        self.seed = 0

    def _prompt(self, n, streams=1):
        self.seed += 1
        ids = self.torch.tensor([prompt(n, self.seed * 100 + s) for s in range(streams)])
        out = self.model(ids, use_cache=True, logits_to_keep=1)
        return out.past_key_values, out.logits[:, -1].argmax(-1, keepdim=True)

    def prefill(self, n):
        begin = time.perf_counter()
        self._prompt(n)
        return time.perf_counter() - begin

    def decode(self, n, tokens):
        return self.batch(1, n, tokens)

    def batch(self, streams, n, tokens):
        cache, last = self._prompt(n, streams)
        begin = time.perf_counter()
        for _ in range(tokens):
            out = self.model(last, past_key_values=cache, use_cache=True)
            cache, last = out.past_key_values, out.logits[:, -1].argmax(-1, keepdim=True)
        return time.perf_counter() - begin


if __name__ == "__main__":
    serve(lambda: Transformers(*sys.argv[1:]))
