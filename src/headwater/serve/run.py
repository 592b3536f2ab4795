"""Start a front and an HTTP server in this process, and drain both on SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import gc
import logging
import os
import signal
import socket
import sys
import time

import uvicorn
from rich.console import Console

from headwater.core.errors import UserInputError
from headwater.engine import logs
from headwater.engine.build import ECHO, EngineSpec, build_front
from headwater.engine.health import Deadlines
from headwater.serve.app import create_app
from headwater.serve.http import BoundedProtocol
from headwater.serve.settings import ServeSettings

log = logging.getLogger("headwater.serve")
console = Console(stderr=True, highlight=False)
DRAIN_SLACK = 5                                                     # seconds for ended streams to reach their clients
M_ARENA_MAX, M_MMAP_THRESHOLD = -8, -3                              # of malloc.h
OWN_PAGES = 64 << 10                                                # bytes from which a buffer has pages of its own, gone when it is
TRIM_SECONDS = 10.0
MOST_FILES = 65_536                                                 # open files, so connections, of the front
# seconds that an idle connection stays: longer than clients (5 s) and proxies (60 s) keep theirs, or they would send into one that is closing
KEEP_ALIVE = 65
BACKLOG = 2048                                                      # connections that wait to be accepted


class Uvicorn(uvicorn.Server):
    """Signals are ours: the first stops taking requests and lets running ones end, the second stops at once."""

    def install_signal_handlers(self) -> None:  # older uvicorn
        return

    def capture_signals(self):
        return contextlib.nullcontext()


def listen(host: str, port: int) -> socket.socket:
    """A bound socket. Raises UserInputError when the address is taken, is not this machine's, or is none."""
    if not host.strip():                                            # the system would take it for every address there is
        raise UserInputError("--host: is empty; 127.0.0.1 would be right, or 0.0.0.0 for every address of this machine", "host")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    s = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)   # named: asyncio turns Nagle's delay off only where it is
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        s.bind((host, port))
    except (OSError, TypeError) as e:                               # TypeError: what cannot be a name, such as one with a NUL
        s.close()
        raise taken(host, port, e) from None
    return s


def taken(host: str, port: int, error: OSError | TypeError) -> UserInputError:
    """What is wrong with an address that could not be bound, and which option would change it."""
    code = error.errno if isinstance(error, OSError) else None
    why = error.strerror if isinstance(error, OSError) else error
    where = f"cannot listen on {f'[{host}]' if ':' in host else host}:{port} ({why})"
    if code == errno.EADDRINUSE:
        return UserInputError(f"--port {port}: {where}; is another server running there?", "port")
    if code in (errno.EACCES, errno.EPERM):
        return UserInputError(f"--port {port}: {where}; one from 1024 on needs no privilege", "port")
    return UserInputError(f"--host {host}: {where}; an address of this machine would be right, such as 127.0.0.1", "host")


def run(spec: EngineSpec, settings: ServeSettings) -> None:
    """Blocks until the server was stopped."""
    logs.configure(settings.log_format)
    if settings.host not in ("127.0.0.1", "localhost", "::1") and not settings.api_keys:
        log.warning("listening beyond loopback without --api-key: anybody who can reach this address can use the model")
    if settings.otlp_traces_endpoint:
        from headwater.obs.traces import need_exporter

        need_exporter()
    allow_connections()
    one_heap()
    if spec.model != ECHO:
        warn_if_slow()
    sock = listen(settings.host, settings.port)
    try:
        asyncio.run(_serve(spec, settings, sock))
    finally:
        sock.close()


def settle() -> None:
    """Before the first request: what is loaded stays, so the collector need not walk over it again (tens of milliseconds in which nobody is
    answered), and a thread that renders a large prompt hands the interpreter over after a millisecond."""
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(0.001)


def allow_connections() -> None:
    """As many open files as the system lets us have: with the usual soft limit, a thousand idle connections would shut everybody else out."""
    with contextlib.suppress(ImportError, ValueError, OSError):     # not a Unix, or not allowed
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
        if soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def one_heap() -> None:
    """One C heap for all threads, as the engine has: of several, each keeps what once went through its thread. Before the first other thread."""
    with contextlib.suppress(OSError, AttributeError, TypeError):            # a C library without it
        if "MALLOC_ARENA_MAX" not in os.environ:
            ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)
        if "MALLOC_MMAP_THRESHOLD_" not in os.environ:
            ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, OWN_PAGES)


async def give_back() -> None:
    """Free pages between live objects go back to the system every few seconds: a heap that is cut up by days of requests would keep its peaks."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        trim = ctypes.CDLL(None).malloc_trim
        while True:
            await asyncio.sleep(TRIM_SECONDS)
            await asyncio.to_thread(trim, 0)


def warn_if_slow() -> None:
    """One line where the numpy reference would compute."""
    from headwater.kernels import native

    if not native.available():
        log.warning("the native module is missing or HEADWATER_NATIVE=off: the numpy reference computes, right but many times slower")


async def _serve(spec: EngineSpec, settings: ServeSettings, sock: socket.socket) -> None:
    begin = time.perf_counter()
    with console.status("loading …") as status:
        deadlines = Deadlines(settings.progress_deadline, settings.progress_deadline)
        front = build_front(
            spec, lambda done, total, what: status.update(f"loading {what} {100 * done // max(1, total)} %"), process=True,
            deadlines=deadlines, log_format=settings.log_format,
        )
        await front.start()
    try:
        sock.listen(BACKLOG)
    except OSError as e:                                            # two may bind while neither listens: another one was ready first
        await front.close()
        raise taken(settings.host, settings.port, e) from None
    app = create_app(front, settings)
    settle()
    server = Uvicorn(uvicorn.Config(
        app, http=BoundedProtocol, ws="none", lifespan="off", log_config=None, log_level="warning", access_log=False,
        timeout_keep_alive=KEEP_ALIVE, timeout_graceful_shutdown=int(settings.drain) + DRAIN_SLACK,
    ))
    loop = asyncio.get_running_loop()

    def stop() -> None:
        if app.state.server.draining:
            front.end_streams("the server is shutting down")
            server.force_exit = True
        else:
            log.info("draining: running requests have %.0f s to end", settings.drain)
            loop.call_later(settings.drain, front.end_streams, "the server is shutting down")
        app.state.server.draining = True
        server.should_exit = True

    for sig in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(sig, stop)
    host, port = sock.getsockname()[:2]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    seconds = time.perf_counter() - begin
    if settings.log_format == "json":
        facts = {"url": url, "model": front.model_info.name, "context": front.model_info.context, "seconds": round(seconds, 3)}
        log.info("ready", extra={"fields": facts})
    else:
        console.print(f"[bold]{front.model_info.name}[/], context {front.model_info.context:,}, ready after {seconds:.2f} s at {url}", soft_wrap=True)
    trimming = asyncio.create_task(give_back())
    try:
        await server.serve(sockets=[sock])
    finally:
        trimming.cancel()
        await front.close()
