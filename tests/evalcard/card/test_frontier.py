"""The figure of several compressed models: what it shows of a run, and how it is drawn."""

import struct
from dataclasses import replace
from typing import Any

import pytest
from matplotlib.axes import Axes

from evalcard.card.figures import frontier_figure
from evalcard.card.frontier import Frontier, Point, frontier_of, frontier_png
from evalcard.card.pngdata import data_digest
from evalcard.card.theme import DARK
from evalcard.results.compared import Comparison
from evalcard.results.records import RunRecord


def sums_only(make_case: Any) -> tuple[RunRecord, Comparison]:
    run, _ = make_case(2)
    return make_case(2, tasks=[run.tasks[2]], rows=[run.rows[2]])


def test_recoveries_with_their_intervals(make_case):
    run, comparison = sums_only(make_case)
    found = frontier_of(run, comparison)
    assert found.baseline == Point("baseline", 2_200_000_000, 100.0)
    assert [(one.label, one.num_bytes) for one in found.points] == [("w8a8", 1_300_000_000), ("w4a16", 900_000_000)]
    stored = [score.recovery for score in comparison.tasks[0].compressed]
    assert [(one.value, one.low, one.high) for one in found.points] == [(r.value, r.low, r.high) for r in stored]
    assert found.points[0].value == 105 and found.points[0].low < 100 < 105 < found.points[0].high
    assert found.what == "recovery in percent, 95 % interval" and found.title == "toy-1b: sums and bytes of weights"


def test_scores_where_a_recovery_is_undefined(make_case):
    """riddles is at chance, so the average of all rows has no recovery."""
    found = frontier_of(*make_case(2))
    assert found.what.startswith("score in percent") and "overall average" in found.title
    assert found.baseline.value == pytest.approx(49.75) and found.points[1].value == pytest.approx(47.79, abs=0.005)
    assert found.points[1].high - found.points[1].value == pytest.approx(2.83, abs=0.005)


def test_the_average_of_one_category_stands_for_the_run(make_case):
    run, _ = make_case(2)
    found = frontier_of(*make_case(2, tasks=run.tasks[:2], rows=run.rows[:2]))
    assert "average of knowledge" in found.title
    assert [one.value for one in found.points] == pytest.approx([98.00, 96.93], abs=0.005)


def test_models_without_bytes_are_left_out_and_one_point_is_no_figure(make_case):
    run, comparison = sums_only(make_case)
    for number in (0, 2):
        models = [
            one.model_copy(update={"weight_bytes": None} if at == number else {}) for at, one in enumerate(run.models)
        ]
        assert frontier_of(run.model_copy(update={"models": models}), comparison) is None
    assert frontier_of(*make_case(1)) is None


def test_no_figure_of_scores_on_another_scale(make_case):
    run, _ = make_case(2)
    tasks = [run.tasks[3].model_copy(update={"higher_is_better": False})]
    lower, comparison = make_case(2, tasks=tasks, rows=[run.rows[3]])
    scores = [one.model_copy(update={"recovery": None}) for one in comparison.tasks[0].compressed]
    rows = [comparison.tasks[0].model_copy(update={"compressed": scores})]
    assert frontier_of(lower, comparison.model_copy(update={"tasks": rows})) is None


def frontier(*points: Point) -> Frontier:
    return Frontier(Point("baseline", 500_000_000, 100.0), points, "recovery in percent", "toy $x$")


NEAR = (Point("w8a8", 260_000_000, 99.0, 97.0, 101.0), Point("w4a16", 140_000_000, 98.0, 96.0),
        Point("nf4", 141_000_000, 98.1, 95.5, 100.2), Point("mxfp4", 139_000_000, 97.9))  # fmt: skip


def test_the_figure_is_a_png_and_equal_numbers_give_equal_bytes():
    png = frontier_png(frontier(*NEAR))
    assert png.startswith(b"\x89PNG\r\n\x1a\n") and struct.unpack(">II", png[16:24]) == (1200, 675)
    assert png == frontier_png(frontier(*NEAR)) != frontier_png(frontier(*NEAR[:3], replace(NEAR[3], value=97.0)))


def drawn(monkeypatch: pytest.MonkeyPatch, *points: Point) -> Axes:
    """The axes as they were when the file was written."""
    from matplotlib.figure import Figure

    kept: list[Axes] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: kept.extend(figure.axes))
    frontier_png(frontier(*points))
    return kept[0]


def test_every_name_is_read_once_and_none_covers_another(monkeypatch):
    axes = drawn(monkeypatch, *NEAR)
    assert sorted(note.get_text() for note in axes.texts) == ["baseline", "mxfp4", "nf4", "w4a16", "w8a8"]
    boxes = [note.get_window_extent() for note in axes.texts]
    assert not any(one.overlaps(other) for n, one in enumerate(boxes) for other in boxes[:n])
    assert all(axes.bbox.x0 < box.x0 and box.x1 < axes.figure.bbox.x1 for box in boxes)


def test_a_name_stays_off_the_whisker_of_another_model(monkeypatch):
    beside = (Point("w4a16", 190_000_000, 97.0, 89.0, 103.0), Point("nf4", 200_000_000, 100.0, 94.0, 106.0))
    axes = drawn(monkeypatch, *beside)
    boxes = {note.get_text(): note.get_window_extent() for note in axes.texts}
    for point in beside:
        ends = axes.transData.transform([(point.num_bytes / 1e6, end) for end in (point.low, point.high)])
        for name, box in boxes.items():
            crossed = box.x0 <= ends[0, 0] <= box.x1 and box.y0 <= ends[1, 1] and ends[0, 1] <= box.y1
            assert not crossed, (name, point)


def test_a_name_stays_off_the_line_of_the_baseline(monkeypatch):
    axes = drawn(monkeypatch, Point("w8a8", 260_000_000, 99.8))
    box = next(note for note in axes.texts if note.get_text() == "w8a8").get_window_extent()
    line = axes.transData.transform([(0, 100.0)])[0, 1]
    assert not box.y0 <= line <= box.y1


def test_light_and_dark_draw_the_same_and_words_tell_it(make_case):
    figure = frontier_figure(*sums_only(make_case))
    assert data_digest(figure.light) == data_digest(figure.dark) is not None and figure.light != figure.dark
    assert sorted(figure.files) == ["figures/frontier-dark.png", "figures/frontier.png"]
    assert "the baseline is 100.00 at 2,200.0 MB" in figure.alt and "w4a16 100.00 (" in figure.alt
    assert frontier_png(frontier(*NEAR), DARK) != frontier_png(frontier(*NEAR))
    assert frontier_figure(*make_case(1)) is None


def test_axes_begin_at_no_bytes_and_hold_every_end(monkeypatch):
    axes = drawn(monkeypatch, *NEAR)
    assert axes.get_xlim()[0] == 0 and axes.get_xlim()[1] > 500 and "MB" in axes.get_xlabel()
    low, high = axes.get_ylim()
    assert low < 95.5 and high > 101


def test_an_interval_without_an_upper_end_leaves_the_figure(monkeypatch):
    axes = drawn(monkeypatch, *NEAR)
    tops = [path.get_segments() for path in axes.collections]
    ends = sorted(float(segment[:, 1].max()) for segments in tops for segment in segments)
    assert ends[:2] == pytest.approx([100.2, 101.0]) and ends[2] > axes.get_ylim()[1]
