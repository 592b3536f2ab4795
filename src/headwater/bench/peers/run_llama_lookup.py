"""llama-cpp-python's own prompt lookup (`LlamaPromptLookupDecoding`) through its high-level class: token ids in, greedy."""

import sys
import time

from protocol import serve


class Lookup:
    """draft: tokens per guess, 0 = plain decoding."""

    def __init__(self, path, draft="10"):
        import llama_cpp
        from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

        self.version = llama_cpp.__version__
        guesses = LlamaPromptLookupDecoding(num_pred_tokens=int(draft)) if int(draft) else None
        # logits_all: without it the library keeps scores of one batch only, and its drafts end in a broadcast error
        self.llama = llama_cpp.Llama(path, n_ctx=4096, n_threads=2, n_threads_batch=2, draft_model=guesses, logits_all=bool(guesses), verbose=False)

    def copy(self, ids, tokens):
        """Seconds from the first token to the last of `tokens`."""
        stream = self.llama.generate(ids, temp=0.0, repeat_penalty=1.0)
        next(stream)
        begin = time.perf_counter()
        for _ in range(tokens - 1):
            next(stream)
        return time.perf_counter() - begin


if __name__ == "__main__":
    serve(lambda: Lookup(*sys.argv[1:]))
