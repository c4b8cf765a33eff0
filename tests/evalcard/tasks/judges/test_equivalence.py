"""What math-verify decides, and the rules before it."""

import pytest

from evalcard.tasks.judges.equivalence import are_equal, parsed
from evalcard.tasks.judges.latex import cleaned


@pytest.mark.parametrize(
    ("gold", "answer", "equal"),
    [
        (r"\frac{1}{2004!}", r"\frac{1}{2006!}", False),
        (".0000672", ".000067", False),
        (".0000672", r"6.72 \times 10^{-5}", True),
        (r"(10^{-8}, 2)", r"(10^{-9}, 2)", False),
        (r"\frac{1}{3}", "0.333333", True),
        (r"\frac{1}{3}", "0.333", False),
        (r"12.5\%", "12.5", True),
        (r"12.5\%", "0.125", True),
        (r"12.5\%", r"12.5\%", True),
        (r"12.5\%", r"0.125\%", False),
        ("28", r"28\%", True),
        ("28", "0.28", False),
        ("(x+1)^2", "x^2+2x+1", True),
        ("(x+1)^2", "x^2+2x+2", False),
        (r"\sqrt{2}", "2^{1/2}", True),
        ("1,2", "2,1", True),
        ("(1,2)", "(2,1)", False),
        ("0", "0", True),
        (r"\infty", "5", False),
    ],
)
def test_equal(gold: str, answer: str, equal: bool):
    assert are_equal(gold, answer) is equal


def test_the_gold_comes_first():
    """An equation as the answer to a plain gold states its right side; an equation as the gold must be met as one."""
    assert are_equal("1", "2x + z = 1")
    assert not are_equal("2x + z = 1", "1")


@pytest.mark.parametrize("formula", [r"4\sqrt(2)", "4 +* 3", r"\frac{1}{2", "5)", "2 <"])
def test_an_expression_is_parsed_as_a_whole_or_not_at_all(formula: str):
    assert parsed(formula) is None
    assert not are_equal("4", formula)


def test_what_cleaning_makes_of_a_root_in_parentheses():
    assert are_equal(r"4\sqrt{2}", cleaned(r"4\sqrt(2)")) and not are_equal("4", cleaned(r"4\sqrt(2)"))
