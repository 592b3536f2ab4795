"""llama.cpp through llama-cpp-python's low-level API (also ik_llama.cpp's binding of the same shape): token ids in, greedy."""

import ctypes
import sys
import time

from protocol import prompt, serve


class LlamaCpp:
    def __init__(self, path, flash="0", ubatch="512", kv="f16"):
        try:
            import llama_cpp as lib
        except ImportError:
            from ik_llama_cpp import _ctypes_api as lib

        self.lib, self.version = lib, getattr(lib, "__version__", "")
        lib.llama_backend_init()
        quiet = lib.llama_log_callback(lambda level, text, data: None) if hasattr(lib, "llama_log_callback") else None
        if quiet is not None:
            self._quiet = quiet
            lib.llama_log_set(quiet, ctypes.c_void_p(0))
        self.model = lib.llama_model_load_from_file(path.encode(), lib.llama_model_default_params())
        if not self.model:
            raise RuntimeError(f"cannot load {path}")
        p = lib.llama_context_default_params()
        p.n_ctx, p.n_batch, p.n_ubatch, p.n_seq_max, p.n_threads, p.n_threads_batch = 16384, 8192, int(ubatch), 64, 2, 2
        if hasattr(p, "kv_unified"):
            p.kv_unified = True
        if hasattr(p, "flash_attn_type"):
            p.flash_attn_type = int(flash)
        elif hasattr(p, "flash_attn"):
            p.flash_attn = flash == "1"
        if kv == "q8":
            p.type_k = p.type_v = 8
        self.ctx = lib.llama_init_from_model(self.model, p)
        self.vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self.model))
        self.new_memory = hasattr(lib, "llama_memory_clear")
        self.seed = 0

    def _clear(self):
        if self.new_memory:
            self.lib.llama_memory_clear(self.lib.llama_get_memory(self.ctx), True)
        else:
            self.lib.llama_kv_cache_clear(self.ctx)

    def _share(self, source, target):
        if self.new_memory:
            self.lib.llama_memory_seq_cp(self.lib.llama_get_memory(self.ctx), source, target, -1, -1)
        else:
            self.lib.llama_kv_cache_seq_cp(self.ctx, source, target, -1, -1)

    def _run(self, items):
        """items: (id, position, sequences, logits wanted)."""
        batch = self.lib.llama_batch_init(len(items), 0, 64)
        batch.n_tokens = len(items)
        for i, (token, position, sequences, wanted) in enumerate(items):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, position, len(sequences), int(wanted)
            for k, s in enumerate(sequences):
                batch.seq_id[i][k] = s
        code = self.lib.llama_decode(self.ctx, batch)
        self.lib.llama_batch_free(batch)
        if code:
            raise RuntimeError(f"llama_decode returned {code}")

    def _best(self, i):
        import numpy as np

        return int(np.ctypeslib.as_array(self.lib.llama_get_logits_ith(self.ctx, i), (self.vocab,)).argmax())

    def _prompt(self, n, sequence=0):
        self.seed += 1
        ids = prompt(n, self.seed)
        self._run([(t, i, [sequence], i == n - 1) for i, t in enumerate(ids)])
        return self._best(n - 1)

    def prefill(self, n):
        self._clear()
        begin = time.perf_counter()
        self._prompt(n)
        return time.perf_counter() - begin

    def decode(self, n, tokens):
        self._clear()
        token = self._prompt(n)
        begin = time.perf_counter()
        for i in range(tokens):
            self._run([(token, n + i, [0], True)])
            token = self._best(0)
        return time.perf_counter() - begin

    def batch(self, streams, n, tokens):
        self._clear()
        last = [self._prompt(n, s) for s in range(streams)]
        begin = time.perf_counter()
        for i in range(tokens):
            self._run([(last[s], n + i, [s], True) for s in range(streams)])
            last = [self._best(s) for s in range(streams)]
        return time.perf_counter() - begin

    def decisions(self, state, questions, length, warm):
        """Batched sequence copies: the state once, every question a sequence that starts as its copy."""
        self._clear()
        asks = [prompt(length, 10_000 + self.seed * 100 + q) for q in range(questions)]
        begin = time.perf_counter()
        self._prompt(state)
        if warm:
            begin = time.perf_counter()
        for q in range(questions):
            self._share(0, q + 1)
        self._run([(t, state + i, [q + 1], i == length - 1) for q, ids in enumerate(asks) for i, t in enumerate(ids)])
        for q in range(questions):
            self.lib.llama_get_logits_ith(self.ctx, (q + 1) * length - 1)
        return time.perf_counter() - begin


if __name__ == "__main__":
    serve(lambda: LlamaCpp(*sys.argv[1:]))
