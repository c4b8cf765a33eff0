"""pass@k against its definition: the share of all k-subsets of an item's answers that hold a right one."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalcard.compare.passk import pass_at
from evalcard.compare.recovery import score_row


def values(items: Sequence[Sequence[float]]) -> dict[tuple[int, int], Fraction]:
    return {(item, repeat): Fraction(one) for item, answers in enumerate(items) for repeat, one in enumerate(answers)}


def by_enumeration(items: Sequence[Sequence[int]], k: int) -> Fraction:
    shares = []
    for answers in items:
        subsets = list(combinations(answers, k))
        shares.append(Fraction(sum(any(subset) for subset in subsets), len(subsets)))
    return sum(shares, Fraction(0)) / len(shares)


@given(
    st.integers(2, 6).flatmap(
        lambda n: st.lists(st.lists(st.integers(0, 1), min_size=n, max_size=n), min_size=1, max_size=5)
    )
)
def test_equals_the_enumeration_of_all_subsets(items: list[list[int]]):
    found = pass_at("task", [values(items)])
    assert found == [by_enumeration(items, k) for k in range(1, len(items[0]) + 1)]
    assert found == sorted(found)


@given(
    st.integers(2, 5),
    st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=4), min_size=1, max_size=3),
    st.sampled_from(["size", "mean"]),
)
def test_the_first_is_the_score_of_the_row(n: int, tasks: list[list[int]], rule: str):
    rows = [values([[1] * min(right, n) + [0] * (n - min(right, n)) for right in task]) for task in tasks]
    found = pass_at(rule, rows)  # type: ignore[arg-type]
    score = score_row(rule, rows)  # type: ignore[arg-type]
    assert score is not None and found[0] == score.score and len(found) == n


def test_tasks_weigh_alike_or_by_size():
    small, large = values([[1, 0]]), values([[0, 0]] * 3)
    assert pass_at("size", [small, large]) == [Fraction(1, 8), Fraction(1, 4)]
    assert pass_at("mean", [small, large]) == [Fraction(1, 4), Fraction(1, 2)]


def test_thirty_items_by_thirty_two_samples():
    """A published kind of figure: 16 of 32 right on 30 items is 0.5 at once and nearly sure in 8 attempts."""
    found = pass_at("task", [values([[1, 0] * 16] * 30)])
    assert (found[0], found[31]) == (Fraction(1, 2), 1)
    assert float(found[7]) == pytest.approx(1 - 12870 / 10518300)


def test_thousands_of_samples_take_no_time():
    found = pass_at("task", [values([[1] * 3 + [0] * 1997])])
    assert found[0] == Fraction(3, 2000) and found[1996] < 1 == found[1997]


@pytest.mark.parametrize(
    "items",
    [
        [[1], [0]],
        [[1, 0], [1]],
        [[1, 0.5], [0, 1]],
        [],
    ],
    ids=["answered once", "unequally often", "between 0 and 1", "nothing"],
)
def test_not_defined(items: list[list[float]]):
    assert pass_at("task", [values(items)]) == []
