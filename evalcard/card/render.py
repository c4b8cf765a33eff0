"""From views to files: the templates hold the prose, and a name that a view lacks stops the rendering."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from evalcard.card.charts import chart_bars, scores_png
from evalcard.card.frontier import frontier_of, frontier_png
from evalcard.card.index import index_view
from evalcard.card.metadata import front_matter, index_front_matter
from evalcard.card.view import CardView, card_view
from evalcard.errors import UserError
from evalcard.resources import card_templates
from evalcard.results.compared import Comparison
from evalcard.results.files import safe_name
from evalcard.results.records import RunRecord

if TYPE_CHECKING:
    from jinja2 import Environment

CARD_TEMPLATE, INDEX_TEMPLATE = "card.md.j2", "index.md.j2"
FIGURE = "figures/scores.png"
"""Relative to the card that shows it."""
FRONTIER = "figures/frontier.png"
"""Relative to the index of several compressed models."""


class CardFolder(Protocol):
    """Where cards go: results.store.RunFolder, or anything that writes files below a folder."""

    def write_text(self, relative: str, text: str) -> Path: ...

    def write_bytes(self, relative: str, content: bytes) -> Path: ...


@dataclass(frozen=True, slots=True)
class _Card:
    """One compressed model's card before it is put anywhere."""

    view: CardView
    front_matter: str
    figure: bytes | None

    def text(self, environment: "Environment", folder: str) -> str:
        """``folder``: where the figure's folder lies, seen from the card; empty or ending in a slash."""
        figure = f"{folder}{FIGURE}" if self.figure else None
        return _render(environment, CARD_TEMPLATE, {"card": self.view, "front": self.front_matter, "figure": figure})


def write_cards(folder: CardFolder, run: RunRecord, comparison: Comparison) -> list[Path]:
    """Write models/<slug>/README.md with its figure for each compressed model, and the run's README.md.

    The latter is that card where there is one compressed model, an index otherwise. Returns all paths, the run's
    README.md first; an index has a figure of its own where sizes are known. Raises UserError where the run is
    incomplete and lacks models that were compared.
    """
    _check_models(run, comparison)
    environment = make_environment(card_templates())
    cards = {f"models/{safe_name(m.slug)}/": _card(run, comparison, m.slug) for m in run.models[1:]}
    written = []
    for place, card in cards.items():
        written.append(folder.write_text(f"{place}README.md", card.text(environment, folder="")))
        if card.figure:
            written.append(folder.write_bytes(f"{place}{FIGURE}", card.figure))
    if len(cards) == 1:
        ((place, card),) = cards.items()
        top = card.text(environment, folder=place)
    else:
        frontier = frontier_of(run, comparison)
        if frontier is not None:
            written.append(folder.write_bytes(FRONTIER, frontier_png(frontier)))
        links = {card.view.model.slug: f"{place}README.md" for place, card in cards.items()}
        top = _index(environment, run, comparison, links, FRONTIER if frontier else None)
    return [folder.write_text("README.md", top), *written]


def _index(
    environment: "Environment", run: RunRecord, comparison: Comparison, links: Mapping[str, str], figure: str | None
) -> str:
    view = index_view(run, comparison)
    names = {"index": view, "links": links, "front": index_front_matter(view), "figure": figure}
    return _render(environment, INDEX_TEMPLATE, names)


def _check_models(run: RunRecord, comparison: Comparison) -> None:
    compared = {score.model for row in comparison.tasks for score in row.compressed}
    missing = compared - {model.slug for model in run.models}
    if missing or not run.models:
        raise UserError(
            f"the run {run.name} is incomplete: it has a comparison, but no record of "
            f"{', '.join(sorted(missing)) or 'its models'}. Give its `evalcard run` command again."
        )


def make_environment(templates: Path) -> "Environment":
    """Jinja over a folder of templates: strict about names, no HTML escapes, as the output is Markdown."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(templates),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters["cell"] = escape_cell
    environment.filters["whole"] = on_one_line
    environment.filters["sentences"] = join_words
    return environment


def escape_cell(text: str) -> str:
    """Text that stays inside one cell of a Markdown table and starts no mark-up."""
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def on_one_line(text: str) -> str:
    """Figures that belong together, such as a recovery and its interval: no line of a narrow table may end in them."""
    return text.replace(" ", "\u00a0")


def join_words(words: list[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def _card(run: RunRecord, comparison: Comparison, slug: str) -> _Card:
    view = card_view(run, comparison, slug)
    # Bars of scores read as those of full sets.
    bars = [] if view.is_sequential else chart_bars(run, comparison, slug)
    figure = scores_png(bars, f"{view.model.title} and its baseline") if bars else None
    return _Card(view, front_matter(run, comparison, view), figure)


def _render(environment: "Environment", template: str, names: Mapping[str, object]) -> str:
    text = environment.get_template(template).render(names)
    # Blocks that are left out leave their blank lines behind.
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text.strip("\n") + "\n"
