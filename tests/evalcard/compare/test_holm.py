"""Holm's correction against what it is defined to be."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalcard.compare.holm import adjust


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
