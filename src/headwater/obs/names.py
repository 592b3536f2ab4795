"""Metric names: vLLM's after our prefix, so that dashboards port by search and replace. Buckets are shared with simulated histograms."""

PREFIX = "headwater:"

TTFT_BUCKETS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
ITL_BUCKETS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0)
E2E_BUCKETS = (0.05, 0.1, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0)
DRAFT_LENGTH_BUCKETS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
TOKEN_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000)

GAUGES = {
    "num_requests_running": "Requests that take part in steps.",
    "num_requests_waiting": "Requests that wait to be admitted.",
    "kv_cache_usage_perc": "Share of KV blocks in use by running or held rows, 0 to 1.",
    "last_step_age_seconds": "Seconds since the last step ended while work waits; 0 when idle.",
}
COUNTERS = {
    "prompt_tokens": "Prompt tokens of admitted requests.",
    "generation_tokens": "Tokens drawn.",
    "prefix_cache_queries": "Prompt tokens looked up in the prefix index.",
    "prefix_cache_hits": "Prompt tokens whose state was found.",
    "num_preemptions": "Rows that stepped aside for others.",
    "engine_steps": "Steps of the engine loop.",
}
HISTOGRAMS = {
    "time_to_first_token_seconds": ("From arrival to the first token.", TTFT_BUCKETS),
    "inter_token_latency_seconds": ("Between two deltas of a choice, per token.", ITL_BUCKETS),
    "request_time_per_output_token_seconds": ("Mean over a request, first token excluded.", ITL_BUCKETS),
    "e2e_request_latency_seconds": ("From arrival to the last token.", E2E_BUCKETS),
    "request_queue_time_seconds": ("From arrival to admission.", E2E_BUCKETS),
    "request_prefill_time_seconds": ("From admission to the first token of a choice.", E2E_BUCKETS),
    "request_decode_time_seconds": ("From the first token of a choice to its last.", E2E_BUCKETS),
    "request_prompt_tokens": ("Prompt tokens per request.", TOKEN_BUCKETS),
    "request_generation_tokens": ("Tokens drawn per request.", TOKEN_BUCKETS),
}
