"""The figure of flips: what is counted together, and how it is drawn."""

import pytest

from evalcard.card.canvas import MOST_ROWS
from evalcard.card.flipbars import FlipBar, FlipChart, flip_chart, flips_png
from evalcard.card.pngdata import data_digest
from evalcard.card.theme import DARK
from evalcard.results.records import RowRecord

SLUG = "toy-1b-w8a8"


def test_tasks_of_a_category_are_added_up(make_case):
    chart = flip_chart(*make_case(), SLUG, "T")
    assert chart.by == "category"
    assert chart.bars == (FlipBar("knowledge", 12, 7), FlipBar("maths", 1, 2), FlipBar("riddles", 2, 1))


def test_one_category_is_shown_by_task(make_case):
    run, _ = make_case()
    chart = flip_chart(*make_case(tasks=run.tasks[:2], rows=run.rows[:2]), SLUG, "T")
    assert chart.by == "task" and chart.bars == (FlipBar("arc", 9, 4), FlipBar("facts", 3, 3))


def test_rows_that_share_a_task_are_not_added_up(make_case):
    run, _ = make_case()
    both = RowRecord(name="both", tasks=["arc", "facts"], rule="size")
    chart = flip_chart(*make_case(rows=[*run.rows, both]), SLUG, "T")
    assert chart.by == "task" and FlipBar("both", 12, 7) in chart.bars


def test_rows_that_count_none_are_left_out_and_no_flip_is_no_figure(make_case):
    run, comparison = make_case()
    scores = [row.compressed[0] for row in comparison.tasks]

    def with_flips(*counts):
        changed = [one.model_copy(update={"lost": n, "gained": n}) for one, n in zip(scores, counts, strict=True)]
        rows = [row.model_copy(update={"compressed": [s]}) for row, s in zip(comparison.tasks, changed, strict=True)]
        return flip_chart(run, comparison.model_copy(update={"tasks": rows}), SLUG, "T")

    assert with_flips(None, 1, None, 2).bars == (FlipBar("knowledge", 1, 1), FlipBar("riddles", 2, 2))
    assert with_flips(None, 0, None, 0) is None and with_flips(None, None, None, None) is None
    assert flip_chart(run, comparison, "someone else", "T") is None


def test_lost_stands_left_gained_right_and_both_are_counted(monkeypatch):
    from matplotlib.figure import Figure

    kept = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: kept.extend(figure.axes))
    flips_png(FlipChart("T", "task", (FlipBar("a", 1200, 3), FlipBar("b", 0, 7))))
    (axes,) = kept
    assert [patch.get_width() for patch in axes.patches] == [-1200, 0, 3, 7]
    assert [(text.get_text(), text.get_ha()) for text in axes.texts] == [
        ("1,200", "right"), ("3", "left"), ("0", "right"), ("7", "left"),
    ], "a count of none stands on its own side too"  # fmt: skip
    axes.figure.draw_without_rendering()
    assert not any("−" in label.get_text() or "." in label.get_text() for label in axes.get_xticklabels())


@pytest.mark.parametrize("count", [1, 60])
def test_many_bars_are_cut_to_those_with_most_flips(count):
    chart = FlipChart("T", "task", tuple(FlipBar(f"t{n}", n, 1) for n in range(count)))
    assert chart.shown() == list(chart.bars[-MOST_ROWS:])
    light, dark = flips_png(chart), flips_png(chart, DARK)
    assert light == flips_png(chart) != dark and data_digest(light) == data_digest(dark) is not None
