"""Plans into arrays into tokens: per-row state, KV memory, the runner, sampling, verification, reads."""
