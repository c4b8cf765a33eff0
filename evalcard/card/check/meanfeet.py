"""Recoveries of a whole table that shows no average: of the means of its benchmarks, or the mean of their recoveries.

A card may mean others than it shows, so that the figures have to confirm it: at least half of the models' recoveries
must follow before another one is called wrong.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evalcard.card.check.digits import fixed, mean_of, places_of
from evalcard.card.check.feet import base_of
from evalcard.card.check.groups import Line, named_in
from evalcard.card.check.table import Table
from evalcard.compare.published import Inconsistent, Match, PublishedRow, check_average


@dataclass(frozen=True, slots=True)
class MeanFoot:
    """A printed recovery, held against the means of the benchmarks."""

    table: Table
    line: Line
    means: PublishedRow
    """Of the rows, with one more digit than these, and the printed recovery."""
    num_rows: int
    told: Match | Inconsistent


def mean_feet(tables: Sequence[Table]) -> list[MeanFoot]:
    """Of all models of one grid; empty where there is an average, or more than one row of recoveries."""
    return [foot for table in tables if table.triple.recovery is None for foot in _feet(table)]


def are_confirmed(feet: Sequence[MeanFoot]) -> bool:
    """Whether half of them follow, and one at least."""
    matches = sum(isinstance(foot.told, Match) for foot in feet)
    return matches > 0 and 2 * matches >= len(feet)


def _feet(table: Table) -> Iterator[MeanFoot]:
    lines = [line for line in table.lines if line.kind == "recovery"]
    if len(lines) != 1 or named_in(lines[0]) or base_of(lines[0], table.lines) or table.triple.is_loose:
        return
    printed = table.read(lines[0], table.triple.compressed)
    items = [line for line in table.lines if line.kind == "item"]
    rows = table.rows_of(items)
    if not printed.is_number or not rows or len(rows) < 2 or any(line.kind == "average" for line in table.lines):
        return
    told = _told(rows, printed.number)
    alike = [row for row in rows if row.higher_is_better]
    if isinstance(told, Inconsistent) and 1 < len(alike) < len(rows):
        rows, told = alike, _told(alike, printed.number)  # scores without the perplexities beside them
    yield MeanFoot(table, lines[0], _means(rows, printed.number, 1), len(rows), told)


def _told(rows: Sequence[PublishedRow], recovery: str) -> Match | Inconsistent:
    """The first rule that it follows from; none but the ratio for one that follows from neither."""
    told = check_average(rows, _means(rows, recovery, 0)).recovery
    mixed = len({row.higher_is_better for row in rows}) > 1
    found = [one for rule, one in told.items() if not (mixed and rule == "ratio of averages")]
    return next((one for one in found if isinstance(one, Match)), told["ratio of averages"])


def _means(rows: Sequence[PublishedRow], recovery: str, more: int) -> PublishedRow:
    """more: digits than the rows have; with none its roundings are those that the rows' own allow."""
    sides = [[row.baseline for row in rows], [row.compressed for row in rows]]
    choose = max if more else min
    means = [fixed(mean_of(side), choose(map(places_of, side)) + more) for side in sides]
    return PublishedRow("mean", means[0], means[1], recovery, rows[0].higher_is_better)
