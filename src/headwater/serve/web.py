"""GET /: a page to chat, decide and watch; one file, no build step, nothing fetched from elsewhere."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from fastapi import APIRouter
from starlette.responses import HTMLResponse

router = APIRouter()
# the page may run its own script and talk to this server, nothing else
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"


@cache
def page() -> str:
    return files("headwater.serve").joinpath("page/index.html").read_text("utf-8")


@router.get("/", include_in_schema=False, response_model=None)
async def index() -> HTMLResponse:
    """The page."""
    return HTMLResponse(page(), headers={"content-security-policy": POLICY, "x-content-type-options": "nosniff"})
