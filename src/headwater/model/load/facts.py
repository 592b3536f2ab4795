"""Typed look-ups in metadata that a stranger wrote: a wrong type, a missing key or an absurd number is one line that names the key."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, overload

import numpy as np

from headwater.core.errors import FormatError

_MISSING: Any = object()
MAX_ITEMS = 1 << 16
MAX_INTEGER = 1 << 40


class Facts:
    """Metadata under a common key prefix. `label` is what error messages call the file."""

    def __init__(self, label: str, values: Mapping[str, Any], prefix: str = "") -> None:
        self.label, self.values, self.prefix = label, values, prefix

    def wrong(self, key: str, what: str) -> FormatError:
        return FormatError(f"{self.label}: key '{self.prefix}{key}' {what}", field=self.prefix + key)

    def has(self, key: str) -> bool:
        return self.values.get(self.prefix + key) is not None

    def under(self, key: str) -> Facts:
        """The object under `key` (JSON); an absent one is empty."""
        value = self._get(key, {})
        if not isinstance(value, Mapping):
            raise self.wrong(key, f"is {_show(value)}; an object is needed")
        return Facts(self.label, {f"{self.prefix}{key}.{k}": v for k, v in value.items()}, f"{self.prefix}{key}.")

    def with_defaults(self, defaults: Mapping[str, Any]) -> Facts:
        """The same metadata where what is missing has a value."""
        given = {k: v for k, v in self.values.items() if v is not None}
        return Facts(self.label, {self.prefix + k: v for k, v in defaults.items()} | given, self.prefix)

    def integer(self, key: str, default: int | None = _MISSING, low: int = 0, high: int = MAX_INTEGER) -> int:
        """Whole number in [low, high]. Raises FormatError."""
        value = self._get(key, default)
        if value is default and default is not _MISSING:
            return value  # type: ignore[return-value]
        return self._integer(key, value, low, high)

    def number(self, key: str, default: float | None = _MISSING) -> float:
        """Finite number. Raises FormatError."""
        value = self._get(key, default)
        if value is default and default is not _MISSING:
            return value  # type: ignore[return-value]
        return self._number(key, value)

    def positive(self, key: str, default: float) -> float:
        """Finite number above 0. Raises FormatError."""
        value = self.number(key, default)
        if value <= 0:
            raise self.wrong(key, f"is {_show(value)}; a number above 0 is needed")
        return value

    def text(self, key: str, default: str = _MISSING) -> str:
        value = self._get(key, default)
        if not isinstance(value, str):
            raise self.wrong(key, f"is {_show(value)}; a string is needed")
        return value

    def flag(self, key: str, default: bool = _MISSING) -> bool:
        value = self._get(key, default)
        if not isinstance(value, bool | np.bool_):
            raise self.wrong(key, f"is {_show(value)}; true or false is needed")
        return bool(value)

    def integers(self, key: str, count: int, default: int | None = _MISSING, low: int = 0, high: int = MAX_INTEGER) -> tuple[int, ...]:
        """One number for all or a list of `count` numbers."""
        value = self._get(key, default)
        if isinstance(value, list | tuple | np.ndarray):
            return tuple(self._integer(key, v, low, high) for v in self._items(key, value, count))
        return (self._integer(key, value, low, high),) * count

    def flags(self, key: str, count: int) -> tuple[bool, ...]:
        """A list of `count` truth values."""
        value = self._get(key, _MISSING)
        if not isinstance(value, list | tuple | np.ndarray) or not all(isinstance(v, bool | np.bool_) for v in value[:MAX_ITEMS]):
            raise self.wrong(key, f"is {_show(value)}; a list of {count} truth values is needed")
        return tuple(bool(v) for v in self._items(key, value, count))

    def numbers(self, key: str, count: int) -> tuple[float, ...]:
        """A list of `count` finite numbers."""
        value = self._get(key, _MISSING)
        if not isinstance(value, list | tuple | np.ndarray):
            raise self.wrong(key, f"is {_show(value)}; a list of {count} numbers is needed")
        return tuple(self._number(key, v) for v in self._items(key, value, count))

    def texts(self, key: str, count: int) -> tuple[str, ...]:
        """A list of `count` strings."""
        value = self._get(key, _MISSING)
        if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value[:MAX_ITEMS]):
            raise self.wrong(key, f"is {_show(value)}; a list of {count} strings is needed")
        return tuple(self._items(key, value, count))

    def _items(self, key: str, value: Any, count: int) -> list[Any]:
        if len(value) != count or count > MAX_ITEMS:
            raise self.wrong(key, f"has {len(value):,} items; {count:,} are needed")
        return list(value)

    def _integer(self, key: str, value: Any, low: int, high: int) -> int:
        whole = isinstance(value, int | np.integer) or (isinstance(value, float | np.floating) and float(value).is_integer())
        if isinstance(value, bool | np.bool_) or not whole:
            raise self.wrong(key, f"is {_show(value)}; a whole number is needed")
        if not low <= int(value) <= high:
            raise self.wrong(key, f"is {int(value) if abs(int(value)) < 1 << 64 else _show(value)}; from {low:,} to {high:,} is possible")
        return int(value)

    def _number(self, key: str, value: Any) -> float:
        if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
            raise self.wrong(key, f"is {_show(value)}; a number is needed")
        if (isinstance(value, int) and abs(value) > 1 << 512) or not math.isfinite(value):
            raise self.wrong(key, f"is {_show(value)}; a finite number is needed")
        return float(value)

    @overload
    def _get(self, key: str, default: None) -> Any | None: ...
    @overload
    def _get(self, key: str, default: Any) -> Any: ...
    def _get(self, key: str, default: Any) -> Any:
        value = self.values.get(self.prefix + key)
        if value is None:
            if default is _MISSING:
                raise FormatError(f"{self.label}: key '{self.prefix}{key}' is missing", field=self.prefix + key)
            return default
        return value


def _show(value: Any) -> str:
    text = f"a {type(value).__name__}" if isinstance(value, dict | list | tuple | np.ndarray) else repr(value) if value is not _MISSING else "missing"
    return text if len(text) <= 60 else text[:57] + "..."
