"""What is said before any weights load."""

from collections.abc import Callable
from typing import Any

from evalcard.plan import DEMO_SCHEMES, Plan, with_demo_defaults
from evalcard.spec import make_spec
from evalcard.tasks.prepare import prepare


def test_a_row_is_counted_whole_though_tasks_left_it(toy_spec: Callable[..., Any]):
    spec = toy_spec("toy_mc", limit=1)
    lines = Plan(spec, prepare(spec), {}).lines()
    assert any(line.startswith("  toy_mc: 1 of 14 items, ") for line in lines), lines


def test_a_sweep_of_the_demo_stands_instead_of_its_usual_schemes():
    spec = make_spec(with_demo_defaults({"sweep": "fp8,nf4"}))
    assert [model.label for model in spec.models] == ["evalcard-demo", "evalcard-demo:fp8", "evalcard-demo:nf4"]
    assert [model.scheme for model in make_spec(with_demo_defaults({})).compressed] == list(DEMO_SCHEMES)
