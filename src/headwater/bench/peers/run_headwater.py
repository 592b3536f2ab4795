"""Our own engine behind the peers' pipe."""

import sys
import time

import numpy as np

from headwater import __version__
from headwater.bench.peers.protocol import prompt, serve


class Headwater:
    def __init__(self, path, *extra):
        from headwater.llm import LLM

        fields = dict(x.split("=", 1) for x in extra)
        self.llm = LLM(path, **fields)
        self.version = __version__
        self.seed = 0

    def _fresh(self, n):
        """A prompt that no cache knows."""
        self.seed += 1
        return np.array(prompt(n, self.seed), np.int32)

    def _params(self, tokens):
        from headwater.core.params import SamplingParams

        return SamplingParams(temperature=0.0, max_tokens=tokens, ignore_eos=True)

    def prefill(self, n):
        ids = self._fresh(n)
        begin = time.perf_counter()
        self.llm.generate(ids, self._params(1))
        return time.perf_counter() - begin

    def decode(self, n, tokens):
        times = []
        self.llm.generate(self._fresh(n), self._params(tokens + 1), on_delta=lambda i, d: times.append(time.perf_counter()))
        return times[tokens] - times[0]

    def batch(self, streams, n, tokens):
        times, counts = [], [0] * streams

        def note(i, delta):
            counts[i] += len(delta.token_ids)
            times.append((time.perf_counter(), min(counts)))

        self.llm.generate([self._fresh(n) for _ in range(streams)], self._params(tokens + 1), on_delta=note)
        return times[-1][0] - next(t for t, least in times if least >= 1)

    def decisions(self, state, questions, length, warm):
        """warm: the state is in memory before the clock starts."""
        s = self._fresh(state)
        labels = [330, 331]
        handle = self.llm.state(s) if warm else None
        begin = time.perf_counter()
        handle = handle or self.llm.state(s)
        asks = [self._fresh(length) for _ in range(questions)]
        read = handle.label_logits(asks, labels)
        seconds = time.perf_counter() - begin
        assert read.shape == (questions, len(labels))
        handle.close()
        return seconds


if __name__ == "__main__":
    serve(lambda: Headwater(*sys.argv[1:]))
