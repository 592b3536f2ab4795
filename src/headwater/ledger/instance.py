"""The instance: whose living document on which topic, in which language and zone, in which window (`ledger.toml`)."""

from __future__ import annotations

import tomllib
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from headwater.core.errors import UserInputError

NAME = "ledger.toml"


class Instance(BaseModel):
    """Configuration of one ledger. slot: daily time `HH:MM`; keywords: words that make an item belong to the topic; siblings: other
    topics whose briefs are looked at; house_rules: also lint our own briefs with house style."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    topic: str
    owner: str = ""
    language: Literal["zh", "en"] = "zh"
    zone: str = "UTC"
    slot: str = "22:00"
    window_hours: int = 24
    document: str = ""
    layout: Literal["D", "B"] = "D"
    keywords: list[str] = []
    siblings: list[str] = []
    house_rules: bool = True

    @field_validator("zone")
    @classmethod
    def _zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError) as e:
            raise ValueError(f"{value!r} is no time zone (try Asia/Shanghai or UTC)") from e
        return value

    @field_validator("slot")
    @classmethod
    def _slot(cls, value: str) -> str:
        try:
            datetime.strptime(value, "%H:%M")
        except ValueError as e:
            raise ValueError(f"{value!r} is no time of day (HH:MM)") from e
        return value

    def words(self) -> list[str]:
        """Keywords in lower case; the topic itself counts."""
        return [w.casefold() for w in dict.fromkeys([self.topic, *self.keywords]) if w]

    def window(self, now: datetime) -> tuple[str, str]:
        """(start, end) of the window that ends now, in the instance's zone, as `YYYY-MM-DD HH:MM`."""
        end = now.astimezone(ZoneInfo(self.zone))
        start = end - timedelta(hours=self.window_hours)
        return start.strftime("%Y-%m-%d %H:%M"), end.strftime("%Y-%m-%d %H:%M")


def read_instance(home: Path) -> Instance:
    """The instance of a ledger folder.

    Raises:
        UserInputError: as `read_instance_file`; a missing file is answered with the command that makes a ledger.
    """
    if not (path := Path(home) / NAME).is_file():
        raise UserInputError(f"{path}: missing; make the ledger with `headwater ledger init {home} --topic TOPIC`", "ledger")
    return read_instance_file(path)


def read_instance_file(path: Path) -> Instance:
    """The instance in a file, whatever it is called.

    Raises:
        UserInputError: the file is missing or a field is wrong; names the field and what would be right.
    """
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except OSError as e:
        raise UserInputError(f"instance: {path} cannot be read ({e.strerror or e})", "instance") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise UserInputError(f"{path}: not valid TOML ({e})", "ledger") from None
    try:
        return Instance(**data)
    except ValidationError as e:
        first = e.errors()[0]
        field = ".".join(str(p) for p in first["loc"])
        raise UserInputError(f"{path}: {field}: {first['msg']}", field) from None


def write_instance(home: Path, instance: Instance) -> Path:
    """Write `ledger.toml`; an existing one is left alone."""
    path = Path(home) / NAME
    if not path.exists():
        lines = []
        for name, value in instance.model_dump().items():
            lines.append(f"{name} = {_toml(value)}")
        path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    text = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def clock(text: str | None, zone: str) -> datetime:
    """The moment a step calls now: `2026-09-03T22:20` in the instance's zone, or with an offset of its own.

    Raises:
        UserInputError: not a date and time.
    """
    if text is None:
        return datetime.now(ZoneInfo(zone)).replace(microsecond=0)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UserInputError(f"now: {text!r} is no ISO date and time (2026-09-03T22:20)", "now") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(zone))
