"""Recovery seen otherwise: difference in points, what is left above chance, and how the error rate grew.

A recovery of 99 % can mean three times the errors (99.5 % to 98.5 % right), or most of what lies above guessing lost.
"""

from dataclasses import dataclass

from evalcard.card import numbers
from evalcard.card.tables import is_percent, ordered_rows, row_title, score_of
from evalcard.compare.averages import AVERAGE
from evalcard.results.compared import ComparedRow, Comparison, CompressedScore
from evalcard.results.records import RunRecord


@dataclass(frozen=True, slots=True)
class ContrastLine:
    """One row or average; a cell is empty where it would mean nothing."""

    title: str
    is_average: bool
    difference: str
    interval: str
    """Of the difference."""
    above_chance: str
    errors: str


@dataclass(frozen=True, slots=True)
class ContrastsView:
    """One compressed model on all rows and averages of which a difference is known."""

    lines: tuple[ContrastLine, ...]
    has_units: bool
    """Whether a difference is in a metric's own unit and not in points."""

    @property
    def has_above_chance(self) -> bool:
        return any(line.above_chance for line in self.lines)

    @property
    def has_errors(self) -> bool:
        return any(line.errors for line in self.lines)

    @property
    def dashes(self) -> tuple[str, ...]:
        """Why cells of the shown columns are empty: ``average``, ``above_chance``, ``errors``."""
        shown = [name for name in ("above_chance", "errors") if any(getattr(line, name) for line in self.lines)]
        rows = [line for line in self.lines if not line.is_average]
        averages = [line for line in self.lines if line.is_average]
        empty = [name for name in shown if not all(getattr(line, name) for line in rows)]
        of_averages = any(not getattr(line, name) for line in averages for name in shown)
        return (*(["average"] if of_averages else []), *empty)


def contrasts_view(run: RunRecord, comparison: Comparison, slug: str) -> ContrastsView:
    pairs = [(row, score_of(row, slug)) for row in ordered_rows(comparison)]
    lines = [
        _line(run, comparison, row, score) for row, score in pairs if score is not None and score.difference is not None
    ]
    return ContrastsView(tuple(lines), has_units=not all(is_percent(run, row) for row, _ in pairs))


def error_growth(row: ComparedRow, score: CompressedScore) -> str:
    """``0.50 % → 1.50 % (×3.00)``; empty where the baseline makes no errors, or these are no shares."""
    if score.error_ratio is None:
        # From no errors to some there is no factor, and yet it is what the column is for.
        is_first = row.higher_is_better and row.baseline.score == 1 and score.score < 1
        return numbers.growth(0.0, 1 - score.score, None) if is_first else ""
    return numbers.growth(1 - row.baseline.score, 1 - score.score, score.error_ratio)


def _line(run: RunRecord, comparison: Comparison, row: ComparedRow, score: CompressedScore) -> ContrastLine:
    difference, percent = score.difference, is_percent(run, row)
    assert difference is not None
    scale = 100 if percent else 1
    low, high = (None if end is None else scale * end for end in (difference.low, difference.high))
    has_chance = row.chance > 0 and score.chance_adjusted is not None
    return ContrastLine(
        title=row_title(comparison, row),
        is_average=row.metric == AVERAGE,
        difference=numbers.difference(difference.value, percent),
        interval=numbers.interval(low, high),
        above_chance=numbers.recovery(score.chance_adjusted) if has_chance else "",
        errors=error_growth(row, score),
    )
