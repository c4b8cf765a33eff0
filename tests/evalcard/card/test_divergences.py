"""The figure of divergences: from the stored bins and quantiles alone."""

from typing import Any

import pytest

from evalcard.card.canvas import MOST_ROWS
from evalcard.card.divergences import DivergenceChart, DivergenceLine, divergence_chart, divergences_png
from evalcard.card.pngdata import data_digest
from evalcard.card.theme import DARK
from evalcard.compare.divergence import EDGES, NUM_BINS
from evalcard.results.compared import FidelityRecord

SLUG = "toy-1b-w8a8"
SIZES = {"kl_mean": 0.02, "kl_median": 0.01, "kl_p90": 0.05, "kl_p99": 0.2, "kl_max": 0.3}


def record(row: str, unit: str | None = "choices", **facts: Any) -> FidelityRecord:
    return FidelityRecord.model_validate(
        {"row": row, "model": SLUG, "unit": unit, "items": 10, **(SIZES if unit else {}), **facts}
    )


def chart_of(make_case: Any, *records: FidelityRecord) -> DivergenceChart | None:
    return divergence_chart(make_case()[1].model_copy(update={"fidelity": list(records)}), SLUG, "T")


def test_rows_over_choices_and_no_others(make_case):
    counts = [0] * (NUM_BINS - 1) + [10]
    chart = chart_of(
        make_case, record("wiki", "tokens"), record("arc", kl_bins=counts), record("sums", None),
        record("arc", model="someone else"),
    )  # fmt: skip
    assert chart.unit == "choices"
    assert chart.lines == (DivergenceLine("arc", 10, 0.02, 0.01, 0.05, 0.2, tuple(counts)),)


def test_tokens_where_there_are_no_choices_and_nothing_where_there_is_neither(make_case):
    assert chart_of(make_case, record("wiki", "tokens")).lines[0].bins is None
    assert chart_of(make_case) is None and chart_of(make_case, record("sums", None)) is None
    assert chart_of(make_case, record("arc", kl_p99=None)) is None


def line(label: str = "a", **facts: Any) -> DivergenceLine:
    return DivergenceLine(
        label, **{"items": 3, "mean": 0.02, "median": 0.01, "p90": 0.05, "p99": 0.2, "bins": None, **facts}
    )


def drawn(monkeypatch: pytest.MonkeyPatch, *lines: DivergenceLine) -> Any:
    from matplotlib.figure import Figure

    kept: list[Any] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: kept.extend(figure.axes))
    divergences_png(DivergenceChart("T", "choices", lines))
    return kept[0]


def test_bins_stand_where_their_divergences_are(monkeypatch):
    counts = [0] * NUM_BINS
    counts[0], counts[9], counts[-1] = 1, 4, 2
    axes = drawn(monkeypatch, line(bins=tuple(counts)))
    low, middle, high = axes.patches
    assert low.get_x() + low.get_width() == pytest.approx(EDGES[0]), (
        "what is smaller than all bins ends where they begin"
    )
    assert (middle.get_x(), middle.get_x() + middle.get_width()) == pytest.approx((EDGES[8], EDGES[9]))
    assert high.get_x() == pytest.approx(EDGES[-1])
    heights = [abs(one.get_height()) for one in (low, middle, high)]
    assert heights == pytest.approx([heights[1] / 4, heights[1], heights[1] / 2])
    assert axes.get_xlim()[0] <= low.get_x() and axes.get_xlim()[1] >= high.get_x() + high.get_width()


def test_marks_are_the_quantiles_and_nothing_is_off_the_axis(monkeypatch):
    axes = drawn(monkeypatch, line(median=0.0, p90=0.001), line(p99=20.0))
    marks = {one.get_label(): list(one.get_xdata()) for one in axes.lines}
    assert marks["median"][1] == 0.01 and marks["99 % of items are below"] == [0.2, 20.0]
    assert 0 < axes.get_xlim()[0] < marks["median"][0] < EDGES[0] and axes.get_xlim()[1] > 20


def test_all_equal_is_drawn_too():
    same = line(mean=0.0, median=0.0, p90=0.0, p99=0.0, bins=(3,) + (0,) * (NUM_BINS - 1))
    assert data_digest(divergences_png(DivergenceChart("T", "choices", (same,)))) is not None


@pytest.mark.parametrize("count", [1, 60])
def test_of_many_the_largest_means_stay_and_bytes_are_of_the_data(count):
    chart = DivergenceChart("T", "choices", tuple(line(f"t{n}", mean=0.01 * n) for n in range(count)))
    assert chart.shown() == list(chart.lines[-MOST_ROWS:])
    light, dark = divergences_png(chart), divergences_png(chart, DARK)
    assert light == divergences_png(chart) != dark and data_digest(light) == data_digest(dark) is not None
