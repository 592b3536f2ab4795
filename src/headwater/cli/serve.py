"""headwater serve: the HTTP server."""

from __future__ import annotations

from pathlib import Path

import typer

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def serve(
    path: str = typer.Argument("", metavar="[MODEL]", help="A .gguf file, a folder with safetensors, hf:ORG/REPO[:FILE], a known name, or echo."),
    model: str = typer.Option("", "--model", help="A known model by name (see `headwater models`)."),
    host: str = typer.Option("127.0.0.1", help="Address to listen on; anything but loopback needs --allow-remote."),
    port: int = typer.Option(8000, min=0, max=65535, help="Port; 0 takes a free one and prints it."),
    allow_remote: bool = typer.Option(False, "--allow-remote", help="Listen on an address that other machines can reach."),
    api_key: list[str] = typer.Option([], "--api-key", envvar="HEADWATER_API_KEY", help="Key that clients must send; may be given several times."),
    served_model_name: list[str] = typer.Option([], "--served-model-name", help="Names that clients may use; the first is reported."),
    weights: str = typer.Option("as-is", help="as-is, q8 or q4: quantise a float model at load."),
    kv_memory: str = typer.Option("", "--kv-memory", help="Memory for keys and values, such as 4G; default: what the machine allows."),
    kv: str = typer.Option("f16", "--kv", help="KV format: f16, i16, q8, k8v4, int4, fp4; with r behind it rotated: int4r."),
    context: int = typer.Option(0, min=0, help="Context length in tokens; 0: the model's own."),
    threads: int = typer.Option(0, min=0, help="Threads; 0: physical cores that this process may use."),
    chat_template: str = typer.Option("", "--chat-template", help="File with a jinja2 chat template that replaces the model's."),
    sched: str = typer.Option("fcfs", help="Who runs next: a resident of the room `sched` (see `headwater policies`)."),
    evict: str = typer.Option("slru", help="Which cached block leaves: a resident of the room `evict`."),
    draft: str = typer.Option("none", help="Which tokens to guess: residents of the room `draft`, joined by +."),
    attend: str = typer.Option("dense", help="What generated tokens read: a resident of the room `attend` (lossy but for dense)."),
    rope_scaling: str = typer.Option("", help="A context beyond the model's own: yarn:factor=4, ntk, linear, or none (with dualchunk or stream)."),
    step_tokens: int = typer.Option(2048, min=1, help="Most tokens in one step."),
    max_waiting: int = typer.Option(1024, min=1, help="Requests that may wait before new ones get 429."),
    progress_deadline: float = typer.Option(10.0, min=1.0, help="Seconds without progress after which the engine process is replaced."),
    drain: float = typer.Option(30.0, min=0.0, help="Seconds that running requests get to end after SIGTERM."),
    log_format: str = typer.Option("text", "--log-format", help="text, or json: one object a line."),
    access_log: bool = typer.Option(True, "--access-log/--no-access-log", help="One line for every request (numbers, never content)."),
    otlp_traces_endpoint: str = typer.Option("", "--otlp-traces-endpoint", help="Send OpenTelemetry traces there (needs headwater[otel])."),
    api_key_file: Path = typer.Option(None, "--api-key-file", help="File with one API key a line."),
    max_body: int = typer.Option(32, min=1, help="Largest request body in MiB."),
    cors: list[str] = typer.Option([], "--cors", help="Origin that browsers may call from; none by default."),
    allowed_host: list[str] = typer.Option([], "--allowed-host", help="Name that a Host header may give besides loopback's own (behind a proxy)."),
    own_decision_limits: bool = typer.Option(False, "--own-decision-limits", help="Allow 4,096 options instead of each dialect's limit."),
    temperatures: str = typer.Option("", help="File of decision temperatures (`headwater decide calibrate`)."),
    accept_licence: bool = typer.Option(False, "--accept-licence", help="Accept the licence of a model whose licence restricts use."),
) -> None:
    """Serve a model over HTTP (OpenAI, Anthropic and Ollama shapes, decisions) on loopback."""
    from headwater.core.errors import UserInputError
    from headwater.engine.build import EngineSpec
    from headwater.engine.logs import FORMATS
    from headwater.serve.run import run
    from headwater.serve.settings import ServeSettings

    if path and model:
        raise UserInputError("--model: give a model either as argument or by --model, not both")
    if host not in LOOPBACK and not allow_remote:
        raise UserInputError(f"--host {host}: other machines could reach it; add --allow-remote (and --api-key) if that is meant")
    if log_format not in FORMATS:
        raise UserInputError(f"--log-format {log_format}: one of {', '.join(FORMATS)}")
    spec = EngineSpec(
        model=path or model or EngineSpec.model, name=served_model_name[0] if served_model_name else None, weights=weights,
        kv_memory=kv_memory or None, kv_format=kv, context=context or None, threads=threads or None, chat_template=chat_template or None,
        sched=sched, evict=evict, draft=draft, attend=attend, rope_scaling=rope_scaling, step_tokens=step_tokens, accept_licence=accept_licence,
    )
    settings = ServeSettings(
        host=host, port=port, api_keys=(*api_key, *read_keys(api_key_file)), max_body=max_body * 2**20, max_waiting=max_waiting, cors=tuple(cors),
        served_names=tuple(served_model_name),
        allowed_hosts=(*LOOPBACK, *allowed_host) if host in LOOPBACK or allowed_host else (),
        own_decision_limits=own_decision_limits, temperatures=temperatures or None,
        progress_deadline=progress_deadline, drain=drain, log_format=log_format, access_log=access_log,
        otlp_traces_endpoint=otlp_traces_endpoint or None,
    )
    run(spec, settings)


def read_keys(file: Path | None) -> list[str]:
    """The lines of a key file, blanks and empty lines dropped. Raises UserInputError for a file without any."""
    from headwater.core.errors import UserInputError

    if file is None:
        return []
    try:
        keys = [line.strip() for line in file.read_text("utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as e:
        raise UserInputError(f"--api-key-file {file}: cannot be read ({e})") from None
    if not keys:
        raise UserInputError(f"--api-key-file {file}: holds no key; the server would be open to everybody")
    return keys
