"""A Jinja sandbox in which a template ends: its loops and calls are counted, its texts have a size."""

import functools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment, SecurityError
from jinja2.utils import generate_lorem_ipsum

from evalcard.tasks.files import jinjasizes
from evalcard.tasks.files.jinjasizes import size_of

MAX_STEPS = 1_000_000
"""Rounds of loops and calls in one rendering; a task that lists a thousand choices makes a few thousand."""
MAX_SIZE = 50_000_000
"""Characters of a text, items of a list, bits of a number. Prompts have a hundredth of it at most."""
MAX_MADE = 200_000_000
"""The same of all that is made on the way."""
MAX_SECONDS = 20.0
"""For steps that are slow each; a rendering takes under a millisecond."""
_COUNTED, _SIZED = "evalcard_counted", "evalcard_sized"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of one rendering, as the constants above say."""

    steps: int
    size: int
    made: int
    seconds: float


class _Budget(threading.local):
    bounds = Bounds(MAX_STEPS, MAX_SIZE, MAX_MADE, MAX_SECONDS)
    steps = 0
    made = 0
    ends = float("inf")


_BUDGET = _Budget()


def bounded_text(template: jinja2.Template, values: Mapping[str, Any]) -> str:
    """What ``template.render(values)`` gives. Raises SecurityError, a TemplateError, where it goes beyond the bounds.

    The template is one of a ``BoundedEnvironment``.
    """
    environment = template.environment
    assert isinstance(environment, BoundedEnvironment), environment
    environment.start()
    return environment.concat(template.generate(values))


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """The sandbox, which bounds ``range`` alone, with every loop, call and growing value bounded too."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.take_filters(self.filters)
        self.filters |= {_COUNTED: _counted, _SIZED: _sized}

    def bounds(self) -> Bounds:
        return Bounds(MAX_STEPS, MAX_SIZE, MAX_MADE, MAX_SECONDS)

    def start(self) -> None:
        """Begin to count, for one rendering in this thread; what compiles may make values too."""
        _BUDGET.bounds = self.bounds()
        _BUDGET.steps, _BUDGET.made, _BUDGET.ends = 0, 0, time.monotonic() + _BUDGET.bounds.seconds

    def take_filters(self, filters: Mapping[str, Callable[..., Any]]) -> None:
        """Have these filters, each a step, their results bounded."""
        self.filters |= {name: _bounded_filter(name, one) for name, one in filters.items()}

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        for loop in list(tree.find_all(nodes.For)):
            loop.iter = _filtered(loop.iter, _COUNTED)
        _size_values(tree)
        return tree

    def concat(self, parts: Iterable[str]) -> str:
        """All that a template, a macro or a block says: compiled templates join their pieces by it."""
        kept, size = [], 0
        for part in parts:
            size += len(part)
            _check_size(size)
            kept.append(part)
        return _sized("".join(kept))

    def join_path(self, template: str, parent: str) -> str:
        """A template asks for another."""
        _step()
        return super().join_path(template, parent)

    def call(*args: Any, **kwargs: Any) -> Any:  # noqa: N805 - as the parent: a template may name an argument self
        _step()
        called, given = args[2], args[3:]
        # a text's format and format_map are the sandbox's own, with the text's method wrapped
        owner = getattr(getattr(called, "__wrapped__", called), "__self__", None)
        if called is generate_lorem_ipsum:
            raise SecurityError("lipsum makes random text of any length, and is not to be had")
        if isinstance(owner, (str, bytes, int)):
            _check_size(jinjasizes.called(called.__name__, owner, given, kwargs))
        made = _sized(ImmutableSandboxedEnvironment.call(*args, **kwargs))
        if isinstance(owner, (list, dict, set)):
            _check_size(size_of(owner))
        return made

    def call_binop(self, context: Any, sign: str, left: Any, right: Any) -> Any:
        if sign == "*":
            _check_size(jinjasizes.product(left, right))
        elif sign == "**":
            _check_size(jinjasizes.power(left, right))
        elif sign == "%":
            _check_size(jinjasizes.formatted(left, right, is_percent=True))
        return _sized(super().call_binop(context, sign, left, right))


def _bounded_filter(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    if hasattr(plain, "evalcard_bounded"):
        return plain
    expected = jinjasizes.FILTERS.get(name)
    # a pass_ filter's first argument is its context
    at = 1 if hasattr(plain, "jinja_pass_arg") else 0

    @functools.wraps(plain)
    def checked(*args: Any, **kwargs: Any) -> Any:
        _step()
        if expected is not None and len(args) > at:
            value = list(args[at]) if name in jinjasizes.OVER_ITEMS else args[at]
            args = (*args[:at], value, *args[at + 1 :])
            _check_size(expected(*args[at:], **kwargs))
        return _sized(plain(*args, **kwargs))

    checked.evalcard_bounded = True  # type: ignore[attr-defined]
    return checked


def _filtered(node: Any, name: str) -> Any:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno, environment=node.environment)


def _size_values(node: nodes.Node) -> None:
    """Put a look at the size around every value that is made where no hook of the sandbox sees it."""
    for field, value in list(node.iter_fields()):
        if isinstance(value, nodes.Node):
            _size_values(value)
            if _makes(value):
                setattr(node, field, _filtered(value, _SIZED))
        elif isinstance(value, list):
            for place, one in enumerate(value):
                if isinstance(one, nodes.Node):
                    _size_values(one)
                    if _makes(one):
                        value[place] = _filtered(one, _SIZED)


def _makes(node: nodes.Node) -> bool:
    """``a ~ b``, a part of a text or list, and a list or the like that holds more than constants."""
    if isinstance(node, nodes.Getitem):
        return isinstance(node.arg, nodes.Slice)
    if isinstance(node, (nodes.List, nodes.Dict)) or (isinstance(node, nodes.Tuple) and node.ctx == "load"):
        return any(not isinstance(one, (nodes.Const, nodes.Pair)) for one in node.iter_child_nodes()) or (
            isinstance(node, nodes.Dict) and bool(node.items)
        )
    return isinstance(node, nodes.Concat)


def _step() -> None:
    _BUDGET.steps += 1
    if _BUDGET.steps > _BUDGET.bounds.steps:
        raise SecurityError(f"it makes more than {_BUDGET.bounds.steps:,} rounds of loops and calls")
    if time.monotonic() > _BUDGET.ends:
        raise SecurityError(f"it takes more than {_BUDGET.bounds.seconds:g} s")


def _counted(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        _step()
        yield value


def _check_size(size: int) -> None:
    if size > _BUDGET.bounds.size:
        raise SecurityError(f"a value in it grows beyond {_BUDGET.bounds.size:,} characters")


def _sized(value: Any) -> Any:
    """The value, if it is not too large and not too much has been made before it."""
    if isinstance(value, (str, bytes, list, tuple, dict, set, int)):
        size = size_of(value)
        _check_size(size)
        _BUDGET.made += len(value) if isinstance(value, (list, tuple, dict, set)) else size
        if _BUDGET.made > _BUDGET.bounds.made:
            raise SecurityError(f"all values that it makes come to more than {_BUDGET.bounds.made:,} characters")
    return value
