"""Headwater: an inference engine for language models on CPU servers, and the ledger that keeps its claims honest."""

__version__ = "0.1.0"
