"""A jinja2 sandbox for chat templates from outside: no code, no files, and neither endless loops nor endless strings.

jinja2's own sandbox keeps templates from reaching Python's internals. It does not stop `{% for %}` inside `{% for %}`, strings that
double, or lists that hold themselves twice, forty levels deep. Here every loop turn and call is counted, everything that is handled is
charged by its size, what could make something large is checked *before* it is done, and only harmless filters exist.
"""

from __future__ import annotations

import datetime
import functools
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, cast

from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, LoopControlExtension
from jinja2.filters import FILTERS
from jinja2.parser import Parser
from jinja2.runtime import Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

MAX_SOURCE = 1 << 19                                                # characters of template
MAX_STEPS = 250_000                                                 # loop turns and calls in one rendering
MAX_WORK = 4_000_000                                                # sizes of what is handled: an item of a list, 16 characters of text
MAX_ITEMS = 200_000                                                 # of one container, counted through what it holds
MAX_TEXT = 1 << 23                                                  # characters of one string, and of all output together
MAX_WIDTH = 1000                                                    # of indents and padding
_BIG_NUMBER = re.compile(r"\d{4,}|[*]")
_HARMLESS = (
    "abs", "capitalize", "count", "d", "default", "dictsort", "e", "escape", "first", "float", "groupby", "int", "items", "last", "length",
    "lower", "map", "max", "min", "reject", "rejectattr", "reverse", "round", "safe", "select", "selectattr", "sort", "title", "trim", "unique",
    "upper", "wordcount",
)
_SLOW = frozenset(("dictsort", "groupby", "max", "min", "sort", "unique"))
_PADDING = frozenset(("center", "ljust", "rjust", "zfill", "expandtabs"))


class TemplateRefusal(Exception):
    """The template called raise_exception: the conversation is not one that it can render."""


@dataclass
class Budget:
    """What one rendering may still use."""

    steps: int = MAX_STEPS
    text: int = MAX_TEXT
    work: int = MAX_WORK

    def step(self, text: int = 0) -> None:
        self.steps -= 1
        self.text -= text
        if self.steps < 0:
            raise SecurityError(f"more than {MAX_STEPS:,} loop turns and calls")
        if self.text < 0:
            raise SecurityError(f"more than {MAX_TEXT:,} characters of output")


    def charge(self, work: int) -> None:
        self.work -= work
        if self.work < 0:
            raise SecurityError("it handles too much data")


budget: ContextVar[Budget] = ContextVar("budget")


def charge_for(*values: Any) -> None:
    """Charge for going once through each value."""
    for v in values:
        if isinstance(v, str):
            budget.get().charge(len(v) >> 4)
        elif isinstance(v, list | tuple | dict | range):
            budget.get().charge(len(v))


def checked(value: Any) -> Any:
    """`value` when it is small enough: strings, numbers, and containers through all they hold (a list held twice counts twice)."""
    if isinstance(value, str):
        charge_for(value)
        if len(value) > MAX_TEXT:
            raise SecurityError(f"a string of more than {MAX_TEXT:,} characters")
    elif isinstance(value, int):
        if value.bit_length() > 256:
            raise SecurityError("a number of more than 256 bits")
    elif isinstance(value, list | tuple | dict | Namespace):
        _count_items(value)
    return value


def _count_items(value: Any) -> None:
    left, text, stack = MAX_ITEMS, MAX_TEXT, [iter((value,))]
    while stack:
        for item in stack[-1]:
            left -= 1
            if isinstance(item, str):
                text -= len(item)
            if left < 0 or text < 0 or len(stack) > 100:
                raise SecurityError(f"a structure of more than {MAX_ITEMS:,} items, {MAX_TEXT:,} characters or 100 levels")
            if isinstance(item, Namespace):
                item = item._Namespace__attrs
            if isinstance(item, Mapping):
                stack.append(iter([*item.keys(), *item.values()]))
                break
            if isinstance(item, list | tuple):
                stack.append(iter(item))
                break
        else:
            stack.pop()
    budget.get().charge(4 * (MAX_ITEMS - left))                     # going through them here costs more than most other handling


