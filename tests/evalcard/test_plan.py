"""What is said before any weights load."""

from collections.abc import Callable
from typing import Any

from evalcard.plan import Plan
from evalcard.tasks.prepare import prepare


def test_a_row_is_counted_whole_though_tasks_left_it(toy_spec: Callable[..., Any]):
    spec = toy_spec("toy_mc", limit=1)
    lines = Plan(spec, prepare(spec), {}).lines()
    assert any(line.startswith("  toy_mc: 1 of 14 items, ") for line in lines), lines
