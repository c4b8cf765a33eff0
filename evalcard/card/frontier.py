"""The figure of a run with several compressed models: what is left of the score against the bytes of the weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalcard.card.canvas import canvas, frame, png_of
from evalcard.card.labels import model_labels
from evalcard.card.pngdata import digest_of
from evalcard.card.tables import categories, is_percent, row_title, score_of
from evalcard.card.theme import LIGHT, Theme
from evalcard.results.compared import ComparedRow, Comparison, CompressedScore
from evalcard.results.records import RunRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation
    from matplotlib.transforms import Bbox

_HEIGHT_INCHES = 4.5
_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
"""Decimal, as the Hub and the tables count."""
_PLACES = tuple((right, up) for up in (5, -5, 18, -18, 31, -31) for right in (8, -8))
"""Where a label may stand beside its point, in printer's points, the best first."""


@dataclass(frozen=True, slots=True)
class Point:
    """One model."""

    label: str
    num_bytes: int
    """Of its weights, as the scheme stores them."""
    value: float
    """In percent: recovery, or the score."""
    low: float | None = None
    high: float | None = None
    """Ends of the whisker; ``low`` alone is an interval without an upper end, and None no interval at all."""


@dataclass(frozen=True, slots=True)
class Frontier:
    """What the figure shows, the baseline apart."""

    baseline: Point
    points: tuple[Point, ...]
    what: str
    """The vertical axis in words."""
    title: str


def frontier_of(run: RunRecord, comparison: Comparison) -> Frontier | None:
    """The models over the row that stands for the whole run: the average of all rows, or the only one.

    Recoveries with their intervals; where a recovery is undefined for some model, scores of all with one standard
    error. None where there is no such row, or fewer than two compressed models whose bytes are known.
    """
    row = _whole(comparison)
    if row is None or run.models[0].weight_bytes is None:
        return None
    labels = model_labels(run.models)
    scores = [(labels[one.slug], one.weight_bytes, score_of(row, one.slug)) for one in run.models[1:]]
    known = [(label, size, score) for label, size, score in scores if size is not None and score is not None]
    by_recovery = all(score.recovery is not None for _, _, score in known)
    if len(known) < 2 or not (by_recovery or is_percent(run, row)):
        return None
    point = _recovery if by_recovery else _score
    what = f"recovery in percent, {100 * comparison.confidence:g} % interval"
    return Frontier(
        baseline=_baseline(row, run.models[0].weight_bytes, by_recovery),
        points=tuple(point(label, size, score) for label, size, score in known),
        what=what if by_recovery else "score in percent, ± one standard error",
        title=f"{run.models[0].name.rpartition('/')[2]}: {row_title(comparison, row)} and bytes of weights",
    )


def _whole(comparison: Comparison) -> ComparedRow | None:
    """The average of all rows, or the only row."""
    if comparison.overall is not None:
        return comparison.overall
    if len(categories(comparison)) > 1:
        return None
    rows = comparison.averages or comparison.tasks
    return rows[0] if len(rows) == 1 else None


def _baseline(row: ComparedRow, num_bytes: int, by_recovery: bool) -> Point:
    if by_recovery:
        return Point("baseline", num_bytes, 100.0)
    return _spread("baseline", num_bytes, row.baseline.score, row.baseline.stderr)


def _recovery(label: str, num_bytes: int, score: CompressedScore) -> Point:
    assert score.recovery is not None, label
    return Point(label, num_bytes, score.recovery.value, score.recovery.low, score.recovery.high)


def _score(label: str, num_bytes: int, score: CompressedScore) -> Point:
    return _spread(label, num_bytes, score.score, score.stderr)


def _spread(label: str, num_bytes: int, score: float, stderr: float | None) -> Point:
    """In percent. As in the tables, an error of 0 says nothing and is left out."""
    if not stderr:
        return Point(label, num_bytes, 100 * score)
    return Point(label, num_bytes, 100 * score, 100 * (score - stderr), 100 * (score + stderr))


