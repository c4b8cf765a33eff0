"""Boxes that are a part of the formula around them."""

import pytest

from evalcard.tasks.judges.statement import final_box
from evalcard.tasks.judges.surroundings import whole_expression


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        (r"-\boxed{3}", "-3"),
        (r"so $x = -\boxed{\frac{1}{2}}$", r"-\frac{1}{2}"),
        (r"so $2\cdot\boxed{3}$.", r"2\cdot(3)"),
        (r"\boxed{3}/4", "(3)/4"),
        (r"\boxed{3}^2", "(3)^2"),
        (r"\(\boxed{3}\times 10^2\)", r"(3)\times 10^2"),
        (r"$5 - \boxed{3}$ eggs", "5 -(3)"),
        (r"- \boxed{3}", "3"),
        (r"Answer - \boxed{3}", "3"),
        (r"**\boxed{3}** 5", "3"),
        (r"\boxed{3}^\circ", "3"),
        (r"the \boxed{3}^{rd}", "3"),
        (r"$9 \times 2 = \boxed{3}$ dollars/day", "3"),
        (r"\boxed{3}/day", "3"),
        (r"$2 + \boxed{3} = 5$", "3"),
    ],
)
def test_as_much_of_the_formula_as_is_answer(text: str, expression: str):
    box = final_box(text)
    assert box is not None and whole_expression(text, box) == expression
