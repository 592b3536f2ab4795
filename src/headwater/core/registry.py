"""Rooms and their residents: `@register("evict", "slru")` above a dataclass; its fields are its parameters.

A spec is `name`, `name:field=value,field=value` or `module:Class` for a resident that lives outside the package.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import pkgutil
import typing
from collections.abc import Callable
from typing import Any, TypeVar

from headwater.core.errors import UserInputError

T = TypeVar("T", bound=type)
V = TypeVar("V")
_ROOMS: dict[str, dict[str, type]] = {}


def register(room: str, name: str) -> Callable[[T], T]:
    """Class decorator: make the class a resident of `room` under `name`. A name is taken once."""

    def add(cls: T) -> T:
        residents = _ROOMS.setdefault(room, {})
        if residents.get(name, cls) is not cls and residents[name].__qualname__ != cls.__qualname__:
            raise ValueError(f"{room}:{name} is registered twice: {residents[name]!r} and {cls!r}")
        residents[name] = cls
        return cls

    return add


def residents(room: str) -> dict[str, type]:
    """All residents of a room by name; imports the room's folder first."""
    package = importlib.import_module(f"headwater.policies.{room}")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return dict(sorted(_ROOMS.get(room, {}).items()))


def build(room: str, spec: str) -> Any:
    """Make the resident that `spec` names. Raises UserInputError naming the room, the field and the known ones."""
    name, _, args = spec.partition(":")
    known = residents(room)
    if name in known:
        cls = known[name]
    elif args and args.partition(":")[0].isidentifier():            # module:Class[:field=value,...]
        attr, _, args = args.partition(":")
        try:
            cls = getattr(importlib.import_module(name), attr)
        except (ImportError, AttributeError, TypeError, ValueError, SyntaxError) as e:     # TypeError: a relative name
            raise UserInputError(f"--{room} {spec}: cannot load {name}:{attr} ({e})", field=room) from None
        if not isinstance(cls, type) or not dataclasses.is_dataclass(cls):
            raise UserInputError(f"--{room} {spec}: {name}:{attr} is no resident; a dataclass would be right", field=room)
    else:
        raise UserInputError(f"--{room} {spec}: no resident '{name}'; known: {', '.join(known)}", field=room)
    values = _parse_fields(room, cls, args)
    missing = [f.name for f in dataclasses.fields(cls) if f.init and f.name not in values and f.default is f.default_factory is dataclasses.MISSING]
    if missing:
        raise UserInputError(f"--{room} {spec}: needs {', '.join(missing)}; {name}:field=value,… would be right", field=room)
    return cls(**values)


def require(room: str, name: str, value: V, right: bool, wanted: str) -> V:
    """The value of a resident's parameter. Raises UserInputError naming room, parameter, value and what is wanted unless it is right."""
    if not right:
        raise UserInputError(f"--{room}: {name}={f'{value:g}' if isinstance(value, float) else value}: {wanted} would be right", field=room)
    return value


def _parse_fields(room: str, cls: type, args: str) -> dict[str, Any]:
    types = typing.get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls) if f.init}
    values: dict[str, Any] = {}
    for item in filter(None, args.split(",")):
        key, eq, text = item.partition("=")
        if not eq or key not in fields:
            raise UserInputError(f"--{room}: '{item}' is not a parameter of {cls.__name__}; it has: {', '.join(fields) or 'none'}", field=room)
        values[key] = _parse_value(room, key, types[key], text)
    return values


def _parse_value(room: str, key: str, kind: Any, text: str) -> Any:
    if typing.get_origin(kind) is not None:                         # Optional[...] and Literal[...]: the first plain type decides
        if typing.get_origin(kind) is typing.Literal:
            if text not in typing.get_args(kind):
                raise UserInputError(f"--{room}: {key}={text}: one of {', '.join(map(str, typing.get_args(kind)))}", field=room)
            return text
        kind = next(k for k in typing.get_args(kind) if k is not type(None))
    if kind is bool:
        if text.lower() in ("1", "true", "yes", "on"):
            return True
        if text.lower() in ("0", "false", "no", "off"):
            return False
        raise UserInputError(f"--{room}: {key}={text}: not a truth value (true or false)", field=room)
    try:
        value = kind(text)
    except ValueError:
        raise UserInputError(f"--{room}: {key}={text}: not of type {kind.__name__}", field=room) from None
    if kind is float and not math.isfinite(value):
        raise UserInputError(f"--{room}: {key}={text}: a finite number would be right", field=room)
    return value
