"""A Jinja sandbox in which a template ends: its loops and calls are counted, its texts have a size."""

import functools
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment, SecurityError

MAX_STEPS = 1_000_000
"""Rounds of loops and calls in one rendering; a task that lists a thousand choices makes a few thousand."""
MAX_SIZE = 50_000_000
"""Characters of a text, items of a list, bits of a number. Prompts have a hundredth of it at most."""
MAX_SECONDS = 20.0
"""For steps that are slow each; a rendering takes under a millisecond."""
_WIDE_METHODS = frozenset({"center", "ljust", "rjust", "zfill", "expandtabs"})
_WIDE_FILTERS = ("center", "indent", "batch", "slice", "tojson", "format")
"""What makes a text or a list as long as a number says."""
_WIDE_FORMAT = re.compile(r"\d{8,}")
_COUNTED, _SIZED = "evalcard_counted", "evalcard_sized"


class _Budget(threading.local):
    steps = 0
    ends = 0.0


_BUDGET = _Budget()


def bounded_text(template: jinja2.Template, values: dict[str, Any]) -> str:
    """What ``template.render(**values)`` gives. Raises SecurityError, a TemplateError, where it goes beyond the bounds.

    The template is one of a ``BoundedEnvironment``.
    """
    _BUDGET.steps, _BUDGET.ends = 0, time.monotonic() + MAX_SECONDS
    parts, size = [], 0
    for part in template.generate(**values):
        size += len(part)
        _check_size(size)
        parts.append(part)
    return "".join(parts)


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """The sandbox, which bounds ``range`` alone, with every loop, call and growing value bounded too."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.filters |= {_COUNTED: _counted, _SIZED: _sized}

    def take_filters(self, filters: Mapping[str, Callable[..., Any]]) -> None:
        """Have these filters, those bounded that make a text as long as a number says."""
        self.filters |= {name: _narrow(one) if name in _WIDE_FILTERS else one for name, one in filters.items()}

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        for loop in list(tree.find_all(nodes.For)):
            loop.iter = _filtered(loop.iter, _COUNTED)
        _size_texts(tree)
        return tree

    def call(*args: Any, **kwargs: Any) -> Any:  # noqa: N805 - as the parent: a template may name an argument self
        _step()
        called = args[2]
        name, text = getattr(called, "__name__", ""), getattr(getattr(called, "__wrapped__", None), "__self__", "")
        if name in _WIDE_METHODS:
            _check_widths("", args[3:], kwargs)
        elif name in ("format", "format_map"):
            _check_widths(text, (), {})
        return _sized(ImmutableSandboxedEnvironment.call(*args, **kwargs))

    def call_binop(self, context: Any, sign: str, left: Any, right: Any) -> Any:
        if sign == "*":
            _check_size(_product(left, right))
        elif sign == "**" and isinstance(left, int) and isinstance(right, int):
            _check_size(left.bit_length() * abs(right))
        elif sign == "%":
            _check_widths(left, (), {})
        return _sized(super().call_binop(context, sign, left, right))


def _narrow(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def checked(*args: Any, **kwargs: Any) -> Any:
        # a pass_ filter's first argument is its context, no text
        is_format = plain.__name__ == "do_format"
        _check_widths(args[0] if is_format else "", () if is_format else args[1:], kwargs)
        return plain(*args, **kwargs)

    return checked


def _check_widths(text: Any, args: Iterable[Any], kwargs: dict[str, Any]) -> None:
    """``text`` is a format with widths in it, the rest may be widths themselves."""
    if isinstance(text, str) and _WIDE_FORMAT.search(text):
        _check_size(MAX_SIZE + 1)
    for width in (*args, *kwargs.values()):
        _check_size(width if isinstance(width, int) else 0)


def _filtered(node: Any, name: str) -> Any:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno, environment=node.environment)


def _size_texts(node: nodes.Node) -> None:
    """Put a look at the size around every ``a ~ b``, which no hook of the sandbox sees."""
    for field, value in list(node.iter_fields()):
        if isinstance(value, nodes.Node):
            _size_texts(value)
            if isinstance(value, nodes.Concat):
                setattr(node, field, _filtered(value, _SIZED))
        elif isinstance(value, list):
            for place, one in enumerate(value):
                if isinstance(one, nodes.Node):
                    _size_texts(one)
                    if isinstance(one, nodes.Concat):
                        value[place] = _filtered(one, _SIZED)


def _step() -> None:
    _BUDGET.steps += 1
    if _BUDGET.steps > MAX_STEPS:
        raise SecurityError(f"it makes more than {MAX_STEPS:,} rounds of loops and calls")
    if not _BUDGET.steps % 256 and time.monotonic() > _BUDGET.ends:
        raise SecurityError(f"it takes more than {MAX_SECONDS:g} s")


def _counted(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        _step()
        yield value


def _check_size(size: int) -> None:
    if size > MAX_SIZE:
        raise SecurityError(f"a value in it grows beyond {MAX_SIZE:,} characters")


def _sized(value: Any) -> Any:
    if isinstance(value, (str, bytes, list, tuple)):
        _check_size(len(value))
    elif isinstance(value, int):
        _check_size(value.bit_length())
    return value


def _product(left: Any, right: Any) -> int:
    """The size of ``left * right``, before it is made."""
    if isinstance(left, int) and isinstance(right, int):
        return left.bit_length() + right.bit_length()
    for text, count in ((left, right), (right, left)):
        if isinstance(text, (str, bytes, list, tuple)) and isinstance(count, int):
            return len(text) * max(count, 0)
    return 0
