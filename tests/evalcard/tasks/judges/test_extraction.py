"""Which formula of a reply is its answer."""

import time

import pytest

from evalcard.tasks.judges.extraction import final_formula, gold_formula


@pytest.mark.parametrize(
    ("text", "formula"),
    [
        (r"\boxed{\text{The answer is 460}}", "460"),
        (r"Thus the answer is \[ \boxed{42} \]", "42"),
        (r"$x=1$ ... \[ \boxed{7} \]", "7"),
        (r"so \fbox{7}", "7"),
        (r"\boxed{\text{5 or 6}}", "5 or 6"),
        (r"The final answer is $\frac12$. I hope it is correct.", r"\frac12"),
        ("**Answer: 5**", "5"),
        ("**Final Answer:** $x = 5$\n", "x = 5"),
        ("The answer is 2/3 of the pie.", "2/3"),
        ("The answer is Evelyn.", "Evelyn"),
        (r"The answer is \begin{pmatrix} 1 \\ 2 \end{pmatrix}.", r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}"),
        (r"The answer is 5.4 \text{ cents}.", r"5.4 \text{ cents}"),
        ("The answers are $x=1$ and $x=2$.", "x=1, x=2"),
        ("Answer:\n$$\n\\frac{1}{2}\n$$", r"\frac{1}{2}"),
        ("Let $x$ be it. Then\n\\[ x = 5 \\]\nas was asked.", "x = 5"),
        ("Let $x$ be it.\nSo it makes 42.", "42"),
        ("It costs $5 and then $6 more.\nGood.", "$6"),
        ("11 5/6", "11 5/6"),
        ("x^2+1", "x^2+1"),
        ("I think 7.", "7"),
        ("A pair equals 2 legs. Of 80 legs there are 80/2 = 40 pairs.", "40"),
        ("Solutions: x = -2, x = 1", "x = -2, x = 1"),
        (r"So $k=3$. $\square$", "k=3"),
        (r"The answer is $\boxed{3}$ (not $\boxed{4}$).", "3"),
        ("The answer is 5/3 (approximately 1.67).", "5/3"),
        ("The answer is 4 (rejecting -3)", "4"),
        ("So $s=2$.\nIt takes **204 minutes** (with $t=24$).", "204"),
        ("The answer is Evelyn, since she ran 5 miles.", "Evelyn"),
        ("The limit does not exist, since it is odd.", "The limit does not exist, since it is odd."),
        ("2 plus 3 equals 5", "5"),
        ("864 in^2", "864"),
        ("Paris", "Paris"),
        ("#### 18\n\nQuestion: next\nAnswer: 42", "18"),
        ("The answer is 18.\n\nQ: next\nThe answer is 42", "18"),
    ],
)
def test_formula_of_a_reply(text: str, formula: str):
    assert final_formula(text) == formula


@pytest.mark.parametrize("text", ["", " \n", r"so \boxed{\frac{1}{2", r"\boxed{3}, rather \boxed{4", "word\n" * 9])
def test_no_formula(text: str):
    assert final_formula(text) is None


def test_formula_of_a_gold():
    assert gold_formula("He has 2 + 3 = 5.\n#### 5") == "5"
    assert gold_formula(r"Since $2+3=5$, it is $\boxed{5}$.") == "5"
    assert gold_formula(r" \frac{1}{2} ") == r"\frac{1}{2}"


@pytest.mark.parametrize(
    "piece", [r"\boxed{", r"\boxed{5} and ", r"\[", r"\(", "$", "$a ", "$5$ and ", "{", "\\", "1 "]
)
def test_long_text_is_read_in_one_pass(piece: str):
    start = time.process_time()
    final_formula(piece * (200_000 // len(piece)))
    assert time.process_time() - start < 10
