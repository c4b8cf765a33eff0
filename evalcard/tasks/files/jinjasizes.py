"""How large what a Jinja expression asks for will be, told before it is made."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

_CONTAINERS = (list, tuple, set, frozenset)
_NUMBER = re.compile(r"\d+")
_PERCENT_SPEC, _STAR = re.compile(r"%(?:\([^)]*\))?([-+ #0-9.*]+)"), re.compile(r"%(?:\([^)]*\))?[-+ #0-9.]*\*")
_BRACE_SPEC, _NESTED = re.compile(r"\{[^{}]*:([^{}]+)"), re.compile(r"\{[^{}]*\{[^{}]*\}")
_WIDTHS = frozenset({"center", "ljust", "rjust", "zfill", "expandtabs"})
"""Methods of a text that make it as long as a number says."""


def size_of(value: Any) -> int:
    """Characters of a text, bits of a number, and all that a container holds, a shared part as often as it is held: so
    much is written, compared or walked through with it. Anything else counts as one."""
    return _size(value, {})


def _size(value: Any, known: dict[int, int]) -> int:
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, int):
        return value.bit_length()
    if not isinstance(value, (*_CONTAINERS, dict)):
        return 1
    if id(value) not in known:
        known[id(value)] = 1  # what holds itself is written as dots
        held = [*value, *value.values()] if isinstance(value, dict) else value
        known[id(value)] = len(value) + sum(_size(one, known) for one in held)
    return known[id(value)]


def product(left: Any, right: Any) -> int:
    """Of ``left * right``."""
    if isinstance(left, int) and isinstance(right, int):
        return left.bit_length() + right.bit_length()
    for held, count in ((left, right), (right, left)):
        if isinstance(held, (str, bytes, *_CONTAINERS)) and isinstance(count, int):
            return size_of(held) * max(count, 0)
    return 0


def power(left: Any, right: Any) -> int:
    """Of ``left ** right``."""
    is_whole = isinstance(left, int) and isinstance(right, int)
    return left.bit_length() * abs(right) if is_whole else 0


def formatted(text: Any, values: Any, is_percent: bool) -> int:
    """Of ``text % values``, or of ``text.format(...)`` with these values, at most: widths may stand in the text, or
    come as values where it says so."""
    if not isinstance(text, str):
        return 0
    sign, spec, by_value = ("%", _PERCENT_SPEC, _STAR) if is_percent else ("{", _BRACE_SPEC, _NESTED)
    widths = [int(number[:18]) for found in spec.findall(text) for number in _NUMBER.findall(found)]
    if by_value.search(text):
        widths += [abs(one) for one in _each(values) if isinstance(one, int)]
    most = max(map(size_of, _each(values)), default=0)
    return len(text) + text.count(sign) * (max(widths, default=0) + most)


def _each(values: Any) -> Iterable[Any]:
    return [values, *(values.values() if isinstance(values, dict) else values if isinstance(values, tuple) else ())]


def called(method: str, owner: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> int:
    """Of what a method of a text or of a number gives, where it can be more than was put in."""
    given = (*args, *named.values())
    if isinstance(owner, int):
        return max((one for one in given if isinstance(one, int)), default=0) if method == "to_bytes" else 0
    if method in _WIDTHS:
        places = str(owner).count("\t") if method == "expandtabs" else 1
        return size_of(owner) + places * sum(max(one, 0) for one in given if isinstance(one, int))
    if method in ("format", "format_map"):
        return formatted(owner, given, is_percent=False)
    if not isinstance(owner, (str, bytes)):
        return 0
    if method == "replace" and len(args) > 1:
        return _replaced(owner, args[0], args[1])
    if method == "join" and args and isinstance(args[0], (str, *_CONTAINERS, dict)):
        return size_of(args[0]) + len(args[0]) * len(owner)
    if method == "translate" and args:
        return len(owner) * max(1, size_of(args[0]))
    return 0


def _replaced(text: Any, old: Any, new: Any) -> int:
    texts = str(text), str(old), str(new)
    return len(texts[0]) + texts[0].count(texts[1]) * len(texts[2])


def _first(args: tuple[Any, ...], named: Mapping[str, Any], name: str, default: Any) -> Any:
    return args[0] if args else named.get(name, default)


def _indented(value: Any, *args: Any, **named: Any) -> int:
    width = _first(args, named, "width", 4)
    return size_of(value) + (str(value).count("\n") + 1) * (width if isinstance(width, int) else size_of(width))


def _dumped(value: Any, *args: Any, **named: Any) -> int:
    return size_of(value) * (1 + (_first(args, named, "indent", 0) or 0))


def _wrapped(value: Any, width: Any = 79, _breaks: Any = True, wrapstring: Any = None, *_: Any, **__: Any) -> int:
    breaks = len(str(value).split()) + size_of(value) // max(1, width) + str(value).count("\n") + 1
    return size_of(value) + breaks * size_of(wrapstring)


def _summed(values: Any, *args: Any, **named: Any) -> int:
    """Lists are added one after the other, each sum a new one."""
    start = named.get("start", args[1] if len(args) > 1 else 0)
    return 0 if isinstance(start, (int, float)) else size_of(start) + len(values) * size_of(values)


def _joined(values: Any, d: Any = "", *_: Any, **__: Any) -> int:
    return size_of(values) + len(values) * size_of(d)


def _widened(value: Any, *args: Any, **named: Any) -> int:
    return size_of(value) + sum(abs(one) for one in (*args, *named.values()) if isinstance(one, int))


def _linked(value: Any, *args: Any, **named: Any) -> int:
    return size_of(value) * (1 + sum(map(size_of, (*args, *named.values()))))


FILTERS: Mapping[str, Callable[..., int]] = {
    "replace": lambda text, old="", new="", *_, **__: _replaced(text, old, new),
    "format": lambda text, *args, **named: formatted(str(text), (*args, named, *named.values()), is_percent=True),
    "indent": _indented,
    "tojson": _dumped,
    "wordwrap": _wrapped,
    "sum": _summed,
    "join": _joined,
    "urlize": _linked,
    **dict.fromkeys(("center", "batch", "slice"), _widened),
}
"""By filter: of its result, from its own arguments, the value first; a value that is an iterator was made a list."""
OVER_ITEMS = frozenset({"sum", "join"})
"""Filters whose value may be an iterator, which is walked through only once."""
