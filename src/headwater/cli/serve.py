"""headwater serve: the HTTP server."""

from __future__ import annotations

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
    kv: str = typer.Option("f16", "--kv", help="KV format: f16, q8, fp4 or int4."),
    context: int = typer.Option(0, min=0, help="Context length in tokens; 0: the model's own."),
    threads: int = typer.Option(0, min=0, help="Threads; 0: physical cores that this process may use."),
    chat_template: str = typer.Option("", "--chat-template", help="File with a jinja2 chat template that replaces the model's."),
    sched: str = typer.Option("fcfs", help="Who runs next: a resident of the room `sched` (see `headwater policies`)."),
    evict: str = typer.Option("slru", help="Which cached block leaves: a resident of the room `evict`."),
    draft: str = typer.Option("none", help="Which tokens to guess: residents of the room `draft`, joined by +."),
    attend: str = typer.Option("dense", help="What generated tokens read: a resident of the room `attend` (lossy but for dense)."),
    step_tokens: int = typer.Option(2048, min=1, help="Most tokens in one step."),
    max_waiting: int = typer.Option(1024, min=1, help="Requests that may wait before new ones get 429."),
    max_body: int = typer.Option(32, min=1, help="Largest request body in MiB."),
    cors: list[str] = typer.Option([], "--cors", help="Origin that browsers may call from; none by default."),
    own_decision_limits: bool = typer.Option(False, "--own-decision-limits", help="Allow 4,096 options instead of each dialect's limit."),
    temperatures: str = typer.Option("", help="File of decision temperatures (`headwater decide calibrate`)."),
    accept_licence: bool = typer.Option(False, "--accept-licence", help="Accept the licence of a model whose licence restricts use."),
) -> None:
    """Serve a model over HTTP (OpenAI, Anthropic and Ollama shapes, decisions) on loopback."""
    from headwater.core.errors import UserInputError
    from headwater.engine.build import EngineSpec
    from headwater.serve.run import run
    from headwater.serve.settings import ServeSettings

    if path and model:
        raise UserInputError("--model: give a model either as argument or by --model, not both")
    if host not in LOOPBACK and not allow_remote:
        raise UserInputError(f"--host {host}: other machines could reach it; add --allow-remote (and --api-key) if that is meant")
    spec = EngineSpec(
        model=path or model or EngineSpec.model, name=served_model_name[0] if served_model_name else None, weights=weights,
        kv_memory=kv_memory or None, kv_format=kv, context=context or None, threads=threads or None, chat_template=chat_template or None,
        sched=sched, evict=evict, draft=draft, attend=attend, step_tokens=step_tokens, accept_licence=accept_licence,
    )
    settings = ServeSettings(
        host=host, port=port, api_keys=tuple(api_key), max_body=max_body * 2**20, max_waiting=max_waiting, cors=tuple(cors),
        served_names=tuple(served_model_name), own_decision_limits=own_decision_limits, temperatures=temperatures or None,
    )
    run(spec, settings)
