"""Scores, standard errors, chance and recovery."""

import json
import math
import statistics
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evalcard.compare.recovery import (
    RowScore,
    baseline_fault,
    mean_stderr,
    plain_mean,
    recover,
    recover_row,
    score_row,
    standard_error,
    wilson_low,
)


def values(*scores: float):
    return {(item, 0): Fraction(score) for item, score in enumerate(scores)}


def row(right: int, n: int) -> RowScore:
    scored = score_row("task", [values(*[1] * right, *[0] * (n - right))])
    assert scored is not None
    return scored


def test_document_weights_and_task_weights_differ():
    """Four groups of a multiple-choice suite; weighted by documents they come to 22.92, by groups to 22.76."""
    sizes, percents = (4705, 3077, 3107, 3153), (24.21, 23.82, 21.71, 21.31)
    tasks = []
    for size, percent in zip(sizes, percents, strict=True):
        right = round(size * percent / 100)
        tasks.append(values(*[1] * right, *[0] * (size - right)))
    by_size, by_task = score_row("size", tasks), score_row("mean", tasks)
    assert f"{100 * float(by_size.score):.2f}" == "22.92"
    assert float(by_task.score) == pytest.approx(0.2276, abs=1e-4)  # the groups are known to two decimals only
    assert by_size.n == by_task.n == sum(sizes)


def test_scores_are_exact():
    scored = score_row("task", [values(*[1] * 460, *[0] * 40)])
    assert scored.score == Fraction(23, 25) and scored.right == 460
    assert score_row("mean", [values(1, 0, 0), values(1, 1)]).score == Fraction(2, 3)


def test_an_item_counts_once_however_often_it_was_answered():
    answers = {(0, 0): Fraction(1), (0, 1): Fraction(0), (0, 2): Fraction(0), (1, 0): Fraction(1)}
    scored = score_row("task", [answers])
    assert scored.score == Fraction(2, 3) and scored.n == 2 and scored.right == Fraction(4, 3)


def test_no_answers_no_score():
    assert score_row("task", [{}]) is None
    assert score_row("mean", [{}, values(1, 0)]).score == Fraction(1, 2)


@settings(deadline=None)
@given(st.lists(st.floats(-10, 10), min_size=2, max_size=30))
def test_standard_error_is_the_textbook_one(scores: list[float]):
    expected = statistics.stdev(scores) / math.sqrt(len(scores))
    assert standard_error([Fraction(score) for score in scores]) == pytest.approx(expected, abs=1e-12)


def test_standard_error_needs_two_items():
    assert standard_error([Fraction(1)]) is None
    assert score_row("task", [values(1)]).stderr is None
    assert score_row("mean", [values(1, 0), values(1)]).stderr is None


def test_the_error_of_a_mean_of_independent_scores():
    assert mean_stderr([0.03, 0.04]) == pytest.approx(0.025)
    assert mean_stderr([0.03, None]) is None


@pytest.mark.parametrize(
    ("right", "n", "expected"), [(0, 10, 0.0), (10, 10, 0.7225), (5, 10, 0.2366), (81, 100, 0.7222)]
)
def test_wilson_interval_against_published_values(right: int, n: int, expected: float):
    assert wilson_low(right / n, n) == pytest.approx(expected, abs=5e-5)


@settings(deadline=None)
@example((0, 3))  # the difference of centre and spread leaves 1e-17 here
@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_interval_against_its_definition(counts: tuple[int, int]):
    """The lower end is where the score test just keeps p: |share - p| = z sqrt(p (1 - p) / n)."""
    right, n = counts
    low = wilson_low(right / n, n)
    assert 0 <= low <= right / n + 1e-12
    assert abs(right / n - low) == pytest.approx(1.959963984540054 * math.sqrt(low * (1 - low) / n), abs=1e-9)


def test_recovery_of_unrounded_scores():
    """0.7303 of 0.7810 is 93.51 %, which two decimals would make 0.94; 0.7360 of 0.7810 is 94.24 %."""
    assert f"{float(recover(Fraction('0.7810'), Fraction('0.7303'), True).value):.2f}" == "93.51"
    assert f"{float(recover(Fraction('0.7810'), Fraction('0.7360'), True).value):.2f}" == "94.24"


def test_lower_is_better_turns_the_ratio_round():
    assert recover(Fraction(5), Fraction(4), False).value == 125
    assert recover(Fraction(5), Fraction(10), False).value == 50
    nothing = recover(Fraction(5), Fraction(0), False)
    assert nothing.value is None and "compressed model scores 0" in nothing.reason


@pytest.mark.parametrize(
    ("right", "n", "chance", "reason"),
    [
        (0, 100, 0.0, "scores 0"),
        (0, 100, 0.25, "scores 0"),
        (1, 1, 0.0, "fewer than 2 items"),
        (4, 100, 0.0, "only 4 of 100 items right"),
        (22810, 100_000, 0.25, "22.81 % on 100000 items, chance 25.00 %"),
        (30, 100, 0.25, "above chance"),
    ],
)
def test_weak_baselines_have_no_recovery(right: int, n: int, chance: float, reason: str):
    recovered = recover_row(row(right, n), row(n // 2, n), chance, True)
    assert recovered.value is None and reason in recovered.reason


@pytest.mark.parametrize(("right", "n", "chance"), [(5, 100, 0.0), (40, 100, 0.25), (2, 2, 0.0), (5, 5, 0.5)])
def test_sound_baselines(right: int, n: int, chance: float):
    fault = baseline_fault(row(right, n), chance, True)
    assert (fault is None) == (right >= 5)


def test_chance_does_not_matter_where_lower_is_better():
    perplexity = RowScore(Fraction(12), 0.1, 50, Fraction(600))
    assert baseline_fault(perplexity, 0.25, False) is None


def test_published_averages_are_ratios_of_means():
    """One row whose baseline is near the floor: the ratio of the means is 98.2 %, the mean of the ratios 114.9 %."""
    baseline = [Fraction(text) for text in ("50", "60", "0.31")]
    compressed = [Fraction(text) for text in ("49", "58", "0.60")]
    ratio = recover(plain_mean(baseline), plain_mean(compressed), True).value
    assert ratio == 100 * Fraction("107.6") / Fraction("110.31")
    assert ratio < 100 < plain_mean([100 * c / b for b, c in zip(baseline, compressed, strict=True)])


def test_records_can_hold_it():
    assert json.dumps(float(recover(Fraction(1), Fraction(1, 3), True).value))


def test_a_weak_baseline_is_counted_in_answers_where_items_were_answered_several_times():
    """Three right answers to three of 20 items are one item's worth, but not one of 20 items right."""
    answers = {(item, repeat): Fraction(item < 3 and repeat == 0) for item in range(20) for repeat in range(3)}
    scored = score_row("task", [answers])
    assert scored.answers == (3, 60) and scored.right == 1
    assert baseline_fault(scored, 0.0, True) == (
        "the baseline has only 3 of 60 answers right, fewer than 5 items' worth"
    )
    assert row(4, 20).answers is None
