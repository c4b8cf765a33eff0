"""Formulas as text: one spelling, and what spelling alone decides."""

import pytest

from evalcard.tasks.judges.latex import cheap_verdict, cleaned


@pytest.mark.parametrize(
    ("formula", "spelling"),
    [
        (r"$\dfrac{1}{2}$.", r"\frac{1}{2}"),
        (r"\[ x \]", "x"),
        ("**73**", "73"),
        (r"10,\!080", "10080"),
        (r"11,\! 111,\! 111,\! 100", "11111111100"),
        ("x = 58,500", "x = 58500"),
        (r"\$18.90", "18.90"),
        (r"90^{\circ}", "90"),
        ("90\u00b0", "90"),
        ("28 percent", r"28\%"),
        ("11 5/6", r"(11+\frac{5}{6})"),
        ("\u221a2 \u2212 \u03c0", r"\sqrt{2} - \pi"),
        ("x\u00b2 + 1", "x^{2} + 1"),
        (r"4\sqrt(2)", r"4\sqrt{2}"),
        ("3x**2", "3x^2"),
        ("2e3", r"2\times 10^{3}"),
        (r"5.4 \text{ cents}", "5.4"),
        (r"5\text{ or }6", r"5\text{ or }6"),
        (r"\textbf{(073)}", "(073)"),
        (r"\text{5.4 cents}", "5.4"),
        ("15 cm^2", "15"),
        ("60 miles per hour", "60"),
        ("2 pi", "2 pi"),
        ("5 and 6", "5 and 6"),
        ("1 000", "1000"),
        ("3 4", "3 4"),
        (r"\approx 5", "5"),
        (r"\left( 3, 4 \right]", "( 3, 4 ]"),
        (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}"),
    ],
)
def test_one_spelling(formula: str, spelling: str):
    assert cleaned(formula) == spelling
    assert cleaned(spelling) == spelling


@pytest.mark.parametrize(
    ("gold", "answer", "verdict"),
    [
        ("(2,4)", "(2, 4)", True),
        ("5", "5", True),
        ("1,000", "1000", True),
        ("025", "25", True),
        ("5", "-5", False),
        ("18.90", "18.9", True),
        ("0.333333", "0.333", None),
        (r"\text{even}", "Even", True),
        (r"\text{even}", "neve", False),
        (r"\text{(B)}", "B", True),
        (r"\text{east}", r"x = \text{east}", True),
        ("12:00", "1:00", False),
        ("2516_8", "2516_9", False),
        ("2516_8", "2516_{8}", True),
        (r"\frac{1}{2}", "0.5", None),
        ("ab", "ba", None),
        ("5", "2+3", None),
        ("34", "3 4", False),
        ("12", "3 4", False),
        (r"\frac{3}{4}", r"\frac 3 4", None),
        ("3 4", "3 4", True),
    ],
)
def test_what_spelling_decides(gold: str, answer: str, verdict: bool | None):
    assert cheap_verdict(cleaned(gold), cleaned(answer)) is verdict
