"""Decisions: typed questions over a shared state. Plans which tokens to read and turns what was read into answers; does no I/O itself."""
