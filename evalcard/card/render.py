"""From views to files: the templates hold the prose, and a name that a view lacks stops the rendering."""

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from evalcard.card.environment import OWN, card_environment, make_environment, render
from evalcard.card.escape import escape_cell, join_words, on_one_line
from evalcard.card.evalresults import FOLDER as EVAL_RESULTS
from evalcard.card.evalresults import WRITTEN_BY, eval_results
from evalcard.card.figures import FOLDER as FIGURES
from evalcard.card.figures import Figure, Sketch, figures_of, frontier_figure, frontier_sketch, sketches_of
from evalcard.card.index import index_view
from evalcard.card.metadata import front_matter, index_front_matter
from evalcard.card.options import CardOptions, read_options
from evalcard.card.pngdata import data_digest
from evalcard.card.section import BEGIN, END, marked_lines, section_of
from evalcard.card.view import CardView, card_view
from evalcard.errors import UserError
from evalcard.results.compared import Comparison
from evalcard.results.files import safe_name
from evalcard.results.incomplete import is_incomplete
from evalcard.results.lock import cards_lock
from evalcard.results.records import RunRecord

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["escape_cell", "join_words", "make_environment", "on_one_line", "render_texts", "write_cards"]

CARD_TEMPLATE, INDEX_TEMPLATE = "card.md.j2", "index.md.j2"
README = "README.md"


class CardFolder(Protocol):
    """Where cards go: results.store.RunFolder, or anything that writes files below a folder."""

    @property
    def path(self) -> Path: ...

    def write_text(self, relative: str, text: str) -> Path: ...

    def write_bytes(self, relative: str, content: bytes) -> Path: ...


@dataclass(frozen=True, slots=True)
class _Card:
    """One compressed model's card before it is put anywhere."""

    view: CardView
    front_matter: str
    figures: tuple[Figure | Sketch, ...]
    """Sketches where only texts are asked for."""
    results: Mapping[str, str]
    """.eval_results by path below the card."""

    def text(self, environment: "Environment", template: str, folder: str) -> str:
        """``folder``: where the figures' folder lies, seen from the card; empty or ending in a slash."""
        names = {"card": self.view, "front": self.front_matter, "figures": self.figures, "folder": folder}
        text = render(environment, template, names)
        _check_markers(text, template)
        return text

    @property
    def files(self) -> dict[str, bytes]:
        """What lies beside the card, by path below its folder; of a card whose figures are drawn."""
        return _drawn(self.figures) | {path: text.encode("utf-8") for path, text in self.results.items()}


@dataclass(frozen=True, slots=True)
class _Pages:
    """All pages of a run before any file."""

    cards: Mapping[str, _Card]
    """By the folder of each below the run's, which ends in a slash."""
    texts: Mapping[str, str]
    """README.md files by path below the run's folder, the run's own first."""
    figures: tuple[Figure | Sketch, ...]
    """Of the run's own page."""


def write_cards(
    folder: CardFolder, run: RunRecord, comparison: Comparison, options: CardOptions | None = None
) -> list[Path]:
    """Write models/<slug>/README.md with its figures for each compressed model, and the run's README.md.

    The latter is that card where there is one compressed model, an index otherwise. ``options`` default to those that
    are stored with the run. Returns all paths, the run's README.md first; an index has a figure of its own where sizes
    are known. Figures and results of an earlier rendering that are not made any more are removed. Raises UserError
    where the run is incomplete and lacks models that were compared, and for a user's template that is wrong.
    """
    _check_models(run, comparison)
    with cards_lock(folder.path):
        return _written(folder, run, comparison, read_options(folder.path) if options is None else options)


def render_texts(
    folder: Path, run: RunRecord, comparison: Comparison, options: CardOptions | None = None
) -> dict[str, str]:
    """What ``write_cards`` would write that is text, by path below the run's ``folder``: its README.md, those of its
    models, and their .eval_results. Nothing is drawn or written. Raises what ``write_cards`` raises."""
    _check_models(run, comparison)
    pages = _pages(run, comparison, read_options(folder) if options is None else options, is_drawn=False)
    results = {f"{place}{path}": text for place, card in pages.cards.items() for path, text in card.results.items()}
    return {**pages.texts, **results}