def to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, separators: Any = None, sort_keys: bool = False) -> str:
    """The `tojson` that chat templates expect: plain JSON, no HTML escapes."""
    if isinstance(value, Undefined):
        raise SecurityError(f"tojson of something undefined ({value._undefined_name})")
    if isinstance(value, Iterator):                                 # what map and select make
        value = list(value)
    if indent is not None and not 0 <= int(indent) <= 16:
        raise SecurityError("tojson with an indent outside 0..16")
    return json.dumps(checked(value), ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _join(values: Iterable[Any], separator: str = "", attribute: Any = None) -> str:
    if attribute is not None:
        values = [v.get(attribute) if isinstance(v, Mapping) else getattr(v, str(attribute), "") for v in values]
    parts, size = [], 0
    for v in values:
        parts.append(v if isinstance(v, str) else str(checked(v)))
        size += len(parts[-1]) + len(separator)
        if size > MAX_TEXT:
            raise SecurityError(f"a string of more than {MAX_TEXT:,} characters")
    budget.get().step(size)
    return str(separator).join(parts)


def _replace(text: str, old: str, new: str, count: int | None = None) -> str:
    text, old, new = str(text), str(old), str(new)
    found = text.count(old) if count is None or count < 0 else min(text.count(old), count)
    if len(text) + found * len(new) > MAX_TEXT:
        raise SecurityError(f"a string of more than {MAX_TEXT:,} characters")
    return text.replace(old, new, -1 if count is None else count)


def _indent(text: str, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    pad = width if isinstance(width, str) else " " * min(max(width, 0), MAX_WIDTH + 1)
    if len(pad) > MAX_WIDTH or (text.count("\n") + 1) * len(pad) + len(text) > MAX_TEXT:
        raise SecurityError(f"an indent of more than {MAX_WIDTH} characters")
    lines = text.splitlines()
    out = [pad + line if (i or first) and (line or blank) else line for i, line in enumerate(lines)]
    return "\n".join(out) + ("\n" if text.endswith("\n") else "")


def _sum(values: Iterable[Any], attribute: str | None = None, start: float = 0) -> float:
    items: list[Any] = [v.get(attribute) if attribute and isinstance(v, Mapping) else v for v in values]
    if not all(isinstance(v, int | float) for v in [*items, start]):
        raise SecurityError("sum of something that is not a number")
    return math.fsum(items) + start if any(isinstance(v, float) for v in items) else sum(items) + start


def _format(text: str, *args: Any, **kwargs: Any) -> str:
    _check_format(text, args, kwargs)
    return str(text) % (kwargs or tuple(checked(a) for a in args))


def _check_format(text: str, args: Iterable[Any], kwargs: Mapping[str, Any]) -> None:
    if _BIG_NUMBER.search(str(text)) or any(isinstance(a, int) and abs(a) > 1 << 40 for a in [*args, *kwargs.values()]):
        raise SecurityError("a format with a width of four digits or more")
    if "{" in str(text) and re.search(r"{[^}]*{", str(text)):
        raise SecurityError("a format whose width is an argument")


def strftime_now(form: str) -> str:
    """Today by a strftime format."""
    if len(form) > 200 or _BIG_NUMBER.search(form):
        raise SecurityError("strftime_now with an odd format")
    return datetime.datetime.now().strftime(form)


def raise_exception(message: str = "") -> None:
    """What templates call when the conversation does not suit them."""
    raise TemplateRefusal(str(message))


def _charged(function: Callable[..., Any], times: int = 1) -> Callable[..., Any]:
    """A filter or test that charges for what it is given."""

    @functools.wraps(function)                                      # also keeps jinja2's mark for those that want the environment
    def charged(*args: Any, **kwargs: Any) -> Any:
        for _ in range(times):
            charge_for(*args, *kwargs.values())
        return function(*args, **kwargs)

    return charged


class _Generation(Extension):
    """`{% generation %}...{% endgeneration %}` marks the assistant's text for training; rendering only passes it through."""

    tags = {"generation"}                                           # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True)).set_lineno(line)


def _charge(value: Any) -> Any:
    charge_for(value)
    return value


def _count_turns(items: Any, text: int) -> Iterator[Any] | Any:
    """Wrap what a loop runs over; `text` is the constant text of the loop's body. Undefined stays what it is."""
    if isinstance(items, Undefined):
        return items
    return _Turns(items, text)


class _Turns:
    """An iterable that counts its turns and still knows its length, for `loop.last`."""

    def __init__(self, items: Any, text: int) -> None:
        self._items, self._text = items, text

    def __iter__(self) -> Iterator[Any]:
        step, text = budget.get().step, self._text
        for item in self._items:
            step(text)
            yield item

    def __len__(self) -> int:
        return len(self._items)


class TemplateSandbox(ImmutableSandboxedEnvironment):
    """Environment for chat templates; a rendering must run with `budget` set."""

    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=False, optimized=False,
            extensions=[LoopControlExtension, _Generation], finalize=self._finalize,
        )
        self.filters: dict[str, Callable[..., Any]] = {name: FILTERS[name] for name in _HARMLESS}
        self.filters |= {
            "tojson": to_json, "join": _join, "replace": _replace, "indent": _indent, "sum": _sum, "format": _format,
            "string": lambda v: v if isinstance(v, str) else str(checked(v)),
            "list": lambda v: checked(list(v)),
        }
        self.filters = {name: _charged(f, 6 if name in _SLOW else 1) for name, f in self.filters.items()}
        self.filters |= {"__turns": _count_turns, "__checked": checked, "__charged": _charge}
        self.tests = {name: _charged(cast("Callable[..., Any]", f)) for name, f in self.tests.items()}
        self.globals = {
            "range": self.globals["range"], "namespace": Namespace, "dict": dict,
            "raise_exception": raise_exception, "strftime_now": strftime_now,
        }

    def _finalize(self, value: Any) -> Any:
        if not isinstance(value, str):
            value = str(checked(value))
        budget.get().step(len(value))
        return value

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        for loop in tree.find_all(nodes.For):
            text = sum(len(d.data) for d in loop.find_all(nodes.TemplateData))
            loop.iter = _filtered(cast("nodes.Expr", loop.iter), "__turns", nodes.Const(text))
        _check_built(tree)
        return tree

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Check the size of the result before computing it."""
        if operator == "*":
            for many, times in ((left, right), (right, left)):
                if isinstance(many, str | list | tuple) and isinstance(times, int) and len(many) * times > MAX_ITEMS:
                    raise SecurityError(f"a repetition of more than {MAX_ITEMS:,} items")
        elif operator == "**" and (not isinstance(right, int | float) or abs(right) > 64 or abs(left) > 1 << 16):
            raise SecurityError("a power beyond 65,536 to the 64th")
        elif operator == "%" and isinstance(left, str):
            _check_format(left, right if isinstance(right, tuple) else (right,), {})
        elif operator == "+" and isinstance(left, str | list | tuple) and isinstance(right, type(left)):
            if len(left) + len(right) > (MAX_TEXT if isinstance(left, str) else MAX_ITEMS):
                raise SecurityError(f"a sum of more than {MAX_ITEMS:,} items or {MAX_TEXT:,} characters")
            if isinstance(left, str) and isinstance(right, str):
                charge_for(left, right)
                return left + right
        return checked(super().call_binop(context, operator, left, right))

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Count every call; methods of strings are checked for what their arguments would make of them."""
        bound = getattr(__obj, "__wrapped__", __obj)                # str.format arrives wrapped by jinja2
        owner, method = getattr(bound, "__self__", None), getattr(bound, "__name__", "")
        charge_for(owner, *args)
        if isinstance(owner, str):
            if method == "replace":
                return _replace(owner, *args)
            if method == "join":
                return _join(args[0] if args else (), owner)
            if method in ("format", "format_map"):
                _check_format(owner, args, kwargs)
            if any(isinstance(a, int) and abs(a) > MAX_WIDTH for a in args) and method in _PADDING:
                raise SecurityError(f"{method} beyond {MAX_WIDTH} characters")
        value = super().call(__context, __obj, *args, **kwargs)
        budget.get().step(len(value) if isinstance(value, str) else 0)
        return checked(value)


def _filtered(node: nodes.Expr, name: str, *args: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(node, name, list(args), [], None, None, lineno=node.lineno)


def _check_built(node: nodes.Node) -> None:
    """Wrap every container and concatenation that the template writes, so that none is used before it is checked."""
    for field, value in list(node.iter_fields()):
        if isinstance(value, list):
            for i, child in enumerate(value):
                if isinstance(child, nodes.Node):
                    _check_built(child)
                    value[i] = _wrapped(child)
        elif isinstance(value, nodes.Node):
            _check_built(value)
            setattr(node, field, _wrapped(value))


def _wrapped(node: nodes.Node) -> nodes.Node:
    if isinstance(node, nodes.Operand):
        node.expr = _filtered(node.expr, "__charged")
    if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice):  # compiled to a plain slice, which would escape the charge
        return _filtered(node, "__charged")
    if isinstance(node, nodes.Concat):
        return _filtered(nodes.List(node.nodes, lineno=node.lineno), "join")
    if isinstance(node, nodes.List | nodes.Dict) or (isinstance(node, nodes.Tuple) and node.ctx == "load"):
        return _filtered(node, "__checked")
    return node
