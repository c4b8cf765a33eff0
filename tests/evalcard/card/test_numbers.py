"""The one form of numbers."""

import pytest

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


@pytest.mark.parametrize(
    ("scheme", "shapes", "printed"),
    [
        (4.125, 0.0007, "4.13"),
        (8.125, 0.0007, "8.13"),
        (4.15625, 0.002, "4.16"),
        (4.5, 0.0007, "4.50"),
        (16.0, 0.0, "16.00"),
    ],
)
def test_a_scheme_and_its_checkpoint_have_the_same_bits(scheme, shapes, printed):
    """The checkpoint also holds the shape of each of its packed tensors: 16 bytes a linear."""
    assert numbers.bits(scheme) == numbers.bits(scheme + shapes) == printed


def test_differences_have_a_sign_unless_they_are_nothing():
    assert [numbers.difference(value, True) for value in (0.0125, -0.025, 0.0, -0.00001, 0.00001)] == [
        "+1.25", "-2.50", "0.00", "0.00", "0.00",
    ]  # fmt: skip
    assert numbers.difference(-0.25, False) == "-0.25"


def test_growth_of_an_error_rate():
    assert numbers.growth(0.005, 0.015, 3.0) == "0.50 % → 1.50 % (×3.00)"


def test_nothing_is_not_negative():
    assert [numbers.fixed(-0.001), numbers.fixed(-0.0), numbers.fixed(-0.01)] == ["0.00", "0.00", "-0.01"]
    assert numbers.interval(-0.001, -0.0049) == "[0.00, 0.00]" and numbers.recovery(-0.001) == "0.00 %"
    assert numbers.score(-1e-9, None, True) == "0.00"


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0.0, "0"), (1.0, "1.0"), (0.0123, "0.012"), (0.0001, "0.00010"), (9.9e-5, "9.9×10⁻⁵"),
     (3e-12, "3.0×10⁻¹²"), (9.94, "9.9"), (9.96, "10.0"), (123.45, "123.5"), (-1e-6, "-1.0×10⁻⁶"), (9.999e-3, "0.010"),
     (9.999e-5, "0.00010")],
)  # fmt: skip
def test_divergences_have_two_digits(value: float | None, text: str):
    assert numbers.nats(value) == text
