"""Frames between a front and its engine process: four bytes of length, then msgpack of [kind, body]."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import Any, TypeVar

import msgspec
import numpy as np

from headwater.core.events import Arrive, Cancel, ExecutorLost, MaskReady, Release
from headwater.core.request import Output
from headwater.engine.build import EngineSpec
from headwater.engine.client import EngineInfo, EngineStats, Grammar

LIMIT = 2**30                                                       # a longer frame is a broken stream, not a message
KINDS: dict[str, Any] = {
    "spec": EngineSpec, "arrive": Arrive, "cancel": Cancel, "release": Release, "mask": MaskReady, "executor": ExecutorLost,
    "compile": tuple[str, Grammar], "outputs": list[Output], "info": EngineInfo, "stats": EngineStats, "failed": tuple[str, int, str | None],
    "lost": str, "progress": tuple[int, int, str],
}
EVENT_KINDS = {Arrive: "arrive", Cancel: "cancel", Release: "release", MaskReady: "mask", ExecutorLost: "executor"}
T = TypeVar("T")


def _from_python(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        return [x.dtype.str, list(x.shape), np.ascontiguousarray(x).tobytes()]
    if isinstance(x, np.generic):
        return x.item()
    raise NotImplementedError(f"cannot send a {type(x).__name__} to the engine process")


def _to_python(kind: type, x: Any) -> Any:
    if kind is np.ndarray:
        dtype, shape, data = x
        return np.frombuffer(data, np.dtype(dtype)).reshape(shape).copy()
    raise NotImplementedError(f"cannot receive a {kind.__name__}")


_encoder = msgspec.msgpack.Encoder(enc_hook=_from_python)
_outer = msgspec.msgpack.Decoder(tuple[str, msgspec.Raw])
_decoders = {kind: msgspec.msgpack.Decoder(body, dec_hook=_to_python) for kind, body in KINDS.items()}


def encode(kind: str, body: Any) -> bytes:
    """One frame without its length."""
    return _encoder.encode((kind, body))


def decode(frame: bytes) -> tuple[str, Any]:
    """-> (kind, body). Raises ValueError for anything that is not a frame."""
    try:
        kind, raw = _outer.decode(frame)
        return kind, _decoders[kind].decode(raw)
    except (msgspec.MsgspecError, KeyError) as e:
        raise ValueError(f"not a frame of the engine's wire: {e}") from None


class Wire:
    """One end of the socket. `send` from any thread, `receive` from one."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._lock = threading.Lock()
        self._file = sock.makefile("rb")

    def send(self, kind: str, body: Any) -> None:
        """Raises OSError when the other end is gone."""
        frame = encode(kind, body)
        with self._lock:
            self._sock.sendall(struct.pack("<I", len(frame)) + frame)

    def receive(self) -> tuple[str, Any] | None:
        """The next message; None at the end of the stream."""
        head = self._file.read(4)
        if len(head) < 4:
            return None
        (size,) = struct.unpack("<I", head)
        if size > LIMIT:
            raise ValueError(f"a frame of {size:,} bytes is longer than the limit of {LIMIT:,}")
        body = self._file.read(size)
        return decode(body) if len(body) == size else None

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()
