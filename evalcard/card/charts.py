"""The figure of scores: baseline and compressed model row by row, with one standard error, as PNG bytes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalcard.card import numbers
from evalcard.card.canvas import MOST_ROWS, canvas, frame, legend, name_rows, png_of, rows_height, tell_rows, worst
from evalcard.card.pngdata import digest_of
from evalcard.card.tables import is_percent, score_of
from evalcard.card.theme import LIGHT, Theme
from evalcard.results.compared import Comparison
from evalcard.results.records import RunRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_OFFSET = 0.17


@dataclass(frozen=True, slots=True)
class Bar:
    """One row of the figure, in percent."""

    label: str
    baseline: float
    baseline_error: float
    compressed: float
    compressed_error: float
    recovery: str


def chart_bars(run: RunRecord, comparison: Comparison, slug: str) -> list[Bar]:
    """The rows that fit one axis: scores in percent of which both models have one."""
    pairs = [(row, score_of(row, slug)) for row in comparison.tasks if is_percent(run, row)]
    return [
        Bar(
            label=row.task,
            baseline=100 * row.baseline.score,
            baseline_error=100 * (row.baseline.stderr or 0),
            compressed=100 * score.score,
            compressed_error=100 * (score.stderr or 0),
            recovery=numbers.recovery(score.recovery.value if score.recovery else None),
        )
        for row, score in pairs
        if score is not None
    ]


def shown_bars(bars: Sequence[Bar], most: int = MOST_ROWS) -> list[Bar]:
    """All, or of many those that lost most."""
    return worst(bars, lambda bar: bar.compressed - bar.baseline, most)


def scores_png(bars: Sequence[Bar], title: str, theme: Theme = LIGHT) -> bytes:
    """Draw at least one bar; of more than ``MOST_ROWS`` those that lost most."""
    assert bars, "a figure of nothing"
    shown = shown_bars(bars)
    more = f"\n{MOST_ROWS} of {len(bars)} tasks, those that lost most" if len(shown) < len(bars) else ""
    with canvas(theme, rows_height(len(shown)), f"{title}{more}") as figure:
        axes = figure.add_subplot()
        frame(axes, theme)
        _draw(axes, shown, theme)
        axes.set_xlim(-1, 101)  # a dot at the end of the scale is drawn whole
        axes.set_xlabel("score in percent, ± one standard error")
        name_rows(axes, theme, [bar.label for bar in shown])
        tell_rows(axes, theme, "recovery", [bar.recovery for bar in shown])
        legend(figure, axes, columns=2)
        return png_of(figure, digest_of("scores", [title, bars]))


def _draw(axes: "Axes", bars: Sequence[Bar], theme: Theme) -> None:
    """Two dots a row, each with its error bar; the baseline above."""
    baseline = [(bar.baseline, bar.baseline_error) for bar in bars]
    compressed = [(bar.compressed, bar.compressed_error) for bar in bars]
    for points, shift, marker, colour, label in (
        (baseline, -_OFFSET, "o", theme.baseline, "baseline"),
        (compressed, _OFFSET, "s", theme.compressed, "compressed"),
    ):
        axes.errorbar(
            [score for score, _ in points],
            [row + shift for row in range(len(bars))],
            xerr=[error for _, error in points],
            marker=marker,
            color=colour,
            label=label,
            linestyle="none",
            capsize=3,
            markersize=6.5,
            elinewidth=1.5,
        )