def frontier_png(frontier: Frontier, theme: Theme = LIGHT) -> bytes:
    """Equal numbers give equal bytes."""
    with canvas(theme, _HEIGHT_INCHES, frontier.title) as figure:
        axes = figure.add_subplot()
        everything = (frontier.baseline, *frontier.points)
        scale, unit = _unit(max(one.num_bytes for one in everything))
        _frame(axes, frontier, unit, max(one.num_bytes for one in everything) / scale, theme)
        top = axes.get_ylim()[1]
        _draw(axes, [frontier.baseline], scale, top, "o", theme.baseline)
        _draw(axes, frontier.points, scale, top, "s", theme.compressed)
        figure.draw_without_rendering()  # settles the layout, by which labels are placed
        figure.set_layout_engine("none")
        _label(axes, everything, scale)
        return png_of(figure, digest_of("frontier", frontier))


def _unit(most: int) -> tuple[float, str]:
    return next(((size, unit) for size, unit in _UNITS if most >= size), (1.0, "bytes"))


def _frame(axes: "Axes", frontier: Frontier, unit: str, most: float, theme: Theme) -> None:
    """The horizontal axis begins at 0, so that lengths on it are shares of the baseline's bytes."""
    axes.set_xlim(0, 1.15 * most)
    axes.set_ylim(*_range((frontier.baseline, *frontier.points)))
    axes.set_xlabel(f"weights in {unit}, scales included")
    axes.set_ylabel(frontier.what)
    axes.axhline(frontier.baseline.value, color=theme.baseline, linewidth=1, linestyle="--", alpha=0.6)
    frame(axes, theme, grid="both")


def _range(points: Sequence[Point]) -> tuple[float, float]:
    """All ends with a tenth to spare; at least two points high, so that equal values do not look far apart."""
    ends = [end for one in points for end in (one.value, one.low, one.high) if end is not None]
    spare = max(0.1 * (max(ends) - min(ends)), 1.0)
    return min(ends) - spare, max(ends) + spare


def _draw(axes: "Axes", points: Sequence[Point], scale: float, top: float, marker: str, colour: str) -> None:
    """Points with their whiskers; one without an upper end leaves the figure."""
    for one in points:
        errors = None
        if one.low is not None:
            high = top + 1 if one.high is None else one.high
            errors = [[one.value - one.low], [high - one.value]]
        axes.errorbar(
            [one.num_bytes / scale],
            [one.value],
            yerr=errors,
            marker=marker,
            color=colour,
            linestyle="none",
            capsize=3,
            markersize=7,
            elinewidth=1.5,
        )


def _label(axes: "Axes", points: Sequence[Point], scale: float) -> None:
    """Each name beside its point, at the first place where it covers no other name, no point and, if that can be had,
    neither a whisker nor the baseline's line; the baseline is the first point."""
    taken = [_around(axes, one.num_bytes / scale, one.value, one.value, 9) for one in points]
    top = axes.get_ylim()[1]
    whiskers = [
        _around(axes, one.num_bytes / scale, one.low, top if one.high is None else one.high, 3)
        for one in points
        if one.low is not None
    ]
    left, right = axes.get_xlim()
    whiskers.append(_line_box(axes, points[0].value, left, right))
    for one in points:
        notes = [_note(axes, one, scale, place) for place in _PLACES]
        boxes = [note.get_window_extent() for note in notes]
        inside = [n for n, box in enumerate(boxes) if axes.bbox.x0 < box.x0 and box.x1 < axes.figure.bbox.x1]
        free = [n for n in inside if boxes[n].count_overlaps(taken) == 0]
        clear = [n for n in free if boxes[n].count_overlaps(whiskers) == 0]
        chosen = next(iter([*clear, *free, *inside]), 0)
        for n, note in enumerate(notes):
            if n != chosen:
                note.remove()
        taken.append(boxes[chosen])


def _note(axes: "Axes", one: Point, scale: float, place: tuple[int, int]) -> "Annotation":
    right, up = place[0] > 0, place[1] > 0
    return axes.annotate(
        one.label,
        (one.num_bytes / scale, one.value),
        xytext=place,
        textcoords="offset points",
        ha="left" if right else "right",
        va="bottom" if up else "top",
        parse_math=False,
    )


def _line_box(axes: "Axes", y: float, left: float, right: float) -> "Bbox":
    """What the baseline's line takes of the figure."""
    from matplotlib.transforms import Bbox

    return Bbox(axes.transData.transform([(left, y), (right, y)])).padded(2)


def _around(axes: "Axes", x: float, low: float, high: float, pixels: int) -> "Bbox":
    """What a mark from ``low`` to ``high`` at ``x`` takes of the figure, with so many pixels around it."""
    from matplotlib.transforms import Bbox

    return Bbox(axes.transData.transform([(x, low), (x, high)])).padded(pixels)