def _written(folder: CardFolder, run: RunRecord, comparison: Comparison, options: CardOptions) -> list[Path]:
    # All pages before any file: a template that is wrong leaves what was there.
    pages = _pages(run, comparison, options, is_drawn=True)
    top, more = pages.texts[README], _drawn(pages.figures)
    written = []
    for place, card in pages.cards.items():
        written.append(folder.write_text(f"{place}{README}", pages.texts[f"{place}{README}"]))
        written += [folder.write_bytes(f"{place}{path}", content) for path, content in card.files.items()]
        _remove_others(folder.path / place, card.files)
    written += [folder.write_bytes(path, content) for path, content in more.items()]
    _remove_others(folder.path, more)
    return [folder.write_text(README, top), *written]


def _pages(run: RunRecord, comparison: Comparison, options: CardOptions, is_drawn: bool) -> _Pages:
    environment = card_environment(options.own_templates)
    template = f"{OWN}{options.template_name}" if options.own_templates else CARD_TEMPLATE
    cards = {f"models/{safe_name(m.slug)}/": _card(run, comparison, m.slug, options, is_drawn) for m in run.models[1:]}
    texts = {f"{place}{README}": card.text(environment, template, folder="") for place, card in cards.items()}
    if len(cards) == 1:
        ((place, card),) = cards.items()
        return _Pages(cards, {README: card.text(environment, template, folder=place), **texts}, ())
    sketch = (frontier_figure if is_drawn else frontier_sketch)(run, comparison) if run.models else None
    figures = (sketch,) if sketch else ()
    return _Pages(cards, {README: _index(environment, run, comparison, cards, options, figures), **texts}, figures)


def _index(
    environment: "Environment", run: RunRecord, comparison: Comparison, cards: Mapping[str, _Card],
    options: CardOptions, figures: tuple[Figure | Sketch, ...],
) -> str:  # fmt: skip
    view = index_view(run, comparison, options)
    links = {card.view.model.slug: f"{place}{README}" for place, card in cards.items()}
    names = {"index": view, "links": links, "front": index_front_matter(view), "figures": figures}
    return render(environment, INDEX_TEMPLATE, names)


def _drawn(figures: Iterable[Figure | Sketch]) -> dict[str, bytes]:
    """Their files, by path below the page that shows them."""
    drawn = (figure.drawn() if isinstance(figure, Sketch) else figure for figure in figures)
    return {path: content for figure in drawn for path, content in figure.files.items()}


def _remove_others(folder: Path, made: Iterable[str]) -> None:
    """Figures and results that an earlier rendering left: with them a score could be published that is none now. Files
    that evalcard did not write stay."""
    kept = {folder / path for path in made}
    for path in {*(folder / FIGURES).glob("*.png"), *(folder / EVAL_RESULTS).glob("*.yaml")} - kept:
        with contextlib.suppress(OSError):
            content = path.read_bytes()
            if data_digest(content) is not None or content.startswith(WRITTEN_BY.encode()):
                path.unlink()
    with contextlib.suppress(OSError):  # it is not there, or something lies in it
        (folder / EVAL_RESULTS).rmdir()


def _check_models(run: RunRecord, comparison: Comparison) -> None:
    compared = {score.model for row in comparison.tasks for score in row.compressed}
    missing = compared - {model.slug for model in run.models}
    if missing or (not run.models and (run.finished is not None or comparison.tasks)):
        lost = ", ".join(sorted(missing)) or "its models"
        raise UserError(is_incomplete(run, f": it has a comparison, but no record of {lost}"))


def _check_markers(text: str, template: str) -> None:
    """A card is published by its section; two of them, from words of a user's, would be cut at the wrong place."""
    begins, ends = marked_lines(text)
    if (begins or ends) and section_of(text) is None:
        raise UserError(
            f"the template {template.removeprefix(OWN)} makes a card with {BEGIN} {len(begins)} and {END} {len(ends)} "
            "times; the two bound the part that `evalcard publish` replaces. Keep one of each in this order, or none."
        )


def _card(run: RunRecord, comparison: Comparison, slug: str, options: CardOptions, is_drawn: bool) -> _Card:
    view = card_view(run, comparison, slug, options)
    is_whole = not (view.blockers or view.is_sequential or view.unfinished)
    return _Card(
        view=view,
        front_matter=front_matter(run, comparison, view),
        figures=tuple((figures_of if is_drawn else sketches_of)(run, comparison, slug)),
        results=eval_results(run, comparison, slug) if is_whole else {},
    )
