"""What is said of an average that is not the mean of its rows."""

import re

import pytest

from evalcard.card.check.digits import about_mean
from evalcard.compare.published import PublishedRow

ROWS = [("MMLU", "60.00", "54.00"), ("ARC", "50.00", "48.00"), ("MMLU", "70.00", "66.00"), ("GSM8K", "20.00", "12.00")]


@pytest.mark.parametrize(
    ("rows", "average", "said"),
    [
        (ROWS, ("60.00", "56.00"), "the mean without GSM8K: say so"),
        (ROWS, ("43.33", "38.00"), r"without the row MMLU with 70\.00 and 66\.00 \(2 rows have that name\): say so"),
        (ROWS, ("46.67", "42.00"), r"without the row MMLU with 60\.00 and 54\.00 \(2 rows have that name\): say so"),
        (ROWS, ("35.00", "30.00"), "without the 2 rows that are called MMLU: say so on the card"),
        ([ROWS[0], *ROWS], ("50.00", "45.00"), r"without one of the 2 rows MMLU with 60\.00 and 54\.00 \(3 rows have"),
        (ROWS, ("10.00", "10.00"), r"^Print that, or say which rows are in it\.$"),
        # Leaving out one or the other comes to the same: neither is named.
        ([("A", "50", "40"), ("B", "50", "40"), ("C", "20", "10")], ("35", "25"), "^Print that"),
    ],
)
def test_it_is_exact_about_what_may_be_left_out(rows, average, said):
    told = about_mean([PublishedRow(*row, None) for row in rows], PublishedRow("Average", *average, None))
    assert re.search(said, told), told


def test_columns_are_called_so():
    rows = [PublishedRow(*row, None) for row in ROWS]
    told = about_mean(rows, PublishedRow("Average", "43.33", "38.00", None), "columns")
    assert "the column MMLU with 70.00 and 66.00 (2 columns have that name)" in told
    assert told.endswith("or print the mean of all columns.")
