"""The figures of a card, each for light and for dark pages, with the words that stand for it where it is not seen.

What they draw comes from comparison.json alone. A run that stopped early has none: its scores are those of the items
that were used, and must not be shown as a task's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from evalcard.card.charts import Bar, chart_bars, scores_png, shown_bars
from evalcard.card.divergences import divergence_chart, divergences_png
from evalcard.card.environment import card_environment
from evalcard.card.flipbars import flip_chart, flips_png
from evalcard.card.frontier import frontier_of, frontier_png
from evalcard.card.recoveries import recovery_chart, recovery_png
from evalcard.card.theme import DARK, LIGHT, Theme
from evalcard.results.compared import Comparison
from evalcard.results.records import RunRecord

if TYPE_CHECKING:
    from jinja2 import Environment

T = TypeVar("T")

FOLDER = "figures"
"""Beside the card that shows them."""
_ALT_TEMPLATE = "alt.txt.j2"


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure as PNG; both variants hold the digest of their data (card/pngdata.py)."""

    name: str
    alt: str
    """On one line, without mark-up; whoever writes it somewhere escapes it as it must be there."""
    light: bytes
    dark: bytes

    @property
    def files(self) -> dict[str, bytes]:
        """By path, relative to the card."""
        return {f"{FOLDER}/{self.name}.png": self.light, f"{FOLDER}/{self.name}-dark.png": self.dark}


@dataclass(frozen=True, slots=True)
class Sketch:
    """A figure before it is drawn: what a page says of it."""

    name: str
    alt: str
    """As a figure's."""
    draw: Callable[[Theme], bytes]

    def drawn(self) -> Figure:
        return Figure(self.name, self.alt, self.draw(LIGHT), self.draw(DARK))


def figures_of(run: RunRecord, comparison: Comparison, slug: str) -> list[Figure]:
    """One compressed model's: recovery, scores, flips, kl, in this order; what nothing is known for is left out."""
    return [sketch.drawn() for sketch in sketches_of(run, comparison, slug)]


def sketches_of(run: RunRecord, comparison: Comparison, slug: str) -> list[Sketch]:
    """Those of ``figures_of``, not drawn."""
    from evalcard.card.view import model_view

    if run.sequential:
        return []
    model = next(model for model in run.models if model.slug == slug)
    title = model_view(model).title
    environment = _environment()
    bars = chart_bars(run, comparison, slug) or None
    scores = f"Scores of {title} and its baseline"

    def draw_scores(given: list[Bar], theme: Theme) -> bytes:
        return scores_png(given, scores, theme)

    found = [
        _sketch(environment, "recovery", recovery_chart(comparison, slug, f"Recovery of {title}"), recovery_png, title),
        _sketch(environment, "scores", bars, draw_scores, title),
        _sketch(environment, "flips", flip_chart(run, comparison, slug, f"Flips of {title}"), flips_png, title),
        _sketch(
            environment, "kl", divergence_chart(comparison, slug, f"Divergence of {title} from its baseline"),
            divergences_png, title,
        ),
    ]  # fmt: skip
    return [sketch for sketch in found if sketch is not None]


def frontier_figure(run: RunRecord, comparison: Comparison) -> Figure | None:
    """Of a run with several compressed models: recovery, or score, against the bytes of the weights."""
    sketch = frontier_sketch(run, comparison)
    return sketch.drawn() if sketch is not None else None


def frontier_sketch(run: RunRecord, comparison: Comparison) -> Sketch | None:
    """That of ``frontier_figure``, not drawn."""
    if run.sequential:
        return None
    frontier = frontier_of(run, comparison)
    return _sketch(_environment(), "frontier", frontier, frontier_png, run.models[0].name.rpartition("/")[2])


def _sketch(
    environment: "Environment", name: str, chart: T | None, draw: Callable[[T, Theme], bytes], title: str
) -> Sketch | None:
    if chart is None:
        return None
    template = environment.get_template(_ALT_TEMPLATE)
    text = getattr(template.module, name)(chart, title)

    def draw_chart(theme: Theme) -> bytes:
        return draw(chart, theme)

    return Sketch(name, " ".join(text.split()), draw_chart)


def _environment() -> "Environment":
    from evalcard.card import numbers

    environment = card_environment()
    environment.globals |= {"numbers": numbers, "shown_bars": shown_bars}
    return environment
