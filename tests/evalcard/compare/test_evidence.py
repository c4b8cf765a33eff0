"""Both models on one row: counts, moments, and which interval follows from them."""

import statistics
from fractions import Fraction

import pytest

from evalcard.compare.evidence import average_pairs, difference_interval, pair_row, ratio_interval, why_no_interval
from evalcard.compare.intervals import (
    PairedCounts,
    fieller_ratio,
    score_difference,
    score_ratio,
    skewed_quantile,
    student_quantile,
)


def values(*scores):
    """Scores of one task by (item, repeat); a nested list holds repeats."""
    listed = [one if isinstance(one, list) else [one] for one in scores]
    return {(i, r): Fraction(value) for i, each in enumerate(listed) for r, value in enumerate(each)}


def binary(both, lost, gained, neither):
    ours = values(*[1] * (both + lost), *[0] * (gained + neither))
    return ours, values(*[1] * both, *[0] * lost, *[1] * gained, *[0] * neither)


def test_counts_and_moments():
    ours, theirs = values(1, 1, 1, 0, 0), values(1, 0, 1, 1, 0)
    found = pair_row("task", [ours], [theirs])
    assert (found.n, found.different, found.is_binary, found.both, found.lost, found.gained) == (5, 2, True, 2, 1, 1)
    assert found.baseline == found.compressed == pytest.approx(0.6)
    assert found.baseline_variance == pytest.approx(statistics.variance([1, 1, 1, 0, 0]) / 5)
    assert found.covariance == pytest.approx(statistics.covariance([1, 1, 1, 0, 0], [1, 0, 1, 1, 0]) / 5)


def test_right_or_wrong_takes_the_score_interval():
    ours, theirs = binary(50, 30, 4, 16)
    found = pair_row("size", [ours], [theirs])
    assert ratio_interval(found, 0.9) == score_ratio(PairedCounts(50, 30, 4, 100), 0.9)
    assert difference_interval(found, 0.9) == score_difference(PairedCounts(50, 30, 4, 100), 0.9)


def repeated(different):
    """60 items, two repeats each; ``different`` of them lose one of two right answers."""
    ours = values(*[[1, 1]] * 40, *[[1, 0]] * 20)
    theirs = values(*[[1, 0]] * different, *[[1, 1]] * (40 - different), *[[1, 0]] * 20)
    return pair_row("task", [ours], [theirs])


def test_repeats_are_one_item():
    found = repeated(12)
    assert (found.n, found.different, found.is_binary) == (60, 12, False)
    assert (found.both, found.lost, found.gained) == (44, 6, 0)
    variances = (found.baseline_variance, found.compressed_variance, found.covariance)
    interval, t = ratio_interval(found, 0.95), student_quantile(0.95, 59)
    wider, tilt = (1 + 2 / 12) ** 0.5, found.skewness / 60**0.5
    assert tilt < 0, "losses only"
    assert interval.low == fieller_ratio(50 / 60, 44 / 60, variances, wider * skewed_quantile(t, tilt)).low
    assert interval.high == fieller_ratio(50 / 60, 44 / 60, variances, wider * t).high


def test_skewness_is_that_of_the_residuals():
    found = repeated(12)
    residuals = [0.5 - 44 / 50] * 12 + [1 - 44 / 50] * 28 + [0.5 - 0.5 * 44 / 50] * 20
    mean = statistics.fmean(residuals)
    second, third = (statistics.fmean([(one - mean) ** power for one in residuals]) for power in (2, 3))
    assert found.skewness == pytest.approx(third / second**1.5)


def test_few_items_that_differ_are_taken_for_whole_flips():
    found = repeated(9)
    assert ratio_interval(found, 0.95) == score_ratio(PairedCounts(45.5, 4.5, 0, 60), 0.95)
    none = repeated(0)
    interval = ratio_interval(none, 0.95)
    assert interval.low < 1 < interval.high


def test_scores_without_bounds_need_items_that_differ():
    ours = values(*[3] * 30)
    few, many = (pair_row("task", [ours], [values(*[4] * k, *[3] * (30 - k))]) for k in (9, 10))
    assert few.both is None and ratio_interval(few, 0.95) is None and difference_interval(few, 0.95) is None
    interval = ratio_interval(many, 0.95)
    assert interval.low < (40 + 60) / 90 < interval.high


def test_lower_is_better_turns_the_ratio_round():
    ours, theirs = binary(50, 30, 4, 16)
    found, turned = pair_row("task", [ours], [theirs]), pair_row("task", [theirs], [ours])
    assert ratio_interval(found, 0.95, higher_is_better=False) == ratio_interval(turned, 0.95)


