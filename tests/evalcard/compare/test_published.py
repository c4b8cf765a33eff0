"""Printed tables: all that were handed over, and numbers rounded on purpose.

tests/data/published_tables.json holds the figures of public model cards. They were handed over as numbers, so zeros at
the end were lost; we took it that the scores of one column, and the recoveries of one table, are printed with equally
many decimals, and put the zeros back. ``check`` is what a person found of each row.
"""

import json
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcard.compare.published import (
    Inconsistent,
    Match,
    PublishedRow,
    Span,
    check_average,
    check_row,
    read_printed,
)
from evalcard.errors import UserError

TABLES = json.loads((Path(__file__).parents[2] / "data" / "published_tables.json").read_text(encoding="utf-8"))
AVERAGED = [table for table in TABLES if table["average"]]


def row_of(line) -> PublishedRow:
    return PublishedRow(line.get("benchmark", "Average"), line["baseline"], line["compressed"], line["recovery"])


def average_of(table):
    return check_average([row_of(line) for line in table["rows"]], row_of(table["average"]))


def told(checked) -> str:
    if checked is None:
        return "not published"
    if isinstance(checked, Match):
        return checked.how
    return "last digit" if checked.is_last_digit else "misprint"


def name_of(table) -> str:
    return f"{table['model'].rsplit('/', 1)[-1]}, {table['category']}"


@pytest.mark.parametrize("table", TABLES, ids=name_of)
def test_every_published_recovery_is_matched_or_named(table):
    assert [told(check_row(row_of(line))) for line in table["rows"]] == [line["check"] for line in table["rows"]]


def test_none_of_the_published_rows_is_missing():
    found = Counter(told(check_row(row_of(line))) for table in TABLES for line in table["rows"])
    assert found == {
        "follows": 84, "within rounding": 21, "not published": 33, "misprint": 5, "last digit": 1
    } and len(TABLES) == 33  # fmt: skip


@pytest.mark.parametrize("table", AVERAGED, ids=name_of)
def test_every_published_recovery_of_an_average_is_the_ratio_of_the_averages(table):
    average, checked = table["average"], average_of(table)
    rules = {None: (), "both": ("ratio of averages", "mean of recoveries")}
    assert checked.rules == rules.get(average["rule"], (average["rule"],))
    assert (average["recovery"] is None) == (checked.recovery == {})
    assert checked.baseline_is_mean == average["baseline_is_mean"]
    assert checked.compressed_is_mean == average["compressed_is_mean"]


def test_none_of_the_published_averages_is_missing():
    rules = Counter(average_of(table).rules for table in AVERAGED)
    assert rules == {("ratio of averages",): 14, ("ratio of averages", "mean of recoveries"): 2, (): 3}
    off = [average_of(table) for table in AVERAGED if "why" in table["average"]]
    assert len(off) == 4 and not any(one.baseline_is_mean and one.compressed_is_mean for one in off)


@pytest.mark.parametrize(
    ("base", "compressed", "value", "found"),
    [
        ("68.3", "66.9", "97.9", "within rounding"),  # 97.95 from the printed scores
        ("68.3", "66.9", "98.0", "follows"),
        ("68.3000", "66.9000", "97.9", "last digit"),  # cut off
        ("68.300", "66.900", "97.90", "misprint"),
        ("49.27", "48.90", "98.25", "misprint"),
        ("96.08", "96.16", "100.0", "last digit"),
        ("0.7810", "0.7303", "93.51", "follows"),
        ("0.781", "0.736", "94.24", "follows"),
        ("0.781", "0.736", "94.00", "misprint"),
        ("78.10", "73.03", "93.51", "follows"),
        ("78.10", "73.03", "94.00", "misprint"),
        ("70.00", "69.00", "98.67", "misprint"),
        ("70.00", "69.00", "98.47", "misprint"),
        ("50.00", "50.00", "101.00", "misprint"),
        ("3.7", "4.0", "109.8", "within rounding"),
        ("50", "50", "101.0", "within rounding"),
        ("0.0", "0.0", "100.0", "within rounding"),  # whatever they are, they say nothing
        ("0.0", "1.0", "100.0", "misprint"),  # at least 0.95 / 0.05
    ],
)
def test_rows(base: str, compressed: str, value: str, found: str):
    assert told(check_row(PublishedRow("x", base, compressed, value))) == found


