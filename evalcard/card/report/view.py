"""What the report says beside its browser: the views of the cards, for every compressed model of the run."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass

from evalcard.card.contrasts import ContrastsView, contrasts_view
from evalcard.card.figures import Figure, figures_of, frontier_figure
from evalcard.card.findings import FindingGroup, clean, finding_groups
from evalcard.card.index import IndexView, index_view
from evalcard.card.settings import RowSettings, row_settings
from evalcard.card.stopped import StoppedLine, is_sequential, stopped_lines
from evalcard.card.summary import (
    ErrorsView,
    FlipsView,
    Headline,
    flips_view,
    has_untested,
    headlines_of,
    telling_errors,
)
from evalcard.card.tables import TableView, categories, overall_view, table_view
from evalcard.card.verdicts import GateView, gate_view
from evalcard.card.view import ModelView, model_view
from evalcard.results.compared import Comparison, Finding
from evalcard.results.records import ModelRecord, RunRecord


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure inside the page."""

    name: str
    alt: str
    light: str
    """A data URI."""
    dark: str


@dataclass(frozen=True, slots=True)
class ModelPart:
    """One compressed model beside its baseline."""

    model: ModelView
    gate: GateView | None
    headlines: tuple[Headline, ...]
    errors: tuple[ErrorsView, ...]
    flips: FlipsView | None
    tables: tuple[TableView, ...]
    overall: TableView | None
    contrasts: ContrastsView
    stopped: tuple[StoppedLine, ...]
    has_untested: bool
    groups: tuple[FindingGroup, ...]
    """The findings that concern it."""
    blockers: tuple[Finding, ...]
    """Those that concern it alone."""
    pictures: tuple[Picture, ...]


@dataclass(frozen=True, slots=True)
class ReportView:
    """All of the page but its answers."""

    index: IndexView
    """All models side by side, and the settings of the run."""
    parts: tuple[ModelPart, ...]
    frontier: Picture | None
    blockers: tuple[Finding, ...]
    """Those that concern all models."""
    row_settings: tuple[RowSettings, ...]
    is_sequential: bool
    is_complete: bool


def report_view(run: RunRecord, comparison: Comparison) -> ReportView:
    """Every number formatted; pictures are drawn here."""
    index = index_view(run, comparison)
    frontier = frontier_figure(run, comparison) if len(run.models) > 2 else None
    return ReportView(
        index=index,
        parts=tuple(_part(run, comparison, model) for model in run.models[1:]),
        frontier=picture(frontier) if frontier else None,
        blockers=_blockers(comparison, None),
        row_settings=tuple(row_settings(run, row) for row in comparison.tasks),
        is_sequential=is_sequential(run, comparison),
        is_complete=run.finished is not None,
    )


def _blockers(comparison: Comparison, slug: str | None) -> tuple[Finding, ...]:
    return tuple(clean(one) for one in comparison.health if one.severity == "blocker" and one.model == slug)


def picture(figure: Figure) -> Picture:
    return Picture(figure.name, figure.alt, _uri(figure.light), _uri(figure.dark))


def _uri(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}"


def _part(run: RunRecord, comparison: Comparison, model: ModelRecord) -> ModelPart:
    slug = model.slug
    findings = tuple(clean(one) for one in comparison.health if one.model in (None, slug))
    return ModelPart(
        model=model_view(model),
        gate=gate_view(comparison, slug),
        headlines=headlines_of(comparison, slug),
        errors=telling_errors(comparison, slug),
        flips=flips_view(run, comparison, slug),
        tables=tuple(table_view(run, comparison, category, slug) for category in categories(comparison)),
        overall=overall_view(run, comparison, slug),
        contrasts=contrasts_view(run, comparison, slug),
        stopped=stopped_lines(comparison, slug),
        has_untested=has_untested(comparison, slug),
        groups=finding_groups(findings, [row.task for row in comparison.tasks]),
        blockers=_blockers(comparison, slug),
        pictures=_pictures(figures_of(run, comparison, slug)),
    )


def _pictures(figures: Sequence[Figure]) -> tuple[Picture, ...]:
    return tuple(map(picture, figures))
