"""The judge of a pattern of the user's."""

import time

from evalcard.tasks.judges.judge import Answer, Judgement
from evalcard.tasks.judges.pattern import PatternJudge


def test_last_match_and_first_group():
    judge = PatternJudge(r"Total: (\w+)( \w+)?")
    answers = [Answer("Total: 4 apples. Total: FIVE pears", ("five",)), Answer("Total: 4", ("5",)), Answer("4", ("4",))]
    assert judge.judge(answers) == [Judgement("FIVE", True), Judgement("4", False), Judgement(None, False)]


def test_whole_match_without_a_group():
    assert PatternJudge(r"\d+ EUR").judge([Answer("it is 12 EUR", ("12 eur", "13 EUR"))])[0].is_right


def test_a_group_that_took_no_part_is_no_answer():
    assert PatternJudge(r"x(\d)?").judge([Answer("x", ("x",))]) == [Judgement(None, False)]


def test_a_pattern_that_takes_for_ever_costs_one_answer():
    judge = PatternJudge(r"^(a+)+$", cpu_limit_s=0.5)
    answers = [Answer("aaa", ("aaa",)), Answer("a" * 60 + "b", ("a",)), Answer("aaaa", ("aaaa",))]
    start = time.monotonic()
    assert [judgement.is_right for judgement in judge.judge(answers)] == [True, False, True]
    assert time.monotonic() - start < 60


def test_odd_texts_pass_through():
    judge = PatternJudge("(?s)<(.*)>")
    texts = ["\ud800", "\x00", "\n", "\u2028", "9" * 200_000]
    judged = judge.judge([Answer(f"<{text}>", (text,)) for text in texts])
    assert [judgement.extracted for judgement in judged] == ["\ud800", "\x00", None, None, "9" * 200_000]


def test_gold():
    assert PatternJudge("x").check_gold(" ") and PatternJudge("x").check_gold("5") is None
