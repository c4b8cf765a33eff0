"""The figure of flips: answers lost to the left and gained to the right, by category."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalcard.card.canvas import MOST_ROWS, canvas, frame, legend, name_rows, png_of, rows_height, worst
from evalcard.card.pngdata import digest_of
from evalcard.card.tables import categories, score_of, tasks_of
from evalcard.card.theme import LIGHT, Theme
from evalcard.results.compared import ComparedRow, Comparison
from evalcard.results.records import RunRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True)
class FlipBar:
    """One category, or one task."""

    label: str
    lost: int
    gained: int


@dataclass(frozen=True, slots=True)
class FlipChart:
    """All that the figure shows of one compressed model."""

    title: str
    by: str
    """``category`` or ``task``."""
    bars: tuple[FlipBar, ...]

    def shown(self, most: int = MOST_ROWS) -> list[FlipBar]:
        """All, or of many those with the most flips."""
        return worst(self.bars, lambda bar: -(bar.lost + bar.gained), most)


def flip_chart(run: RunRecord, comparison: Comparison, slug: str, title: str) -> FlipChart | None:
    """By category; by task where there is one category, or where a sum would count an answer twice.

    None where no row counts flips, or none of its answers flipped.
    """
    counted = [row for row in comparison.tasks if (one := score_of(row, slug)) is not None and one.lost is not None]
    named = [category for category in categories(comparison) if any(row.category == category for row in counted)]
    leaves = [task.name for row in counted for task in tasks_of(run, row)]
    by_category = len(named) > 1 and len(set(leaves)) == len(leaves)
    groups = (
        [(name, [row for row in counted if row.category == name]) for name in named]
        if by_category
        else [(row.task, [row]) for row in counted]
    )
    bars = tuple(_bar(label, rows, slug) for label, rows in groups)
    if not any(bar.lost or bar.gained for bar in bars):
        return None
    return FlipChart(title, "category" if by_category else "task", bars)


def _bar(label: str, rows: Sequence[ComparedRow], slug: str) -> FlipBar:
    scores = [score for row in rows if (score := score_of(row, slug)) is not None]
    return FlipBar(label, sum(score.lost or 0 for score in scores), sum(score.gained or 0 for score in scores))


def flips_png(chart: FlipChart, theme: Theme = LIGHT) -> bytes:
    shown = chart.shown()
    more = (
        f"\n{MOST_ROWS} of {len(chart.bars)} tasks, those with the most flips" if len(shown) < len(chart.bars) else ""
    )
    with canvas(theme, rows_height(len(shown)), f"{chart.title}{more}") as figure:
        axes = figure.add_subplot()
        frame(axes, theme)
        most = max(max(bar.lost, bar.gained) for bar in shown)
        axes.set_xlim(-1.3 * most, 1.3 * most)
        _draw(axes, shown, theme)
        axes.axvline(0, color=theme.text, linewidth=1)
        _label(axes)
        name_rows(axes, theme, [bar.label for bar in shown])
        legend(figure, axes, columns=2)
        return png_of(figure, digest_of("flips", chart))


def _draw(axes: "Axes", bars: Sequence[FlipBar], theme: Theme) -> None:
    rows = range(len(bars))
    axes.barh(rows, [-bar.lost for bar in bars], 0.6, color=theme.lost, label="lost: right before, wrong now")
    axes.barh(rows, [bar.gained for bar in bars], 0.6, color=theme.gained, label="gained: wrong before, right now")
    for row, bar in enumerate(bars):
        for count, side in ((bar.lost, -1), (bar.gained, 1)):
            axes.annotate(
                f"{count:,}", (side * count, row), xytext=(4 * side, 0), textcoords="offset points", va="center",
                ha="left" if side > 0 else "right", color=theme.text,
            )  # fmt: skip


def _label(axes: "Axes") -> None:
    """Counts have no sign and no fractions, whichever side they are on."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True, symmetric=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{abs(value):,.0f}"))
    axes.set_xlabel("answers that flipped")
