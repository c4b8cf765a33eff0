"""The one form of numbers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcard.card import numbers


def test_forms():
    assert numbers.score(0.675, 0.0741, True) == "67.50 ± 7.41"
    assert numbers.score(0.675, None, True) == numbers.score(0.675, 0.0, True) == "67.50"
    assert numbers.score(12.3456, 0.5, False) == "12.35 ± 0.50"
    assert numbers.recovery(94.2381) == "94.24 %"
    assert numbers.recovery(None) == numbers.count(None) == numbers.p_value(None) == "–"
    assert [numbers.p_value(p) for p in (1.0, 0.42, 0.0095, 0.0009)] == ["1", "0.42", "0.0095", "< 0.001"]
    assert numbers.megabytes(2_200_000_000) == "2,200.0 MB"
    assert [numbers.parameters(n) for n in (8_030_261_248, 134_515_008, 52_000)] == [
        "8.03 billion",
        "134.52 million",
        "52,000",
    ]


@settings(deadline=None)
@given(st.integers(1, 2000), st.integers(0, 2000), st.integers(2000, 20_000), st.booleans())
def test_printed_recoveries_follow_from_printed_scores(base: int, compressed: int, n: int, higher: bool):
    compressed = max(compressed, 0 if higher else 1)
    top, bottom = (compressed, base) if higher else (base, compressed)
    printed = [float(f"{value:.2f}") for value in (100 * base / n, 100 * compressed / n, 100 * top / bottom)]
    assert numbers.is_consistent(*printed, higher_is_better=higher)


@pytest.mark.parametrize(
    ("base", "compressed", "value"),
    [(70.0, 69.0, 98.67), (70.0, 69.0, 98.47), (50.0, 50.0, 101.0), (78.10, 73.03, 94.0)],
)
def test_misprints_are_found(base: float, compressed: float, value: float):
    assert not numbers.is_consistent(base, compressed, value, higher_is_better=True)
