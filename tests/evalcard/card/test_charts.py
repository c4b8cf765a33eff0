"""The figure of scores."""

import struct
import sys
from dataclasses import replace

import pytest

from evalcard.card.canvas import MOST_ROWS
from evalcard.card.charts import Bar, chart_bars, scores_png, shown_bars
from evalcard.card.pngdata import data_digest
from evalcard.card.theme import DARK


def size_of(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


def bars(count: int) -> list[Bar]:
    return [Bar(f"task_{i} $x$", 80.0, 2.0, 79.0, 2.0, "98.75 %") for i in range(count)]


def test_bars_are_in_percent(make_case):
    run, comparison = make_case()
    first = chart_bars(run, comparison, "toy-1b-w8a8")[0]
    assert (first.label, first.baseline, first.compressed, first.recovery) == ("arc", 75.0, 72.5, "96.67 %")
    assert first.baseline_error == pytest.approx(3.07, abs=0.005)


def test_rows_of_another_scale_and_rows_without_a_score_are_left_out(make_case):
    run, comparison = make_case()
    tasks = [run.tasks[0].model_copy(update={"higher_is_better": False}), *run.tasks[1:]]
    other = run.model_copy(update={"tasks": tasks})
    assert [bar.label for bar in chart_bars(other, comparison, "toy-1b-w8a8")] == ["facts", "sums", "riddles"]
    assert chart_bars(run, comparison, "someone else") == []


def test_the_figure_is_a_png_that_grows_with_its_rows():
    (width, one), (same_width, many) = size_of(scores_png(bars(1), "A")), size_of(scores_png(bars(12), "A"))
    assert width == same_width == 1200
    assert 200 < one < many


def test_equal_numbers_give_equal_bytes_and_others_do_not():
    assert scores_png(bars(2), "A") == scores_png(bars(2), "A") != scores_png(bars(2), "B")


def test_drawing_brings_no_global_state_along():
    before = "matplotlib.pyplot" in sys.modules
    scores_png(bars(1), "A")
    assert ("matplotlib.pyplot" in sys.modules) == before


def test_of_many_rows_those_that_lost_most_are_drawn():
    many = [replace(bar, compressed=80 - n / 10) for n, bar in enumerate(bars(60))]
    assert [bar.label for bar in shown_bars(many)] == [bar.label for bar in many[-MOST_ROWS:]]
    assert size_of(scores_png(many, "A"))[1] < 1.1 * size_of(scores_png(many[:MOST_ROWS], "A"))[1]
    assert data_digest(scores_png(many, "A")) != data_digest(scores_png(many[-MOST_ROWS:], "A"))


def test_both_themes_draw_the_same_data():
    light, dark = scores_png(bars(2), "A"), scores_png(bars(2), "A", DARK)
    assert light != dark and data_digest(light) == data_digest(dark) is not None
