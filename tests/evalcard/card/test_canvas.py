"""What all figures share."""

import struct

import matplotlib
import pytest

from evalcard.card.canvas import MOST_ROWS, canvas, cut, fit, name_rows, png_of, rows_height, worst
from evalcard.card.pngdata import data_digest
from evalcard.card.theme import DARK, LIGHT

DIGEST = "0" * 64


def drawn(title: str = "A", label: str = "row", theme=LIGHT) -> bytes:
    with canvas(theme, 2.0, title) as figure:
        name_rows(figure.add_subplot(), theme, [label])
        return png_of(figure, DIGEST)


def pixel(png: bytes) -> tuple[int, ...]:
    """The first pixel of an unfiltered or sub-filtered first line: the ground."""
    image = pytest.importorskip("PIL.Image")
    import io

    return image.open(io.BytesIO(png)).getpixel((0, 0))


def test_the_ground_is_opaque_and_the_themes_own():
    assert pixel(drawn())[:4] == (255, 255, 255, 255)
    assert pixel(drawn(theme=DARK))[:4] == (0x0D, 0x11, 0x17, 255)


def test_bytes_carry_the_digest_and_no_version_of_the_software():
    png = drawn()
    assert data_digest(png) == DIGEST and b"matplotlib" not in png.lower()
    assert struct.unpack(">II", png[16:24]) == (1200, 300)


def test_settings_of_the_user_change_nothing_and_come_back():
    plain = drawn()
    with matplotlib.rc_context({"font.size": 30, "figure.dpi": 50, "axes.grid": True, "savefig.dpi": 30,
                                "savefig.bbox": "tight"}):  # fmt: skip
        assert drawn() == plain
        assert matplotlib.rcParams["font.size"] == 30


@pytest.mark.parametrize(
    "name", ["$x$", "$\\frac{", "a$b", "常识", "x\x00\x1b[31my\u202e", "<b>&amp;", "a" * 4000, "\ud800", ""]
)
def test_any_name_can_be_drawn(name: str, recwarn):
    assert data_digest(drawn(name, name)) == DIGEST
    assert not recwarn.list


def test_a_formula_stays_text(monkeypatch):
    with canvas(LIGHT, 2.0, "$x$") as figure:
        axes = figure.add_subplot()
        name_rows(axes, LIGHT, ["$x$"])
        figure.draw_without_rendering()
        assert not figure._suptitle.get_parse_math() and not axes.get_yticklabels()[0].get_parse_math()


def test_labels_keep_both_ends_on_two_lines():
    assert fit("  mmlu\n astronomy ") == "mmlu astronomy"
    assert fit("mmlu_high_school_government_and_politics") == "mmlu_high_school_\ngovernment_and_politics"
    long = fit("leaderboard_bbh_tracking_shuffled_objects_seven_objects_with_more_words")
    assert long.startswith("leaderboard_bbh") and long.endswith("_more_words") and "…" in long
    assert all(len(line) <= 26 for line in long.split("\n")) and len(long.split("\n")) == 2
    assert all(len(line) <= 26 for line in fit("x" * 90).split("\n"))


def test_cutting_keeps_as_many_as_it_may():
    assert cut("abcdef", 6) == "abcdef" and cut("abcdefg", 6) == "abc…fg" and cut("abcdefg", 5) == "ab…fg"


def test_of_many_rows_the_worst_stay_in_their_order():
    rows = list(range(100, 0, -1))
    assert worst(rows, float) == list(range(MOST_ROWS, 0, -1))
    assert worst([3, 1, 2], float) == [3, 1, 2] and worst([3, 1, 2], float, 2) == [1, 2]
    assert rows_height(1) < rows_height(2)
