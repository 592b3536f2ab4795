"""onnxruntime-genai; the model folder comes from its own builder."""

import sys
import time

from protocol import prompt, serve


class Onnx:
    def __init__(self, folder):
        import onnxruntime_genai as og

        self.og, self.version = og, og.__version__
        self.model = og.Model(folder)
        self.seed = 0

    def _generator(self, n, streams, tokens):
        import numpy as np

        params = self.og.GeneratorParams(self.model)
        params.set_search_options(max_length=n + tokens + 2, batch_size=streams, do_sample=False)
        g = self.og.Generator(self.model, params)
        self.seed += 1
        g.append_tokens(np.array([prompt(n, self.seed * 100 + s) for s in range(streams)], np.int32))
        g.generate_next_token()
        return g

    def prefill(self, n):
        begin = time.perf_counter()
        self._generator(n, 1, 1)
        return time.perf_counter() - begin

    def decode(self, n, tokens):
        return self.batch(1, n, tokens)

    def batch(self, streams, n, tokens):
        g = self._generator(n, streams, tokens)
        begin = time.perf_counter()
        for _ in range(tokens):
            g.generate_next_token()
        return time.perf_counter() - begin


if __name__ == "__main__":
    serve(lambda: Onnx(*sys.argv[1:]))
