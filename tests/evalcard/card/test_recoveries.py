"""The figure of recoveries: which rows, which ends, which limits, and how it is drawn."""

from dataclasses import replace
from typing import Any

import pytest
from matplotlib.axes import Axes

from evalcard.card.canvas import MOST_ROWS
from evalcard.card.pngdata import data_digest
from evalcard.card.recoveries import RecoveryChart, RecoveryLine, recovery_chart, recovery_png
from evalcard.card.theme import DARK
from evalcard.gate.judge import judge, with_verdict
from evalcard.gate.spec import Bounds, GateSpec

SLUG = "toy-1b-w8a8"


def test_rows_and_averages_with_their_intervals(make_case):
    _, comparison = make_case()
    chart = recovery_chart(comparison, SLUG, "T")
    assert [line.label for line in chart.lines] == ["arc", "facts", "average of knowledge", "sums"]
    assert [line.is_average for line in chart.lines] == [False, False, True, False]
    stored = comparison.averages[0].compressed[0].recovery
    assert (chart.lines[2].value, chart.lines[2].low, chart.lines[2].high) == (stored.value, stored.low, stored.high)
    assert chart.confidence == "95" and all(line.limit is None for line in chart.lines)


def test_what_has_no_recovery_is_named_and_nothing_is_no_figure(make_case):
    _, comparison = make_case()
    assert recovery_chart(comparison, SLUG, "T").undefined == ("riddles", "overall average")
    run, _ = make_case()
    assert recovery_chart(make_case(tasks=[run.tasks[3]], rows=[run.rows[3]])[1], SLUG, "T") is None
    assert recovery_chart(comparison, "someone else", "T") is None


def test_limits_stand_on_their_own_rows(make_case):
    run, comparison = make_case(2)
    spec = GateSpec(
        every=Bounds(min_recovery=97.0), tasks={"arc": Bounds(min_recovery=90.0, max_drop=3.0)},
        averages={"knowledge": Bounds(min_recovery=99.0)}, overall=Bounds(min_recovery=98.0),
    )  # fmt: skip
    judged = with_verdict(comparison, judge(comparison, spec, run))
    assert [line.limit for line in recovery_chart(judged, SLUG, "T").lines] == [90.0, 97.0, 99.0, 97.0]


def test_of_the_overall_average_too(make_case):
    run, _ = make_case()
    run, comparison = make_case(tasks=run.tasks[:3], rows=run.rows[:3])
    spec = GateSpec(every=Bounds(), overall=Bounds(min_recovery=98.0))
    chart = recovery_chart(with_verdict(comparison, judge(comparison, spec, run)), SLUG, "T")
    assert [(line.label, line.limit) for line in chart.lines if line.limit] == [("overall average", 98.0)]


def line(label: str, value: float = 99.0, **facts: Any) -> RecoveryLine:
    return RecoveryLine(
        label, **{"is_average": False, "value": value, "low": 97.0, "high": 101.0, "limit": None, **facts}
    )


def drawn(monkeypatch: pytest.MonkeyPatch, *lines: RecoveryLine) -> Axes:
    from matplotlib.figure import Figure

    kept: list[Axes] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: kept.extend(figure.axes))
    recovery_png(RecoveryChart("T", "95", lines, ()))
    return kept[0]


def test_the_axis_holds_values_limits_and_100(monkeypatch):
    axes = drawn(monkeypatch, line("a", 96.0, low=95.0, high=97.0, limit=99.0))
    low, high = axes.get_xlim()
    assert low < 95.0 and 100 < high < 102
    assert "limit of the gate" in axes.get_legend_handles_labels()[1]


def test_an_interval_beyond_reason_leaves_the_figure_and_others_keep_their_width(monkeypatch):
    axes = drawn(
        monkeypatch, line("a"), line("b", low=0.0, high=4000.0), line("c", high=None), line("d", low=None, high=None)
    )
    low, high = axes.get_xlim()
    assert 85 < low < 97 and 101 < high < 115
    arrows = [mark.get_ydata()[0] for mark in axes.lines if mark.get_marker() == 5]
    assert arrows == [1, 2]
    spans = [one for one in axes.lines if one.get_linestyle() == "-" and len(one.get_xdata()) == 2]
    assert [one.get_ydata()[0] for one in spans] == [0, 1, 2], "a row without an interval has no whisker"


def test_an_average_has_another_shape(monkeypatch):
    axes = drawn(monkeypatch, line("a"), line("average", is_average=True))
    shapes = {
        one.get_label(): (one.get_marker(), list(one.get_ydata())) for one in axes.lines if one.get_label()[0] != "_"
    }
    assert shapes == {"task": ("s", [0]), "average": ("D", [1])}


def test_of_many_rows_the_averages_and_the_lowest_stay():
    lines = tuple(line(f"t{n}", 100.0 + n) for n in range(60))
    chart = RecoveryChart("T", "95", (*lines, line("average", 150.0, is_average=True)), ())
    assert [one.label for one in chart.shown()] == [*(f"t{n}" for n in range(MOST_ROWS - 1)), "average"]


def test_equal_data_give_equal_bytes():
    chart = RecoveryChart("T", "95", (line("a"),), ())
    png, dark = recovery_png(chart), recovery_png(chart, DARK)
    assert png == recovery_png(chart) != dark and data_digest(png) == data_digest(dark) is not None
    assert data_digest(png) != data_digest(recovery_png(replace(chart, undefined=("b",))))
