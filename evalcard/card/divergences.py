"""The figure of divergences: how far the compressed model's probabilities are from the baseline's, task by task."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalcard.card import numbers
from evalcard.card.canvas import MOST_ROWS, canvas, frame, legend, name_rows, png_of, rows_height, tell_rows, worst
from evalcard.card.pngdata import digest_of
from evalcard.card.theme import LIGHT, Theme
from evalcard.compare.divergence import EDGES
from evalcard.results.compared import Comparison, FidelityRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BAND = 0.62
"""Of a row's height, for the fullest bin."""
_BELOW = 0.3
"""Where a row's histogram stands, below its middle."""
_SHRINK = 10 ** (-1 / 4)
_FLOOR = EDGES[0] * _SHRINK
"""What is smaller than all bins stands here."""


@dataclass(frozen=True, slots=True)
class DivergenceLine:
    """One row of the figure; divergences in nats."""

    label: str
    items: int
    mean: float
    median: float
    p90: float
    p99: float
    bins: tuple[int, ...] | None
    """None where only sums are known."""


@dataclass(frozen=True, slots=True)
class DivergenceChart:
    """All that the figure shows of one compressed model."""

    title: str
    unit: str
    """``choices`` or ``tokens``."""
    lines: tuple[DivergenceLine, ...]

    def shown(self, most: int = MOST_ROWS) -> list[DivergenceLine]:
        """All, or of many those with the largest mean."""
        return worst(self.lines, lambda line: -line.mean, most)


def divergence_chart(comparison: Comparison, slug: str, title: str) -> DivergenceChart | None:
    """Over choices, or where there are none over tokens, which cannot share an axis; None without any divergence."""
    mine = [one for one in comparison.fidelity if one.model == slug]
    for unit in ("choices", "tokens"):
        lines = tuple(line for one in mine if one.unit == unit and (line := _line(one)) is not None)
        if lines:
            return DivergenceChart(title, unit, lines)
    return None


def _line(one: FidelityRecord) -> DivergenceLine | None:
    if one.kl_mean is None or one.kl_median is None or one.kl_p90 is None or one.kl_p99 is None:
        return None
    bins = None if one.kl_bins is None else tuple(one.kl_bins)
    return DivergenceLine(one.row, one.items, one.kl_mean, one.kl_median, one.kl_p90, one.kl_p99, bins)


def divergences_png(chart: DivergenceChart, theme: Theme = LIGHT) -> bytes:
    shown = chart.shown()
    cut = len(shown) < len(chart.lines)
    more = f"\n{MOST_ROWS} of {len(chart.lines)} tasks, those with the largest mean" if cut else ""
    with canvas(theme, rows_height(len(shown)) + 0.3, f"{chart.title}{more}") as figure:
        axes = figure.add_subplot()
        frame(axes, theme)
        axes.set_xscale("log")
        axes.set_xlim(*_range(shown))
        for row, line in enumerate(shown):
            _histogram(axes, row, line, theme)
        _marks(axes, shown, theme)
        axes.set_xlabel(f"KL(baseline || compressed) over the {chart.unit} of an item, in nats")
        name_rows(axes, theme, [line.label for line in shown])
        axes.set_ylim(len(shown) - 0.45, -0.75)  # the uppermost histogram stands above its row's middle
        tell_rows(axes, theme, "mean", [numbers.nats(line.mean) for line in shown])
        legend(figure, axes, columns=3)
        return png_of(figure, digest_of("kl", chart))


def _seen(nats: float) -> float:
    return max(nats, _FLOOR)


def _range(lines: Sequence[DivergenceLine]) -> tuple[float, float]:
    """Whole bins around all that is drawn, and a decade at least."""
    starts = [_start(k) for line in lines for k, count in enumerate(line.bins or ()) if count]
    marks = [_seen(value) for line in lines for value in (line.median, line.p99)]
    low, high = min([*starts, *marks]) * _SHRINK, max([*starts, *marks]) / _SHRINK**2
    return low, max(high, 10 * low)


def _start(k: int) -> float:
    return _FLOOR if k == 0 else EDGES[k - 1]


def _histogram(axes: "Axes", row: int, line: DivergenceLine, theme: Theme) -> None:
    """Bins of equal width on this axis, so that areas compare within a row."""
    if line.bins is None:
        return
    filled = [(k, count) for k, count in enumerate(line.bins) if count]
    most = max(count for _, count in filled)
    axes.bar(
        [_start(k) for k, _ in filled],
        [-_BAND * count / most for _, count in filled],
        width=[_start(k) * (1 / _SHRINK - 1) for k, _ in filled],
        bottom=row + _BELOW,
        align="edge",
        color=theme.compressed,
        alpha=0.85,
        linewidth=0,
    )


def _marks(axes: "Axes", lines: Sequence[DivergenceLine], theme: Theme) -> None:
    rows = [row + _BELOW for row in range(len(lines))]
    axes.hlines(rows, [_seen(one.median) for one in lines], [_seen(one.p99) for one in lines], color=theme.text, lw=1.4)
    for label, marker, values in (
        ("median", "o", [one.median for one in lines]),
        ("90 % of items are below", "|", [one.p90 for one in lines]),
        ("99 % of items are below", "D", [one.p99 for one in lines]),
    ):
        axes.plot(
            [_seen(value) for value in values], rows, marker, color=theme.text, label=label, zorder=3,
            markersize=11 if marker == "|" else 7, markeredgewidth=2 if marker == "|" else 1,
            markeredgecolor=theme.text if marker == "|" else theme.ground,
        )  # fmt: skip
