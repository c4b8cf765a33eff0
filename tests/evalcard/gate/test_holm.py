"""Holm's correction against what it is defined to be, and p-values that agree with their intervals."""

from itertools import combinations
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalcard.gate.holm import adjust, p_value


def by_closed_testing(p_values: list[float], place: int, alpha: float) -> bool:
    """Rejected where Bonferroni's test rejects every set of hypotheses that this one belongs to."""
    others = [other for other in range(len(p_values)) if other != place]
    sets = [(place, *more) for size in range(len(others) + 1) for more in combinations(others, size)]
    return all(min(p_values[one] for one in chosen) <= alpha / len(chosen) for chosen in sets)


# Sixteenths over powers of two times 3 and 5 would meet alpha / 3 only after rounding; these never do.
shares = st.integers(0, 1023).map(lambda step: (step + 0.5) / 1024)


@given(st.lists(shares, min_size=1, max_size=6), st.sampled_from([0.005, 0.025, 0.1, 0.2]))
def test_it_rejects_what_closed_testing_rejects(p_values: list[float], alpha: float):
    rejected = [adjusted <= alpha for adjusted in adjust(p_values)]
    assert rejected == [by_closed_testing(p_values, place, alpha) for place in range(len(p_values))]


@given(st.lists(shares, min_size=1, max_size=6))
def test_adjusting_keeps_the_order_and_never_makes_smaller(p_values: list[float]):
    adjusted = adjust(p_values)
    assert all(p <= q <= 1 for p, q in zip(p_values, adjusted, strict=True))
    for one, other in combinations(range(len(p_values)), 2):
        if p_values[one] < p_values[other]:
            assert adjusted[one] <= adjusted[other]


def test_worked_example():
    """Four hypotheses: 4 * 0.005, 3 * 0.01, then 2 * 0.03, and 0.04 may not fall below its predecessor."""
    assert adjust([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert adjust([0.02]) == [0.02] and adjust([]) == []


@given(st.floats(2.0, 6.0), st.sampled_from([0.8, 0.9, 0.95]))
def test_a_p_value_is_where_the_interval_just_reaches_the_limit(z: float, confidence: float):
    """The value lies z standard errors below the limit: the normal interval reaches it at p = 1 - cdf(z)."""
    normal = NormalDist()
    found = p_value(lambda at: normal.inv_cdf((1 + at) / 2) < z, confidence)
    assert found == pytest.approx(normal.cdf(-z), rel=1e-4)


def test_a_failure_by_itself_is_never_more_than_its_level():
    assert p_value(lambda at: at <= 0.95, 0.95) <= (1 - 0.95) / 2
    assert p_value(lambda at: False, 0.95) == (1 - 0.95) / 2
    assert 0 < p_value(lambda at: True, 0.95) < 1e-12
