"""Posts one body to an application in this process and judges the answer: no 5xx, a known status, one error line, streams that end as they should."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from starlette.types import ASGIApp

EVENT_STREAM, LINES = "text/event-stream", "application/x-ndjson"
STATUSES = frozenset((200, 400, 401, 404, 413, 415, 422))
ANSWER_SECONDS = 60.0                                               # far more than any answer takes: beyond it, one has been forgotten


def encode(body: Any) -> bytes:
    """As JSON that may hold what JSON should not."""
    return json.dumps(body).encode()


async def post(app: ASGIApp, path: str, content: bytes) -> tuple[int, dict[str, str], bytes]:
    """(status, headers, body) of a POST straight into the application; what it raises comes out."""
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "path": path, "raw_path": path.encode(),
        "scheme": "http", "query_string": b"", "headers": [(b"content-type", b"application/json")], "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80), "root_path": "",
    }
    sent: list[dict[str, Any]] = []
    asked = False
    never = asyncio.Event()

    async def receive() -> dict[str, Any]:
        nonlocal asked
        if asked:
            await never.wait()
        asked = True
        return {"type": "http.request", "body": content, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await asyncio.wait_for(app(scope, receive, send), ANSWER_SECONDS)
    headers = {k.decode(): v.decode("latin-1") for k, v in sent[0]["headers"]}
    return sent[0]["status"], headers, b"".join(m.get("body", b"") for m in sent[1:])


def complaint(path: str, status: int, headers: dict[str, str], raw: bytes) -> str | None:
    """What is wrong with an answer; None when nothing is."""
    if status not in STATUSES:
        return f"status {status}: {raw[:200]!r}"
    kind = headers.get("content-type", "")
    text = raw.decode()
    if status != 200:
        return _error_complaint(path, json.loads(text))
    if kind.startswith(EVENT_STREAM):
        events = [x for x in text.split("\n\n") if x]
        last = events[-1]
        ends = last == "data: [DONE]" or "message_stop" in last or "response.completed" in last or "response.incomplete" in last
        broken = [x for x in events if '"error":{' in x or x.startswith("event: error")]
        return None if ends and not broken else f"a stream ended with {last[:200]!r}, errors {broken[:1]!r}"
    if kind.startswith(LINES):
        lines = [json.loads(x) for x in text.split("\n") if x]
        return None if lines[-1].get("done") is True and not any("error" in x for x in lines) else f"lines ended with {lines[-1]!r}"
    if not kind.startswith("application/jsonl"):
        json.loads(text)
    return None


def _error_complaint(path: str, answer: Any) -> str | None:
    message = answer.get("error", answer.get("detail"))
    if isinstance(message, dict):
        message = message["message"]
    if isinstance(message, list):
        message = message[0]["msg"]
    if not isinstance(message, str) or not message or "\n" in message or len(message) > 1500:
        return f"an error of no single line: {str(answer)[:300]}"
    return None
