"""Peers: each runs in an environment of its own and answers tasks on a pipe; see `protocol.py`."""