def test_only_shared_answers_count():
    ours, theirs = values(1, 1, 0), values(1, 0)
    assert pair_row("task", [ours], [theirs]).n == 2
    assert pair_row("task", [values(1)], [values(1)]) is None
    assert pair_row("mean", [values(1, 0), values(1)], [values(1, 0), values(1)]) is None


def test_a_mean_of_tasks_weighs_them_alike():
    first, second = binary(80, 10, 5, 5), binary(10, 2, 1, 7)
    found = pair_row("mean", [first[0], second[0]], [first[1], second[1]])
    assert found.baseline == pytest.approx((0.9 + 0.6) / 2) and found.compressed == pytest.approx((0.85 + 0.55) / 2)
    assert (found.n, found.both, found.degrees) == (120, None, None)
    interval = ratio_interval(found, 0.95)
    assert interval.low < found.compressed / found.baseline < interval.high


def test_two_flips_are_added_to_each_set_of_an_average():
    """Variances of the very items with (1, 0) and (0, 1) appended."""
    ours, theirs = binary(7, 2, 0, 3)
    one = pair_row("task", [ours], [theirs])
    found = average_pairs([one, one])
    before = [1] * 9 + [0] * 3 + [1, 0]
    after = [1] * 7 + [0] * 5 + [0, 1]
    assert found.baseline_variance == pytest.approx(2 * statistics.variance(before) / 14 / 4)
    assert found.compressed_variance == pytest.approx(2 * statistics.variance(after) / 14 / 4)
    assert found.covariance == pytest.approx(2 * statistics.covariance(before, after) / 14 / 4)


def test_an_average_without_a_flip_has_width():
    ours, theirs = binary(90, 0, 0, 10)
    one = pair_row("task", [ours], [theirs])
    interval = ratio_interval(average_pairs([one, one]), 0.95)
    assert interval.low < 1 < interval.high
    difference = difference_interval(average_pairs([one, one]), 0.95)
    assert difference.low < 0 < difference.high


@pytest.mark.parametrize("unit", [1e-300, 1e-110, 1e-40, 1.0, 1e40, 1e50])
def test_intervals_know_no_unit(unit: float):
    """Nothing overflows, and figures within the range of their squares come out the same."""
    ours = values(*(unit * (2 + i % 7) for i in range(40)))
    theirs = values(*(unit * (2 + (i * 3) % 7) for i in range(40)))
    found = pair_row("task", [ours], [theirs])
    plain = pair_row("task", [values(*(2 + i % 7 for i in range(40)))], [values(*(2 + (i * 3) % 7 for i in range(40)))])
    assert found.skewness == pytest.approx(plain.skewness)
    if unit >= 1e-40:
        (one, other) = ratio_interval(found, 0.95), ratio_interval(plain, 0.95)
        assert (one.low, one.high) == pytest.approx((other.low, other.high))


def test_a_baseline_that_is_as_good_as_nothing():
    ours, theirs = values(*[5e-324] * 20), values(*range(20))
    assert pair_row("task", [ours], [theirs]).skewness is None


def test_no_interval_says_why():
    ours, theirs = values(*[3.5] * 20), values(*[3.5] * 19, 3.6)
    same = pair_row("task", [ours], [ours])
    few = pair_row("task", [ours], [theirs])
    assert ratio_interval(same, 0.95, False) is None and ratio_interval(few, 0.95) is None
    assert "only 0 items score differently" in why_no_interval(same, False)
    assert "only 1 items score differently" in why_no_interval(few, True)
    assert why_no_interval(pair_row("task", [values(1, 0)], [values(1, 1)]), True) is None
    assert "the baseline does not score above 0" in why_no_interval(pair_row("task", [values(-2, 1)], [ours]), True)


def test_an_average_is_no_surer_than_its_parts():
    """A set of equal scores without bounds tells no spread, so the average of it has no interval of width 0."""
    ours = values(*[3.5, 2.5] * 10)
    same = pair_row("task", [ours], [ours])
    spread = pair_row("task", [ours], [values(*[2.5, 3.25] * 10)])
    assert ratio_interval(average_pairs([spread, spread]), 0.95) is not None
    for sets in ([same, same], [same, spread], [average_pairs([same, spread]), spread]):
        assert ratio_interval(average_pairs(sets), 0.95) is None
        assert difference_interval(average_pairs(sets), 0.95) is None
