"""Numbers: recorded programs, packed weights, the numpy reference and the native library. Imports nothing of ours but itself."""


def signature() -> str:
    """The kernel signature (ADR 001, 9): part of the KV identity, printed by `headwater doctor`."""
    from headwater.kernels import native

    return native.signature()
