"""The page of a run with several compressed models, or none: all of them side by side, with links to the cards."""

from dataclasses import dataclass

from evalcard.card import numbers
from evalcard.card.findings import FindingGroup, clean, finding_groups
from evalcard.card.measures import MeasuresView, measures_view
from evalcard.card.options import CardOptions
from evalcard.card.reproduction import Reproduction, reproduction_of
from evalcard.card.settings import Settings, settings_of
from evalcard.card.stopped import Unfinished, unfinished_of
from evalcard.card.summary import Headline, flips_view, headline
from evalcard.card.tables import categories, is_percent, ordered_rows, row_title, row_view, score_of
from evalcard.card.terms import Terms, terms_of
from evalcard.card.verdicts import outcome_of
from evalcard.card.view import ModelView, base_model, model_view
from evalcard.compare.averages import AVERAGE
from evalcard.results.compared import ComparedRow, Comparison
from evalcard.results.records import RunRecord


@dataclass(frozen=True, slots=True)
class ModelLine:
    """One compressed model in the overview."""

    model: ModelView
    headlines: tuple[Headline, ...]
    """In the order of the view's categories."""
    lost: str
    gained: str
    gate: str | None
    """The gate's outcome, None where it was not asked."""


@dataclass(frozen=True, slots=True)
class ScoreLine:
    """One task or average with the scores of all models."""

    task: str
    """A task's name, or what is averaged."""
    detail: str
    items: str
    is_average: bool
    baseline: str
    compressed: tuple[str, ...]
    """In the order of the view's lines; a dash where a model has no score."""


@dataclass(frozen=True, slots=True)
class IndexView:
    """All the index says."""

    baseline: ModelView | None
    """None where the run ended before its baseline had answered."""
    base_model: str | None
    """Hub id of the model that was compressed; None where it is not known or nothing was compressed."""
    terms: Terms
    unfinished: Unfinished | None
    """None where the run came to its end."""
    lines: tuple[ModelLine, ...]
    categories: tuple[str, ...]
    scores: tuple[ScoreLine, ...]
    measures: MeasuresView
    confidence: str
    """Of the intervals, in percent."""
    groups: tuple[FindingGroup, ...]
    """Warnings and blockers; notes are on the cards."""
    notes: str | None
    """The user's own words, as Markdown."""
    settings: Settings
    reproduction: Reproduction

    @property
    def has_gate(self) -> bool:
        return any(line.gate is not None for line in self.lines)


def index_view(run: RunRecord, comparison: Comparison, options: CardOptions | None = None) -> IndexView:
    """All models of the run side by side; ``options``: what its user added."""
    options = options or CardOptions()
    slugs = [model.slug for model in run.models[1:]]
    titles = {model.slug: model_view(model).title for model in run.models}
    graver = [clean(finding) for finding in comparison.health if finding.severity != "note"]
    return IndexView(
        baseline=model_view(run.models[0]) if run.models else None,
        base_model=base_model(run, options) if slugs else None,
        terms=terms_of(run, options, base_model(run, options)) if slugs else Terms(),
        unfinished=unfinished_of(run),
        lines=tuple(_model_line(run, comparison, slug) for slug in slugs),
        categories=tuple(categories(comparison)),
        scores=tuple(_score_line(run, comparison, row, slugs) for row in ordered_rows(comparison)),
        measures=measures_view(run, comparison, [(None, "baseline"), *_titles(run)]),
        confidence=f"{100 * comparison.confidence:g}",
        groups=finding_groups(graver, [row.task for row in comparison.tasks]),
        notes=options.notes,
        settings=settings_of(run, run.models),
        reproduction=reproduction_of(run, run.models, titles),
    )


def _titles(run: RunRecord) -> list[tuple[str | None, str]]:
    return [(model.slug, model_view(model).title) for model in run.models[1:]]


def _model_line(run: RunRecord, comparison: Comparison, slug: str) -> ModelLine:
    model = next(model for model in run.models if model.slug == slug)
    flips = flips_view(run, comparison, slug)
    return ModelLine(
        model=model_view(model),
        headlines=tuple(headline(comparison, category, slug) for category in categories(comparison)),
        lost=numbers.count(flips.lost if flips else None),
        gained=numbers.count(flips.gained if flips else None),
        gate=outcome_of(comparison, slug),
    )


def _score_line(run: RunRecord, comparison: Comparison, row: ComparedRow, slugs: list[str]) -> ScoreLine:
    percent = is_percent(run, row)
    found = [score_of(row, slug) for slug in slugs]
    # Any slug will do: what a line takes from here is the same for all models.
    cells = row_view(run, row, slugs[0] if slugs else "")
    return ScoreLine(
        task=row_title(comparison, row),
        detail=cells.detail,
        items=cells.items,
        is_average=row.metric == AVERAGE,
        baseline=cells.baseline,
        compressed=tuple(numbers.DASH if s is None else numbers.score(s.score, s.stderr, percent) for s in found),
    )
