"""vLLM on the CPU, stepped in this process, with its prefix cache; float32 and eager: its bfloat16 has no fast product on processors without it."""

import os
import sys
import time

from protocol import prompt, serve


class Vllm:
    def __init__(self, folder, dtype="float32"):
        os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_CPU_KVCACHE_SPACE="2", VLLM_CPU_OMP_THREADS_BIND="0-1", HF_HUB_OFFLINE="1")
        import vllm

        self.vllm, self.version = vllm, f"{vllm.__version__} {dtype}"
        self.engine = vllm.LLM(
            folder, dtype=dtype, enforce_eager=True, max_model_len=8192, enable_prefix_caching=True, skip_tokenizer_init=True, disable_log_stats=True,
        ).llm_engine
        self.seed = 0

    def _fresh(self, n):
        self.seed += 1
        return prompt(n, self.seed)

    def _add(self, ids, tokens):
        self.seed += 1
        params = self.vllm.SamplingParams(max_tokens=tokens, min_tokens=tokens, temperature=0.0, ignore_eos=True, detokenize=False)
        self.engine.add_request(str(self.seed), {"prompt_token_ids": ids}, params)

    def _drain(self):
        while self.engine.has_unfinished_requests():
            self.engine.step()

    def prefill(self, n):
        self._add(self._fresh(n), 1)
        begin = time.perf_counter()
        self._drain()
        return time.perf_counter() - begin

    def decode(self, n, tokens):
        return self.batch(1, n, tokens)

    def batch(self, streams, n, tokens):
        for _ in range(streams):
            self._add(self._fresh(n), tokens + 1)
        begun, begin = set(), 0.0
        while self.engine.has_unfinished_requests():
            outputs = self.engine.step()
            begun |= {o.request_id for o in outputs if o.outputs[0].token_ids}
            if not begin and len(begun) == streams:
                begin = time.perf_counter()
        return time.perf_counter() - begin

    def decisions(self, state, questions, length, warm):
        """The prefix cache holds the state; all questions in one batch, one new token each."""
        s = self._fresh(state)
        begin = time.perf_counter()
        self._add(s, 1)
        self._drain()
        if warm:
            begin = time.perf_counter()
        for _ in range(questions):
            self._add(s + self._fresh(length), 1)
        self._drain()
        return time.perf_counter() - begin


if __name__ == "__main__":
    serve(lambda: Vllm(*sys.argv[1:]))
