"""How a process logs: lines for people, or one JSON object a line for collectors."""

from __future__ import annotations

import datetime
import json
import logging

FORMATS = ("text", "json")


class JsonLines(logging.Formatter):
    """time (UTC, ISO 8601), level, logger, message; then what the caller gave as `extra={"fields": {...}}`; `exception` where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.datetime.fromtimestamp(record.created, datetime.UTC).isoformat(timespec="milliseconds")
        line = {"time": when, "level": record.levelname.lower(), "logger": record.name, "message": record.getMessage()}
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class TextLines(logging.Formatter):
    """The fields follow the message as name=value."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        fields = getattr(record, "fields", {})
        return " ".join([super().formatMessage(record), *(f"{k}={v}" for k, v in fields.items())])


def configure(form: str) -> None:
    """Everything from INFO up goes to standard error in `form`, one of FORMATS."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
