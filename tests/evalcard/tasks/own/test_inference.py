"""How answers are judged, by the look of the right ones."""

import pytest

from evalcard.errors import UserError
from evalcard.tasks.own.columns import Question
from evalcard.tasks.own.inference import infer_judge, letter_of, letters_offered, num_letters


def ask(text: str, *golds: str) -> Question:
    return Question("line 1", text, golds, None, (), None, None)


@pytest.mark.parametrize(
    ("golds", "judge"),
    [
        (["5", "5.0", "-3", "\u22127", "1,234.5", "$7", "12 %", "1/2", "6e-3", ".5"], "number"),
        (["5", "\\frac{1}{2}", "$x+1$"], "math"),
        (["x^2", "7"], "math"),
        (["\\(x\\)"], "math"),
        (["2024-01-31", "5"], "contains"),
        (["12 apples"], "contains"),
        (["3", "three"], "contains"),
        (["Paris", "true"], "contains"),
        (["A", "B"], "choice"),
        (["(C)", "J"], "choice"),
        (["A", "A"], "contains"),
        (["A", "K"], "contains"),
        (["A", "b"], "contains"),
        (["v1.2.3"], "contains"),
        (["$", "%"], "contains"),
        (["costs $5 to $7 each"], "contains"),
        (["C:\\Users\\ann"], "contains"),
        (["^_^"], "contains"),
    ],
)
def test_by_the_answers(golds: list[str], judge: str):
    assert infer_judge([ask("q?", gold) for gold in golds], "a.jsonl")[0] == judge
    assert infer_judge([ask("q?", *golds)], "a.jsonl")[0] == judge


@pytest.mark.parametrize(
    ("text", "letters"),
    [
        ("Which?\nA. red\n(B) green\n C: blue\n", ["A", "B", "C"]),
        ("A) x\nB) y", ["A", "B"]),
        ("A. Who wrote it?", []),
        ("Which?\nB. red\nC. green", []),
        ("A red, B green", []),
        ("A.\nB.\n", []),
    ],
)
def test_letters_a_question_offers(text: str, letters: list[str]):
    assert letters_offered(text) == letters


def test_letters_that_a_question_offers_are_the_only_ones_it_has():
    text = "Which?\nA. red\nB. green"
    assert infer_judge([ask(text, "(B)"), ask(text, "A")], "a")[0] == "choice"
    assert infer_judge([ask(text, "B"), ask(text, "C")], "a")[0] == "contains"
    assert infer_judge([ask(text, "B"), ask("Which?", "A")], "a")[0] == "choice"
    assert (letter_of(" (B) "), letter_of("b"), letter_of("BB")) == ("B", None, None)


def test_single_letters_are_choices_up_to_the_largest():
    judge, why = infer_judge([ask("Which?", "B"), ask("And this?", "(D)")], "a")
    assert judge == "choice" and why == "every answer is one letter, so its choices are A to D"
    text = "Which?\nA. red\nB. green\nC. blue"
    assert num_letters([ask("Which?", "A"), ask(text, "B")]) == 3, "the largest that is offered"
    assert num_letters([ask(text, "A"), ask(text, "B")]) == 0, "every question says its own"
    assert num_letters([ask("Which?", "A"), ask("And this?", "A")]) == 0


def test_long_answers_must_be_said():
    long, short = ask("q", "word " * 40), ask("q", "x")
    with pytest.raises(UserError, match="longer than 100 characters.*a.jsonl:exact, :contains or :regex=PATTERN"):
        infer_judge([long, long, long, short], "a.jsonl")
    assert infer_judge([long, short, short], "a.jsonl")[0] == "contains"
    assert infer_judge([ask("q", "word " * 40, "x")], "a.jsonl")[0] == "contains", "one of them is short"
