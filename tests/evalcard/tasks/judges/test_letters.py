"""Letters as they are made plain and struck out before a reply is read."""

import pytest

from evalcard.tasks.judges.letters import SEVERAL, after_correction, has_sign, plain_letters, struck, undecorated


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("\uff22", "B"),
        ("it is 'B'", "it is B"),
        ("it is \u2018B\u2019", "it is B"),
        ("it's <B>", "it's B"),
        ("\u9009B\u3002", "\u9009 B. "),
        ("\ue000\ue001", "  "),
        ("don't", "don't"),
    ],
)
def test_plain_letters(text: str, plain: str):
    assert plain_letters(text) == plain


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("B or C", SEVERAL),
        ("B and B", "B and B"),
        ("not A but B", "not \ue000 but B"),
        ("A and B are wrong, C is not bad", "\ue000 and \ue000 are wrong, \ue000 is not bad"),
        ("B and A fits", "B and A fits"),
    ],
)
def test_struck(text: str, left: str):
    assert struck(text, 4) == left


def test_joined_boxes_read_as_one_statement():
    assert undecorated(r"\boxed{B}, \boxed{C}") == "final answer: B, C"


def test_signs_of_correction():
    assert after_correction("A. Wait. No, B") == "B"
    assert after_correction("I know B") is None
    assert has_sign("so") and has_sign("no, ") and not has_sign("sonata")
