"""The figure of recoveries: every task and average with its interval, against 100 % and the gate's limits."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from evalcard.card import numbers
from evalcard.card.canvas import MOST_ROWS, canvas, frame, legend, name_rows, png_of, rows_height, tell_rows, worst
from evalcard.card.pngdata import digest_of
from evalcard.card.tables import ordered_rows, row_title, score_of
from evalcard.card.theme import LIGHT, Theme
from evalcard.card.verdicts import stored_verdict
from evalcard.compare.averages import AVERAGE
from evalcard.gate.verdict import LimitVerdict
from evalcard.results.compared import ComparedRow, Comparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_LENGTHS, _LEAST_REACH = 4.0, 2.0
"""An interval that goes further from its value than so many times the others' usual length, and so many points, leaves
the figure: a task of few items says next to nothing, and must not flatten all others."""


@dataclass(frozen=True, slots=True)
class RecoveryLine:
    """One row of the figure, in percent."""

    label: str
    is_average: bool
    value: float
    low: float | None
    """Ends of the interval; ``low`` alone is one without an upper end, and None none at all."""
    high: float | None
    limit: float | None
    """The least recovery that the gate asks for here."""


@dataclass(frozen=True, slots=True)
class RecoveryChart:
    """All that the figure shows of one compressed model."""

    title: str
    confidence: str
    """Of the intervals, in percent."""
    lines: tuple[RecoveryLine, ...]
    undefined: tuple[str, ...]
    """Rows and averages without a recovery; they are not drawn."""

    def shown(self, most: int = MOST_ROWS) -> list[RecoveryLine]:
        """All, or of many the averages and the tasks with the least recovery."""
        return worst(self.lines, lambda line: -math.inf if line.is_average else line.value, most)


def recovery_chart(comparison: Comparison, slug: str, title: str) -> RecoveryChart | None:
    """None where no recovery is defined."""
    lines, undefined = [], []
    for row in ordered_rows(comparison):
        score = score_of(row, slug)
        if score is None or score.recovery is None:
            undefined.append(row_title(comparison, row))
            continue
        known = score.recovery
        label, limit = row_title(comparison, row), _limit(comparison, slug, row)
        lines.append(RecoveryLine(label, row.metric == AVERAGE, known.value, known.low, known.high, limit))
    if not lines:
        return None
    return RecoveryChart(title, f"{100 * comparison.confidence:g}", tuple(lines), tuple(undefined))


def _limit(comparison: Comparison, slug: str, row: ComparedRow) -> float | None:
    """The strictest, where there are several."""
    verdict = stored_verdict(comparison)
    models = [model for model in verdict.models if model.model == slug] if verdict else []
    limits = [limit for model in models for limit in model.limits if limit.kind == "min_recovery"]
    return max((limit.limit for limit in limits if _is_on(limit, comparison, row)), default=None)


def _is_on(limit: LimitVerdict, comparison: Comparison, row: ComparedRow) -> bool:
    if row is comparison.overall:
        return limit.scope == "overall"
    if row.metric == AVERAGE:
        return limit.scope == "average" and limit.name == row.category
    return limit.scope == "task" and limit.name == row.task


def recovery_png(chart: RecoveryChart, theme: Theme = LIGHT) -> bytes:
    shown = chart.shown()
    cut = len(shown) < len(chart.lines)
    more = f"\n{MOST_ROWS} of {len(chart.lines)} rows, those with the lowest recovery" if cut else ""
    with canvas(theme, rows_height(len(shown)), f"{chart.title}{more}") as figure:
        axes = figure.add_subplot()
        frame(axes, theme)
        low, high = _range(shown)
        axes.set_xlim(low, high)
        axes.axvline(100, color=theme.muted, linewidth=1.2, linestyle="--", zorder=1)
        _draw(axes, shown, theme, (low, high))
        axes.set_xlabel(f"recovery in percent, {chart.confidence} % interval; dashed: as good as the baseline")
        name_rows(axes, theme, [line.label for line in shown], [line.is_average for line in shown])
        tell_rows(axes, theme, "recovery", [numbers.recovery(line.value) for line in shown])
        legend(figure, axes, columns=3)
        return png_of(figure, digest_of("recovery", chart))


def _range(lines: Sequence[RecoveryLine]) -> tuple[float, float]:
    """All values, limits and 100 with room around; the ends of intervals as far as they are within reason."""
    inner = [100.0, *(line.value for line in lines), *(line.limit for line in lines if line.limit is not None)]
    lengths = [length for line in lines for length in _lengths(line)]
    reach = max(_MOST_LENGTHS * median(lengths), _LEAST_REACH) if lengths else 0.0
    lows = [max(line.low, line.value - reach) for line in lines if line.low is not None]
    highs = [min(line.high, line.value + reach) for line in lines if line.high is not None]
    low, high = min(*inner, *lows), max(*inner, *highs)
    spare = max(0.04 * (high - low), 0.5)
    return low - spare, high + spare


def _lengths(line: RecoveryLine) -> list[float]:
    """From the value to each end that there is; a test that ended early may have its value outside."""
    return [abs(end - line.value) for end in (line.low, line.high) if end is not None]


def _draw(axes: "Axes", lines: Sequence[RecoveryLine], theme: Theme, ends: tuple[float, float]) -> None:
    groups = (("task", "s", 6.5, False), ("average", "D", 7.5, True))
    for label, marker, size, is_average in groups:
        at = [n for n, line in enumerate(lines) if line.is_average == is_average]
        if at:
            values = [lines[n].value for n in at]
            axes.plot(values, at, marker, color=theme.compressed, markersize=size, label=label, zorder=3)
    for n, line in enumerate(lines):
        if line.low is not None:
            _whisker(axes, n, line.low, line.high, theme, ends)
    limits = [(line.limit, n) for n, line in enumerate(lines) if line.limit is not None]
    if limits:
        axes.plot(
            [limit for limit, _ in limits], [n for _, n in limits], "|", color=theme.limit, markersize=20,
            markeredgewidth=2.5, label="limit of the gate", zorder=2,
        )  # fmt: skip


def _whisker(axes: "Axes", row: int, low: float, high: float | None, theme: Theme, ends: tuple[float, float]) -> None:
    """With a cap at an end that is in the figure, and an arrow where it goes on."""
    left, right = max(low, ends[0]), ends[1] if high is None else min(high, ends[1])
    axes.plot([left, right], [row, row], color=theme.compressed, linewidth=1.6, zorder=2)
    marks = ((left, "|" if low >= ends[0] else 4), (right, "|" if high is not None and high <= ends[1] else 5))
    for x, marker in marks:
        # 4 and 5 are matplotlib's triangles that point left and right, with their tip at the place.
        axes.plot([x], [row], marker=marker, color=theme.compressed, markersize=8, markeredgewidth=1.5, clip_on=False)
