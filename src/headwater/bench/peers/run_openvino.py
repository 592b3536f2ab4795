"""OpenVINO GenAI with continuous batching and its prefix cache; the model folder comes from `optimum-cli export openvino`."""

import sys
import time

from protocol import prompt, serve


class OpenVINO:
    def __init__(self, folder):
        import openvino_genai as ov

        self.ov, self.version = ov, ov.get_version()
        scheduler = ov.SchedulerConfig()
        scheduler.cache_size = 2
        scheduler.enable_prefix_caching = True
        scheduler.max_num_batched_tokens = 8192
        self.pipe = ov.ContinuousBatchingPipeline(folder, scheduler, "CPU", {"INFERENCE_NUM_THREADS": 2})
        self.seed = 0

    def _config(self, tokens):
        c = self.ov.GenerationConfig()
        c.max_new_tokens, c.ignore_eos, c.do_sample = tokens, True, False
        return c

    def _tensor(self, ids):
        import numpy as np
        import openvino

        return openvino.Tensor(np.array([ids], np.int64))

    def _fresh(self, n):
        self.seed += 1
        return prompt(n, self.seed)

    def prefill(self, n):
        ids = self._tensor(self._fresh(n))
        begin = time.perf_counter()
        self.pipe.generate([ids], [self._config(1)])
        return time.perf_counter() - begin

    def decode(self, n, tokens):
        return self.batch(1, n, tokens)

    def batch(self, streams, n, tokens):
        handles = []
        for i in range(streams):
            handles.append(self.pipe.add_request(self.seed * 1000 + i, self._tensor(self._fresh(n)), self._config(tokens + 1)))
        counts = [0] * streams
        begin = 0.0
        while self.pipe.has_non_finished_requests():
            self.pipe.step()
            for i, h in enumerate(handles):
                while h.can_read():
                    counts[i] += sum(len(o.generated_ids) for o in h.read().values())
            if not begin and min(counts) >= 1:
                begin = time.perf_counter()
        return time.perf_counter() - begin

    def decisions(self, state, questions, length, warm):
        """The prefix cache holds the state; all questions in one batch, one new token each."""
        s = self._fresh(state)
        begin = time.perf_counter()
        self.pipe.generate([self._tensor(s)], [self._config(1)])
        if warm:
            begin = time.perf_counter()
        asks = [self._tensor(s + self._fresh(length)) for _ in range(questions)]
        self.pipe.generate(asks, [self._config(1) for _ in asks])
        return time.perf_counter() - begin


if __name__ == "__main__":
    serve(lambda: OpenVINO(*sys.argv[1:]))
