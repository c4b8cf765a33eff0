"""The card's figure: scores of baseline and compressed model row by row, with one standard error, as PNG bytes."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalcard.card import numbers
from evalcard.card.tables import is_percent, score_of
from evalcard.results.compared import Comparison
from evalcard.results.records import RunRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Blue and vermillion of Okabe and Ito's palette, told apart by all common kinds of colour blindness; the shapes
# differ too, for print.
BASELINE_COLOUR, COMPRESSED_COLOUR = "#0072B2", "#D55E00"
_WIDTH_INCHES, _DPI = 8.0, 150
_ROW_INCHES, _FRAME_INCHES = 0.5, 1.3
_OFFSET = 0.16


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


def scores_png(bars: Sequence[Bar], title: str) -> bytes:
    """Draw at least one bar. White ground, so that it reads on dark pages too."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    assert bars, "a figure of nothing"
    height = _FRAME_INCHES + _ROW_INCHES * len(bars)
    figure = Figure(figsize=(_WIDTH_INCHES, height), dpi=_DPI, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    _draw(axes, bars)
    _label(axes, bars, title)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    buffer = io.BytesIO()
    # Without the software's version in it, equal numbers give equal bytes.
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def _draw(axes: "Axes", bars: Sequence[Bar]) -> None:
    """Two dots a row, each with its error bar; the baseline above."""
    baseline = [(bar.baseline, bar.baseline_error) for bar in bars]
    compressed = [(bar.compressed, bar.compressed_error) for bar in bars]
    for points, shift, marker, colour, label in (
        (baseline, -_OFFSET, "o", BASELINE_COLOUR, "baseline"),
        (compressed, _OFFSET, "s", COMPRESSED_COLOUR, "compressed"),
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
            markersize=7,
            elinewidth=1.5,
        )


def _label(axes: "Axes", bars: Sequence[Bar], title: str) -> None:
    axes.set_xlim(-1, 101)  # a dot at the end of the scale is drawn whole
    axes.set_ylim(len(bars) - 0.5, -0.5)
    axes.set_yticks(range(len(bars)), [bar.label for bar in bars])
    axes.set_xlabel("score in percent, ± one standard error")
    axes.set_title(title, loc="left", parse_math=False)
    axes.grid(axis="x", color="0.85")
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)
    recoveries = axes.secondary_yaxis("right")
    recoveries.set_yticks(range(len(bars)), [bar.recovery for bar in bars])
    recoveries.tick_params(axis="y", length=0)
    recoveries.spines["right"].set_visible(False)
    recoveries.set_ylabel("recovery")
