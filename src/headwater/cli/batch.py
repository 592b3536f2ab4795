"""headwater run-batch: OpenAI batch files without a server; a second run goes on where the first stopped."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import typer

from headwater.core.jsonlines import encoded, numbered

ALLOWED = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/systemone", "/v1/decisions", "/v1/score", "/v1/rerank")


def run_batch(
    file: Path = typer.Argument(..., help="JSON lines: custom_id, method, url, body."),
    out: Path = typer.Option(None, "--out", "-o", help="Where answers go (default: FILE with .out.jsonl)."),
    model: str = typer.Option("smollm2-135m-instruct", "--model", help="A known name, a .gguf file, a folder or hf:ORG/REPO."),
    parallel: int = typer.Option(16, min=1, help="Requests in the engine at once."),
) -> None:
    """Answer every request of a batch file. Lines that were answered before, by custom_id, are not run again; those that failed by our fault are."""
    target = out or file.with_name(file.stem + ".out.jsonl")
    requests = read_requests(file)
    done = _answered(target)
    asyncio.run(_run([r for r in requests if r["custom_id"] not in done], len(requests), target, model, parallel))


def read_requests(file: Path) -> list[dict[str, Any]]:
    """Raises UserInputError naming the line and the field."""
    from headwater.core.errors import UserInputError

    try:
        text = file.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise UserInputError(f"{file}: {e}", field=str(file)) from None
    out: list[dict[str, Any]] = []
    seen: set[str] = set()
    for number, line in numbered(text):
        where = f"{file}: line {number}"
        try:
            item = json.loads(line)
        except (ValueError, RecursionError) as e:
            raise UserInputError(f"{where}: not valid JSON ({e})", field=str(file)) from None
        if not isinstance(item, dict) or not isinstance(item.get("custom_id"), str):
            raise UserInputError(f"{where}: custom_id: must be a text", field=str(file))
        if item["custom_id"] in seen:
            raise UserInputError(f"{where}: custom_id: '{item['custom_id']}' is there twice", field=str(file))
        if item.get("url") not in ALLOWED:
            raise UserInputError(f"{where}: url: one of {', '.join(ALLOWED)}, got {item.get('url')!r}", field=str(file))
        if not isinstance(item.get("body"), dict):
            raise UserInputError(f"{where}: body: must be an object", field=str(file))
        if item["body"].get("stream"):
            raise UserInputError(f"{where}: body.stream: a batch cannot stream", field=str(file))
        seen.add(item["custom_id"])
        out.append(item)
    return out


def _answered(target: Path) -> set[str]:
    """custom_ids in `target` that need not be asked again. What a crash left behind the last newline is cut off, and so are lines that failed by our
    fault or by load (429, 5xx). Raises UserInputError for a file of another kind."""
    from headwater.core.errors import UserInputError

    if not target.exists():
        return set()
    data = target.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole != len(data):
        with target.open("rb+") as f:
            f.truncate(whole)
    try:
        lines = [(line, json.loads(line)) for _, line in numbered(data[:whole].decode("utf-8"))]
        kept = {item["custom_id"]: line for line, item in lines if not _worth_another_try(item["response"]["status_code"])}
    except (ValueError, KeyError, TypeError):
        raise UserInputError(f"{target}: is not the output of a batch; remove it or name another --out", field=str(target)) from None
    if len(kept) < len(lines):
        part = target.with_name(f"{target.name}.part")
        part.write_bytes(b"".join(line.encode() + b"\n" for line in kept.values()))
        part.replace(target)                                        # whole or not at all
    return set(kept)


def _worth_another_try(status: int) -> bool:
    return status == 429 or status >= 500


async def _run(requests: list[dict[str, Any]], total: int, target: Path, model: str, parallel: int) -> None:
    import httpx
    from rich.console import Console
    from rich.progress import Progress

    from headwater.engine.build import EngineSpec, build_front
    from headwater.serve.app import create_app
    from headwater.serve.settings import ServeSettings

    target.open("ab").close()                                        # a place that cannot be written is known before the model is loaded
    front = build_front(EngineSpec(model=model))
    await front.start()
    gate = asyncio.Semaphore(parallel)
    app = create_app(front, ServeSettings(max_waiting=10**9, own_decision_limits=True, access_log=False))
    console = Console(stderr=True)
    failed = 0
    try:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app, raise_app_exceptions=False), base_url="http://batch", timeout=None) as client:
            with Progress(console=console) as bar, target.open("ab") as sink:
                task = bar.add_task("requests", total=total, completed=total - len(requests))

                async def one(item: dict[str, Any]) -> None:
                    nonlocal failed
                    async with gate:
                        body = {k: v for k, v in item["body"].items() if k != "model"}
                        if item["url"] in ("/v1/systemone", "/v1/decisions"):
                            body["model"] = front.model_info.name
                        r = await client.post(item["url"], content=encoded(body), headers={"content-type": "application/json"})
                    failed += r.status_code != 200
                    response = {"status_code": r.status_code, "request_id": r.headers.get("x-request-id"), "body": r.json()}
                    line = {"id": f"batch_req_{item['custom_id']}", "custom_id": item["custom_id"], "response": response, "error": None}
                    sink.write(encoded(line))
                    sink.flush()
                    bar.advance(task)

                await asyncio.gather(*(one(r) for r in requests))
    finally:
        await front.close()
    console.print(f"{len(requests):,} requests run, {failed:,} with an error: {target}")
    if failed:
        raise typer.Exit(2)