def test_what_an_inconsistent_row_could_be():
    checked = check_row(PublishedRow("x", "80", "40", "60.0"))
    assert isinstance(checked, Inconsistent)
    assert checked.possible == Span(Fraction(3950, 80) * Fraction(160, 161), Fraction(4050, 80) * Fraction(160, 159))


def test_without_a_recovery_there_is_nothing_to_check():
    assert check_row(PublishedRow("x", "1", "1", None)) is None


def test_lower_is_better_turns_the_ratio_round():
    assert told(check_row(PublishedRow("x", "10.00", "12.50", "80.00", higher_is_better=False))) == "follows"
    assert told(check_row(PublishedRow("x", "10.00", "12.50", "80.00"))) == "misprint"


def test_scores_below_zero_have_their_ratio_too():
    assert told(check_row(PublishedRow("x", "-1.50", "-1.20", "80.00"))) == "follows"
    assert told(check_row(PublishedRow("x", "-1.50", "-1.20", "90.00"))) == "misprint"


@pytest.mark.parametrize("text", ["33,890", "97.9 %", "", "---", "1e3", "nan", "1.", "1/2", "٣"])
def test_what_is_no_printed_number_is_refused(text: str):
    with pytest.raises(UserError, match="no printed number"):
        read_printed(text)


SCORES = st.integers(0, 4000)


@settings(deadline=None)
@given(st.integers(1, 4000), SCORES, st.integers(4000, 30_000), st.integers(0, 3), st.integers(0, 3), st.booleans())
def test_what_was_rounded_is_never_called_inconsistent(base, compressed, n, decimals, shown, higher):
    compressed = max(compressed, 0 if higher else 1)
    top, bottom = (compressed, base) if higher else (base, compressed)
    scores = [f"{100 * score / n:.{decimals}f}" for score in (base, compressed)]
    row = PublishedRow("x", *scores, f"{100 * top / bottom:.{shown}f}", higher_is_better=higher)
    assert isinstance(check_row(row), Match)


@settings(deadline=None, max_examples=60)
@given(st.integers(5, 90), st.integers(0, 90), st.integers(0, 2000))
def test_the_range_is_that_of_all_scores_that_print_alike(base: int, compressed: int, tenths: int):
    """Against brute force: a grid over everything that prints like the two scores, its corners included."""
    row = PublishedRow("x", str(base), str(compressed), f"{tenths / 10:.1f}")
    steps = [Fraction(step, 20) - Fraction(1, 2) for step in range(21)]
    grid = [100 * max(compressed + one, Fraction(0)) / (base + other) for one in steps for other in steps]
    half, value = Fraction(1, 20), Fraction(tenths, 10)
    checked = check_row(row)
    if any(abs(one - value) <= half for one in grid):
        assert isinstance(checked, Match)
    elif value + half < min(grid) or value - half > max(grid):
        assert isinstance(checked, Inconsistent) and checked.possible == Span(min(grid), max(grid))


def test_an_average_that_mixes_up_its_rows_is_found():
    rows = [PublishedRow("a", "50.0", "49.0", "98.0"), PublishedRow("b", "10.0", "5.0", "50.0")]
    right = check_average(rows, PublishedRow("Average", "30.0", "27.0", "90.0"))
    assert right.rules == ("ratio of averages",) and right.baseline_is_mean and right.compressed_is_mean
    wrong = check_average(rows, PublishedRow("Average", "30.0", "28.0", "74.0"))
    assert wrong.rules == ("mean of recoveries",) and (wrong.baseline_is_mean, wrong.compressed_is_mean) == (
        True,
        False,
    )
    neither = check_average(rows, PublishedRow("Average", "30.0", "27.0", "99.0"))
    assert neither.rules == () and all(isinstance(one, Inconsistent) for one in neither.recovery.values())


def test_a_row_over_nothing_leaves_only_the_ratio():
    rows = [PublishedRow("a", "50.0", "49.0", None), PublishedRow("b", "0.0", "0.0", None)]
    checked = check_average(rows, PublishedRow("Average", "25.0", "24.5", "98.0"))
    assert list(checked.recovery) == ["ratio of averages"] and checked.rules == ("ratio of averages",)
