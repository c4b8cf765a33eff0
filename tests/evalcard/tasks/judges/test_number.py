"""The judge of numbers, on the field cases and on how replies write numbers."""

import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalcard.tasks.judges.judge import Answer
from evalcard.tasks.judges.number import NumberJudge, number_in, stated_number


def is_right(text: str, gold: str) -> bool:
    return NumberJudge().judge([Answer(text, (gold,))])[0].is_right


FIELD_CASES = [
    (25, "The answer is 72, in total, so the farmer earns that much.", "72", True),
    (25, "The total is 72 clips, altogether.", "72", True),
    (26, "It may be 3 4", "4", True),
    (26, "It may be 3 4", "34", False),
    (26, "It is 1.5", "1.5", True),
    (26, "It is 1.5", "5", False),
    (28, "-3", "#### -3", True),
    (28, "3", "#### -3", False),
    (28, "-1234.5", "#### -1,234.5", True),
    (29, "so 18.\n#### 18\n\nQuestion: new\nAnswer: ... #### 42", "18", True),
    (29, "so 18.\n#### 18\n\nQuestion: new\nAnswer: ... #### 42", "42", False),
    (29, "so it makes 18.\n\nQuestion: new\nAnswer: ... 42", "18", True),
    (29, "so it makes 18. Question: new 42", "18", True),
    (37, "11 5/6", "71/6", True),
    (37, "2 2/3", "2", False),
    (37, "4 10/3", "10", False),
    (40, "437 + 2*234 = 905 ... Final Answer: **73**", "73", True),
    (40, "437 + 2*234 = 905 ... Final Answer: **73**", "905", False),
    (47, r"It is \boxed{5}, so \boxed{1", "5", False),
]


@pytest.mark.parametrize(("case", "text", "gold", "right"), FIELD_CASES)
def test_field_case(case: int, text: str, gold: str, right: bool):
    assert is_right(text, gold) is right


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("It costs $1,234.50.", "1234.5"),
        ("It costs -$5", "-5"),
        ("It costs $-5", "-5"),
        ("a loss of \u22125 \u20ac", "-5"),
        ("10-3", "3"),
        ("- 18 eggs", "18"),
        ("* 2 * 9 = **18**", "18"),
        ("It is 28%.", "28"),
        ("about .5 of it", "1/2"),
        ("1e3", "1000"),
        ("2.5 x 10^3", "2500"),
        (r"3 \times 10^{-2}", "3/100"),
        (r"\boxed{\frac{1}{2}}", "1/2"),
        (r"so it is -\frac{3}{4}", "-3/4"),
        (r"\boxed{11\frac{5}{6}}", "71/6"),
        (r"\boxed{1{,}234}", "1234"),
        (r"10,\!080", "10080"),
        ("2\u202f500 km", "2500"),
        ("1,2,3", "3"),
        ("x=-5", "-5"),
        ("5 + 3 = 8, so the answer is 5 + 3 = 8 of 20 apples", "8"),
        ("The answer is 12 of the 20", "12"),
        ("The answer is 5.\nHe had 9 before.", "5"),
        ("#### 18 dollars\nHe had 9 before.", "18"),
        ("#### Step 1: count\nThe answer is 9", "9"),
        ("#### 1. Count them\nThat makes 7", "7"),
        ("Question: how many of 3?\nAnswer: 18", "18"),
        ("5\n\nQ: how many of 9?", "5"),
        ("72km", "72"),
    ],
)
def test_which_number_a_reply_ends_on(text: str, number: str):
    found = stated_number(text)
    assert found is not None and number_in(found) == Fraction(number)


@pytest.mark.parametrize(
    ("text", "gold", "right"),
    [
        ("The answer is not 18.", "18", False),
        ("The answer isn't 18.", "18", False),
        ("I don't think the answer is 18.", "18", False),
        ("The answer cannot be 16.", "16", False),
        ("The answer is not 9 but 8.", "8", True),
        ("The answer is negative 18.", "18", False),
        ("The answer is negative 18.", "-18", True),
        ("The answer is - 18", "18", False),
        ("The answer is minus 18", "-18", True),
        ("Janet makes $18 every day from 9 eggs.", "18", True),
        ("Kylar needs to pay \\$64 for the 16 glasses.", "64", True),
        ("The profit is $70k.", "70000", True),
        ("The profit is 70 000 dollars.", "70000", True),
        ("Answer: 1 430", "1430", True),
        ("2\u00bd", "2.5", True),
        ("Rs18", "18", True),
        ("The answer is 1 million.", "1000000", True),
        ("The answer is 0,5.", "0.5", True),
        ("\u0661\u0668", "18", True),
        ("The answer is 18.\n\nLet me know if you want 2 more!", "18", True),
        (r"-\boxed{3}", "3", False),
        (r"-\boxed{3}", "-3", True),
        (r"\boxed{3}/4", "3", False),
        (r"2\cdot\boxed{3}", "3", False),
    ],
)
def test_what_a_reply_states_and_what_it_denies(text: str, gold: str, right: bool):
    assert is_right(text, gold) is right


@pytest.mark.parametrize("text", ["", "none", "H2O", "1/0", "...,,", "9" * 5000, "\ud800", "\x00"])
def test_no_number_is_no_answer(text: str):
    judgement = NumberJudge().judge([Answer(text, ("2",))])[0]
    assert judgement.extracted is None and not judgement.is_right


def test_any_gold_will_do():
    assert NumberJudge().judge([Answer("7", ("5", "7.0"))])[0].is_right


def test_nothing_is_rounded():
    assert is_right("18.0", "18") and not is_right("3.14", "3.1416") and not is_right("0.28", "28%")


def test_gold_without_a_number():
    assert "holds no number" in (NumberJudge().check_gold("many") or "")
    assert NumberJudge().check_gold("He has 2 + 3 = 5.\n#### 5") is None


@given(st.integers(-(10**12), 10**12), st.integers(0, 999))
def test_every_spelling_of_a_number_has_its_value(whole: int, thousandths: int):
    number = f"{whole}.{thousandths:03}"
    value = Fraction(number)
    assert number_in(number) == value
    assert number_in(f"{whole:,}.{thousandths:03}") == value
    assert is_right(f"The answer is ${number}.", number)


@pytest.mark.parametrize("piece", ["9", "9,", "1,111", "1 ", "1/", "answer to a ", "\\boxed{", "#### 5 ", "Q: ", " "])
def test_long_text_is_read_in_one_pass(piece: str):
    start = time.process_time()
    stated_number(piece * (200_000 // len(piece)))
    assert time.process_time() - start < 10
