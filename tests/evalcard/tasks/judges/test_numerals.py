"""Spellings of numbers."""

import pytest

from evalcard.tasks.judges.numerals import numbers_in


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("$70k and 18K", ["$70000", "18000"]),
        ("401k plans", ["401000"]),
        ("1.5k", ["1500"]),
        ("70 000 dollars", ["70000"]),
        ("1 430", ["1430"]),
        ("1\u2009234\u2009567", ["1234567"]),
        ("3 4", ["3", "4"]),
        ("2 100/3", ["2 100/3"]),
        ("12 1000", ["12", "1000"]),
        ("0,5 litres", ["0.5"]),
        ("(0,5)", ["0", "5"]),
        ("1,2,3", ["1", "2", "3"]),
        ("2\u00bd and \u00be", ["2 1/2", "3/4"]),
        ("Rs18, Rs. 19, USD20 and EUR 21", ["$18", "$19", "$20", "$21"]),
        ("x18 H2O", []),
    ],
)
def test_numbers_of_a_text(text: str, numbers: list[str]):
    assert numbers_in(text) == numbers
