"""Flips and the exact McNemar test."""

from fractions import Fraction
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcard.compare.paired import count_flips, has_repeats, mcnemar_p


def values(*scores: float):
    return {(item, 0): Fraction(score) for item, score in enumerate(scores)}


def test_flips_are_counted_task_by_task():
    flips = count_flips([values(1, 1, 0), values(0)], [values(0, 1, 1), values(1)], True)
    assert (flips.lost, flips.gained) == (1, 2)


def test_lower_is_better_turns_lost_and_gained_round():
    flips = count_flips([values(0, 0, 1)], [values(1, 1, 0)], False)
    assert (flips.lost, flips.gained) == (2, 1)


def test_only_shared_samples_count():
    flips = count_flips([values(1, 1, 1)], [values(0)], True)
    assert (flips.lost, flips.gained) == (1, 0)


def test_scores_between_have_no_flips():
    assert count_flips([values(1, 0.5)], [values(1, 1)], True) is None


def test_repeats():
    assert has_repeats([{(0, 0): Fraction(1), (0, 1): Fraction(1)}])
    assert not has_repeats([values(1, 0), values(1, 0)])


@settings(deadline=None)
@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_against_the_sum_over_all_splits(lost: int, gained: int):
    """Two-sided and exact: all splits that are no more likely than the observed one."""
    n = lost + gained
    as_likely = [comb(n, k) for k in range(n + 1) if comb(n, k) <= comb(n, lost)]
    assert mcnemar_p(lost, gained) == pytest.approx(sum(as_likely) / 2**n, rel=1e-9)


def test_mcnemar_on_a_drop_that_an_unpaired_test_misses():
    assert mcnemar_p(28, 11) == pytest.approx(0.0095, abs=5e-5)


def test_no_flips_is_no_division_by_zero():
    assert mcnemar_p(0, 0) == 1.0
