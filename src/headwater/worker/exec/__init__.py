"""Executors: where a plan runs."""
