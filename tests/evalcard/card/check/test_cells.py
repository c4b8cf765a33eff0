"""Cells: the number in them, whatever stands around it."""

import pytest

from evalcard.card.check.cells import read_cell
from evalcard.card.check.grid import plain


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("68.30", "68.30"),
        ("**98.0 %**", "98.0"),
        ("67.50 ± 7.41", "67.50"),
        ("67.5 +/- 1.2", "67.5"),
        ("100.00&nbsp;% [83.35, 119.98]", "100.00"),
        ("97.1 [95.98, ∞)", "97.1"),
        ("27.2 (28.1 / 26.3)", "27.2"),
        ("−0.31", "-0.31"),
        ("+1.5", "1.5"),
        (".85", "0.85"),
        ("99.1<sup>1</sup>", "99.1"),
        ("99.1[^2]", "99.1"),
        ("99.1†", "99.1"),
        ("99.1²", "99.1"),
        ("~~98~~ 99", "99"),
        ("`12`", "12"),
        ("[12.5](x.json)", "12.5"),
        ("<b>12.5</b>", "12.5"),
        ("0", "0"),
        ("12.5 *", "12.5"),
        ("_12.5_", "12.5"),
        ("12.5 %<br>[1, 2]", "12.5"),
    ],
)
def test_numbers(text: str, number: str):
    reading = read_cell(plain(text))
    assert (reading.kind, reading.number) == ("number", number)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("33,890", "comma"),
        ("97,9 %", "comma"),
        ("1,234.5", "comma"),
        ("--", "nothing"),
        ("\\-", "nothing"),
        ("– <sup>a</sup>", "nothing"),
        ("not measured", "nothing"),
        ("~99", "other"),
        ("1e3", "other"),
        ("nan", "other"),
        ("12 of 40", "other"),
        ("(12.5)", "other"),
        ("1.2.3", "other"),
        ("٣", "other"),
        ("9" * 300, "other"),
        ("97 / 98", "other"),
    ],
)
def test_what_is_no_number(text: str, kind: str):
    assert read_cell(plain(text)).kind == kind
