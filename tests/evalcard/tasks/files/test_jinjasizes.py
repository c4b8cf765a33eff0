"""No result is larger than it was told to be, and none of usual size is told to be huge."""

from typing import Any

import jinja2
import pytest

from evalcard.tasks.files.jinjasizes import FILTERS, called, formatted, power, product, size_of


def test_shared_parts_count_as_often_as_they_are_held():
    twice: Any = ["abc"]
    for _ in range(3):
        twice = [twice, twice]
    assert size_of(twice) >= sum(character in "abc" for character in str(twice))
    assert size_of("abc") == 3 and size_of(255) == 8 and size_of(None) == 1
    assert size_of({"key": ["abc", ("d",)]}) == 1 + 3 + 2 + 3 + 1 + 1
    itself: list[Any] = ["abc"]
    itself.append(itself)
    assert size_of(itself) == 2 + 3 + 1


@pytest.mark.parametrize(
    ("left", "right"), [(3, "ab"), ("ab", 3), ([1, 2], 5), (1 << 70, 1 << 80), ("ab", -1), ((), 9)]
)
def test_products(left: Any, right: Any):
    assert product(left, right) >= size_of(left * right) - 1


def test_powers():
    for left, right in ((2, 10), (3, 500), (-7, 33)):
        assert size_of(left**right) <= power(left, right) <= 2 * size_of(left**right) + 8
    assert power(2.0, 10**9) == 0


@pytest.mark.parametrize(
    ("text", "values", "is_percent"),
    [("%5000d", 1, True), ("%-500s|%.300f", ("a", 1.0), True), ("%*d", (700, 1), True),
     ("%(a)s%(a)s", {"a": "x" * 90}, True), ("{:>4000}", (1,), False), ("{0}{0}{0}", ("x" * 90,), False),
     ("{:>{}}", (1, 800), False), ("{0[0]}{0[0]}", (["x" * 90],), False)],
)  # fmt: skip
def test_formats(text: str, values: Any, is_percent: bool):
    made = text % values if is_percent else text.format(*values)
    assert len(made) <= formatted(text, values, is_percent) <= 4 * len(made)


@pytest.mark.parametrize("text", ["a: {}, of 123456789", "{} parameters: {:,}"])
def test_numbers_that_are_no_widths(text: str):
    assert formatted(text, (70_000_000, 80_000_000), is_percent=False) < 200


@pytest.mark.parametrize(
    ("method", "owner", "args"),
    [("center", "ab", (900,)), ("expandtabs", "\t" * 30, (40,)), ("replace", "abab", ("b", "xyz" * 50)),
     ("replace", "abab", ("", "-" * 50)), ("join", "--" * 30, (["a", "b", "c"],)), ("join", "-" * 30, ("abc",)),
     ("translate", "aaa", ({97: "x" * 80},)), ("format", "{0}" * 9, ("y" * 20,)), ("zfill", "7", (300,))],
)  # fmt: skip
def test_methods_of_a_text(method: str, owner: str, args: tuple[Any, ...]):
    made = getattr(owner, method)(*args)
    assert len(made) <= called(method, owner, args, {}) <= 5 * len(made)


@pytest.mark.parametrize(
    ("name", "value", "args", "named"),
    [("replace", "abab", ("", "-" * 50), {}), ("format", "%s" * 9, tuple("abcdefghi"), {}), ("center", "a", (400,), {}),
     ("indent", "a\nb\nc", (200,), {"first": True}), ("indent", "a\nb\nc", ("-" * 200,), {"first": True}),
     ("tojson", [1, 2, 3], (), {"indent": 300}), ("wordwrap", "a bc " * 40, (3,), {"wrapstring": "-" * 60}),
     ("join", [1, 2, 3], ("-" * 80,), {}), ("urlize", "www.a.org www.b.org", (), {"target": "t" * 90})],
)  # fmt: skip
def test_filters(name: str, value: Any, args: tuple[Any, ...], named: dict[str, Any]):
    made = jinja2.Environment().call_filter(name, value, list(args), named, eval_ctx=None)
    assert len(str(made)) <= FILTERS[name](value, *args, **named) <= 25 * len(str(made))
