"""What both printed tables hold: every row and average of a comparison by compressed model, numbers formatted."""

from dataclasses import dataclass

from evalcard.card.findings import clean, finding_groups
from evalcard.card.limits import LimitView
from evalcard.card.paths import without_paths
from evalcard.card.tables import ordered_rows, row_title, row_view
from evalcard.card.verdicts import gate_view, outcome_of
from evalcard.card.view import model_view
from evalcard.compare.averages import AVERAGE
from evalcard.results.compared import ComparedRow, Comparison
from evalcard.results.records import RunRecord


@dataclass(frozen=True, slots=True)
class FormatLine:
    """One row or average of one compressed model."""

    title: str
    is_average: bool
    items: str
    baseline: str
    compressed: str
    recovery: str
    """Without the sign for percent, which stands in the head; a dash where there is none."""
    interval: str
    lost: str
    gained: str


@dataclass(frozen=True, slots=True)
class FormatPart:
    """One compressed model."""

    title: str
    outcome: str | None
    """The gate's, None where it was not asked."""
    limits: tuple[LimitView, ...]
    """Those that it does not meet for sure: what was asked of which row, and what was measured."""
    lines: tuple[FormatLine, ...]


@dataclass(frozen=True, slots=True)
class FormatView:
    """All a short table says."""

    run: str
    baseline: str
    confidence: str
    """Of the intervals, in percent."""
    parts: tuple[FormatPart, ...]
    scores: tuple[FormatLine, ...]
    """The baseline alone, where there is no compressed model."""
    warnings: tuple[str, ...]
    """Blockers and warnings, each once: a table is passed on without the page it is from."""
    is_finished: bool
    is_sequential: bool


def format_view(run: RunRecord, comparison: Comparison) -> FormatView:
    slugs = [model.slug for model in run.models[1:]]
    rows = ordered_rows(comparison)
    graver = [clean(one) for one in comparison.health if one.severity != "note"]
    return FormatView(
        run=run.name,
        baseline=model_view(run.models[0]).title if run.models else "none",
        confidence=f"{100 * comparison.confidence:g}",
        parts=tuple(
            FormatPart(
                title=model_view(model).title,
                outcome=outcome_of(comparison, model.slug),
                limits=_unmet(comparison, model.slug),
                lines=tuple(_line(run, comparison, row, model.slug) for row in rows),
            )
            for model in run.models[1:]
        ),
        scores=() if slugs else tuple(_line(run, comparison, row, "") for row in rows),
        warnings=tuple(
            f"{group.severity}, {'all rows' if line.everywhere else ', '.join(line.places)}: {line.finding}"
            for group in finding_groups(graver, [row.task for row in comparison.tasks])
            for line in group.lines
        ),
        is_finished=run.finished is not None,
        is_sequential=any(one.sequential for row in comparison.tasks for one in row.compressed),
    )


def _unmet(comparison: Comparison, slug: str) -> tuple[LimitView, ...]:
    view = gate_view(comparison, slug)
    return tuple(one.limit for one in view.limits if one.outcome != "PASS") if view is not None else ()


def _line(run: RunRecord, comparison: Comparison, row: ComparedRow, slug: str) -> FormatLine:
    cells = row_view(run, row, slug)
    return FormatLine(
        title=without_paths(row_title(comparison, row)),
        is_average=row.metric == AVERAGE,
        items=cells.items,
        baseline=cells.baseline,
        compressed=cells.compressed,
        recovery=cells.recovery.removesuffix(" %"),
        interval=cells.interval,
        lost=cells.lost,
        gained=cells.gained,
    )
