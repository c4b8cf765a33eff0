"""Boxes and "the answer is"."""

import pytest

from evalcard.tasks.judges.statement import answer_statements, before_invented_question, final_box, first_sentence


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"$\boxed{1}$ ... so \boxed{\text{two {2}}}.", r"\text{two {2}}"),
        (r"so \fbox{7}", "7"),
        (r"\boxed {7}", "7"),
        (r"\boxed 7", "7"),
        (r"\boxed{\boxed{3}}", "3"),
        (r"\boxed{a\}b}", r"a\}b"),
        (r"$\boxed{1}$ and $\boxed{2}$", "1, 2"),
        (r"\boxed{1}, \boxed{2}, or \boxed{3}", "1, 2, 3"),
        (r"\boxed{5}. Check: \boxed{5}", "5"),
        (r"\boxed{4 now" + "\n" + r"I mean \boxed{5}", "5"),
        (r"a set {1, 2 and \boxed{6}", "6"),
        ("no box", None),
    ],
)
def test_content_of_the_last_box(text: str, content: str | None):
    assert final_box(text) == content


@pytest.mark.parametrize(
    "text",
    [
        r"... \boxed{\frac{1}{2",
        r"\boxed{3}, rather \boxed{4",
        r"\boxed{\text{so \boxed{4}",
        r"it is \boxed",
        r"\boxed{",
    ],
)
def test_case_47_a_box_that_was_cut_off_is_empty(text: str):
    assert final_box(text) == ""


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("The answer is 5.", "5."),
        ("the final answer is: 5", "5"),
        ("**Final Answer:** 5", "5"),
        ("**Answer**: 5\nDone", "5"),
        ("The answer to the second question is 5", "5"),
        ("Answer:\n\n5\n", "5"),
        ("The answer is 4. No, the answer is 5", "5"),
        ("The answer would be 5", "5"),
        ("The answer is:\n\\[\nx = 5\n\\]\nas said", "\\[\nx = 5\n\\]"),
        ("Answer: $$\n5\n$$ end", "$$\n5\n$$"),
    ],
)
def test_last_statement(text: str, statement: str):
    assert next(answer_statements(text)) == statement


@pytest.mark.parametrize(
    "text", ["", "The answer is not 5", "Nobody answered.", "What is the answer?", "The answer is."]
)
def test_nothing_stated(text: str):
    assert list(answer_statements(text)) == []


def test_first_sentence():
    assert first_sentence("3.5 apples. Or 4?") == "3.5 apples"
    assert first_sentence(r"11,\! 100 in all") == r"11,\! 100 in all"


@pytest.mark.parametrize(
    "more", ["\nQuestion: next", "\n\nQ: next", "\n**Question 2:** next", "\nProblem 3. next", " Question: next"]
)
def test_invented_questions_are_cut_off(more: str):
    assert before_invented_question("It is 5." + more).strip() == "It is 5."


@pytest.mark.parametrize("text", ["Question: why?\nAnswer: 5", "The question is hard.", "P(x) and Q(x)", "a Q: b"])
def test_what_is_no_invented_question(text: str):
    assert before_invented_question(text) == text
