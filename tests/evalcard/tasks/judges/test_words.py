"""The judges of words: exact and contains."""

import pytest

from evalcard.tasks.judges.judge import Answer
from evalcard.tasks.judges.words import ContainsJudge, ExactJudge, plain_words


def judged(judge: ExactJudge | ContainsJudge, text: str, *golds: str) -> tuple[str | None, bool]:
    judgement = judge.judge([Answer(text, golds)])[0]
    return judgement.extracted, judgement.is_right


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (' "The  **Eiffel Tower**." ', "eiffel tower"),
        ("stra\u00dfe", "strasse"),
        ("Caf\u00e9", "cafe\u0301"),
        ("An apple!", "apple"),
        ("`C++`", "c++"),
        ("-5", "-5"),
        (".5", ".5"),
        ("5 %", "5 %"),
        ("The", "the"),
        ("A", "a"),
        ("don\u2019t", "don't"),
        ("\u22125", "-5"),
        ("\u300c\u6771\u4eac\u300d\u3002", "\u6771\u4eac"),
    ],
)
def test_form_in_which_texts_are_compared(text: str, words: str):
    assert plain_words(text) == plain_words(words)


def test_signs_are_kept():
    assert len({plain_words(text) for text in ("C", "C++", "C#", "5", "-5", ".5", "5 %")}) == 7


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("France", "France"),
        ("The answer is France.", "France"),
        ("I know it.\nAnswer: France\nIt is in Europe.", "France"),
        ("Answer: St. Louis", "St. Louis"),
        ("The answer is France. It is in Europe.", "France"),
        ("so\n#### France", "France"),
        (r"\boxed{\text{France}}", "France"),
        ("France\n\nQuestion: next", "France"),
    ],
)
def test_exact_takes_the_stated_answer(text: str, found: str):
    assert judged(ExactJudge(), text, found) == (found, True)


def test_exact_is_exact():
    assert judged(ExactJudge(), "France or Spain", "France") == ("France or Spain", False)
    assert judged(ExactJudge(), "  ", "France") == (None, False)
    assert judged(ExactJudge(), "Spain", "France", "Spain") == ("Spain", True)
    assert judged(ExactJudge(), r"It is France, \boxed{Fra", "France") == (None, False)


@pytest.mark.parametrize(
    ("text", "gold"),
    [
        ("It is the Eiffel Tower, of course", "eiffel tower"),
        ("the **Eiffel**\nTower", "The Eiffel Tower"),
        ("x = 5.", "5"),
        ("written in C++!", "C++"),
        ("a loss of -5", "-5"),
        ("I don\u2019t know", "don't"),
        ("\u7b54\u3048\u306f\u6771\u4eac\u3067\u3059", "\u6771\u4eac"),
        ("\u6771\u4eac\u90fd", "\u6771\u4eac"),
        ("\u7b54\u6848\u662f5\u4e2a", "5"),
        ("so 5+3", "5"),
        ("It is written in C.", "C"),
    ],
)
def test_contains(text: str, gold: str):
    assert judged(ContainsJudge(), text, "other", gold) == (gold, True)


@pytest.mark.parametrize(
    ("text", "gold"),
    [("15", "5"), ("5.5", "5"), ("-5", "5"), ("x = -5", "5"), ("1,500", "500"), ("Parisian", "Paris"), ("", "Paris")]
    + [("I like C++", "C"), ("use C# here", "C"), ("10-5", "-5"), ("f(x)-5", "-5"), ("1.5", ".5"), ("\u221215", "5")],
)
def test_contains_whole_words_only(text: str, gold: str):
    assert not judged(ContainsJudge(), text, gold)[1]


def test_an_empty_gold_can_never_be_met():
    for judge in (ExactJudge(), ContainsJudge()):
        assert judge.check_gold(" ") and judge.check_gold("x") is None
        assert not judged(judge, "x", "")[1]
