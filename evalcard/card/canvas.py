"""What all figures share: size, frame, labels that fit, and bytes that depend on the data alone."""

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from evalcard.card import escape
from evalcard.card.pngdata import KEYWORD
from evalcard.card.theme import Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

T = TypeVar("T")

MOST_ROWS = 24
"""More than these are a list nobody reads in a figure; the tables have them all."""
WIDTH_INCHES, DPI = 8.0, 150
"""1200 pixels. Shown at a width of 700, a point of a letter's size is 1.2 pixels."""
ROW_INCHES, FRAME_INCHES = 0.42, 1.5
_TEXT, _SMALL, _TITLE = 10.5, 10, 12
_MOST_LABEL, _MOST_TITLE = 26, 78
_BREAKS = "_-/ .:"


@contextlib.contextmanager
def canvas(theme: Theme, height: float, title: str) -> "Iterator[Figure]":
    """A figure of that height in inches with matplotlib's own settings, whatever the user's are; these come back."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(), warnings.catch_warnings():
        # A name in letters that the font lacks is drawn in boxes; the table beside the figure has it.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font", category=UserWarning)
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({"font.size": _TEXT, "text.color": theme.text, "axes.labelcolor": theme.text})
        figure = Figure(figsize=(WIDTH_INCHES, height), dpi=DPI, facecolor=theme.ground, layout="constrained")
        FigureCanvasAgg(figure)
        figure.suptitle(_title(title), x=0.012, ha="left", fontsize=_TITLE, parse_math=False)
        yield figure


def rows_height(num_rows: int) -> float:
    """Inches of a figure with so many rows."""
    return FRAME_INCHES + ROW_INCHES * num_rows


def png_of(figure: "Figure", digest: str) -> bytes:
    """The finished figure, with the digest of its data; without the software's version in it."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, facecolor="auto", metadata={"Software": None, KEYWORD: digest})
    return buffer.getvalue()


def frame(axes: "Axes", theme: Theme, grid: str = "x") -> None:
    """Nothing but a grid and, where it is measured along, an axis."""
    axes.set_facecolor(theme.ground)
    axes.grid(axis=grid, color=theme.grid, linewidth=0.8)  # type: ignore[arg-type]
    axes.set_axisbelow(True)
    for side in ("top", "right", *(("left",) if grid == "x" else ())):
        axes.spines[side].set_visible(False)
    for spine in axes.spines.values():
        spine.set_color(theme.muted)
    axes.tick_params(colors=theme.text, labelsize=_SMALL, color=theme.muted)


def name_rows(axes: "Axes", theme: Theme, labels: Sequence[str], bold: Sequence[bool] = ()) -> None:
    """Rows from top to bottom, each with its name."""
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set_yticks(range(len(labels)), [fit(label) for label in labels], parse_math=False, color=theme.text)
    axes.tick_params(axis="y", length=0, pad=8)  # an arrow may stand at the edge
    for label, is_bold in zip(axes.get_yticklabels(), bold, strict=False):
        label.set_fontweight("bold" if is_bold else "normal")


def tell_rows(axes: "Axes", theme: Theme, title: str, texts: Sequence[str]) -> None:
    """A figure in digits for each row, at the right, under what it is."""
    right = axes.secondary_yaxis("right")
    right.set_yticks(range(len(texts)), texts, parse_math=False, color=theme.text)
    right.tick_params(axis="y", length=0, pad=8, labelsize=_SMALL)
    right.spines["right"].set_visible(False)
    right.set_ylabel(title, color=theme.muted)


def legend(figure: "Figure", axes: "Axes", columns: int) -> None:
    """Below the axes, where it covers nothing."""
    figure.legend(
        *axes.get_legend_handles_labels(), loc="outside lower center", ncols=columns, frameon=False, fontsize=_SMALL
    )


def fit(label: str) -> str:
    """A label of at most two lines, cut in the middle where it is longer: names differ at their ends."""
    text = _clean(label)
    if len(text) <= _MOST_LABEL:
        return text
    text = cut(text, 2 * _MOST_LABEL - 2)
    middle = len(text) / 2
    breaks = [n + 1 for n, one in enumerate(text) if one in _BREAKS and max(n + 1, len(text) - n - 1) <= _MOST_LABEL]
    at = min(breaks, key=lambda n: abs(n - middle), default=round(middle))
    return f"{text[:at].rstrip()}\n{text[at:].lstrip()}"


def cut(text: str, most: int) -> str:
    """At most so many characters, of which the middle ones go first."""
    if len(text) <= most:
        return text
    head = most // 2
    return f"{text[:head]}…{text[len(text) - (most - 1 - head) :]}"


def worst(rows: Sequence[T], value: Callable[[T], float], most: int = MOST_ROWS) -> list[T]:
    """In their order, the ``most`` rows of least value."""
    kept = sorted(range(len(rows)), key=lambda n: value(rows[n]))[:most]
    return [rows[n] for n in sorted(kept)]


def _title(text: str) -> str:
    """Each line cut to the figure's width."""
    return "\n".join(cut(_clean(line), _MOST_TITLE) for line in text.split("\n"))


def _clean(text: str) -> str:
    """On one line, nothing in it that cannot be drawn."""
    return " ".join(escape.plain(text).split())
