"""One compressed model's card as data: every number formatted, every word of the run in place, no prose.

Templates read these views and nothing else.
"""

import re
from dataclasses import dataclass

from evalcard.card import numbers
from evalcard.card.measures import MeasuresView, measures_view
from evalcard.card.paths import without_paths
from evalcard.card.settings import RowSettings, Settings, row_settings, settings_of
from evalcard.card.tables import TableView, average_of, categories, interval_of, score_of, table_view, tasks_of
from evalcard.gate.judge import GateVerdict, ModelVerdict
from evalcard.results.compared import ComparedRow, Comparison, Finding
from evalcard.results.records import ModelRecord, RunRecord

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


@dataclass(frozen=True, slots=True)
class Headline:
    """What a category comes to: its average, or its only row."""

    category: str
    task: str | None
    """The only row; None for an average."""
    num_rows: int
    recovery: str
    interval: str
    is_defined: bool


@dataclass(frozen=True, slots=True)
class FlipsView:
    """Over all rows that count flips."""

    answers: int
    lost: int
    gained: int


@dataclass(frozen=True, slots=True)
class StepView:
    """The row on which a single item weighs most."""

    task: str
    points: str
    """Percentage points of recovery."""


@dataclass(frozen=True, slots=True)
class ModelView:
    """One model as a reader wants to know it; None where it is not known."""

    slug: str
    title: str
    name: str
    hub_id: str | None
    revision: str | None
    scheme: str | None
    scheme_title: str | None
    bits_per_weight: str | None
    weights: str | None
    parameters: str | None


@dataclass(frozen=True, slots=True)
class CardView:
    """All a card says."""

    baseline: ModelView
    model: ModelView
    base_model: str | None
    """Hub id of the model that was compressed."""
    weights_share: str | None
    """Bytes of the weights in percent of the baseline's."""
    headlines: tuple[Headline, ...]
    flips: FlipsView | None
    coarsest: StepView | None
    confidence: str
    """Of the intervals, in percent."""
    tables: tuple[TableView, ...]
    measures: MeasuresView
    findings: tuple[Finding, ...]
    gate: ModelVerdict | None
    settings: Settings
    row_settings: tuple[RowSettings, ...]
    has_untested: bool
    """Whether a row counts flips without testing them, as its items were answered several times."""

    @property
    def blockers(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity == "blocker")


def card_view(run: RunRecord, comparison: Comparison, slug: str) -> CardView:
    """The card of one compressed model of the run."""
    baseline = run.models[0]
    model = next(model for model in run.models if model.slug == slug)
    named = categories(comparison)
    return CardView(
        baseline=model_view(baseline),
        model=model_view(model),
        base_model=base_model(run),
        weights_share=_share(model.weight_bytes, baseline.weight_bytes),
        headlines=tuple(headline(comparison, category, slug) for category in named),
        flips=flips_view(run, comparison, slug),
        coarsest=_coarsest(run, comparison),
        confidence=f"{100 * comparison.confidence:g}",
        tables=tuple(table_view(run, comparison, category, slug) for category in named),
        measures=measures_view(run, comparison, ((None, "baseline"), (slug, "compressed"))),
        findings=tuple(clean(finding) for finding in comparison.health if finding.model in (None, slug)),
        gate=_gate(comparison, slug),
        settings=settings_of(run, (baseline, model)),
        row_settings=tuple(row_settings(run, row) for row in comparison.tasks),
        has_untested=_has_untested(comparison, slug),
    )


def base_model(run: RunRecord) -> str | None:
    """Hub id of the model that was compressed, where it is known: as asked, or the baseline's own; never a folder."""
    named = run.resolved.get("base_model") or run.models[0].hub_id
    return named if named and _HUB_ID.fullmatch(named) else None


def model_view(model: ModelRecord) -> ModelView:
    return ModelView(
        slug=model.slug,
        title=_title(model),
        name=without_paths(model.name),
        hub_id=model.hub_id,
        revision=model.revision,
        scheme=model.scheme,
        scheme_title=model.scheme_title,
        bits_per_weight=None if model.bits_per_weight is None else f"{model.bits_per_weight:.{numbers.DECIMALS}f}",
        weights=None if model.weight_bytes is None else numbers.megabytes(model.weight_bytes),
        parameters=None if model.num_parameters is None else numbers.parameters(model.num_parameters),
    )


def headline(comparison: Comparison, category: str, slug: str) -> Headline:
    """The recovery that stands for a category: of its average, else of its only row; a dash where neither is."""
    rows = [row for row in comparison.tasks if row.category == category]
    stands = average_of(comparison, category) or (rows[0] if len(rows) == 1 else None)
    score = score_of(stands, slug) if stands is not None else None
    value = score.recovery.value if score is not None and score.recovery is not None else None
    only = rows[0].task if len(rows) == 1 else None
    return Headline(category, only, len(rows), numbers.recovery(value), interval_of(score), value is not None)


def flips_view(run: RunRecord, comparison: Comparison, slug: str) -> FlipsView | None:
    """Flips over all rows that count them; None where none does, or where rows share tasks and would count twice."""
    leaves = [task.name for row in comparison.tasks for task in tasks_of(run, row)]
    if len(set(leaves)) < len(leaves):
        return None
    pairs = [(row, score_of(row, slug)) for row in comparison.tasks]
    counted = [(row, score.lost, score.gained) for row, score in pairs if score is not None and score.lost is not None]
    if not counted:
        return None
    answers = sum(_answers(run, row) for row, _, _ in counted)
    return FlipsView(answers, sum(lost for _, lost, _ in counted), sum(gained or 0 for _, _, gained in counted))


def _answers(run: RunRecord, row: ComparedRow) -> int:
    return sum(task.items_selected * task.repeats for task in tasks_of(run, row))


def _has_untested(comparison: Comparison, slug: str) -> bool:
    scores = [score_of(row, slug) for row in comparison.tasks]
    return any(score is not None and score.lost is not None and score.mcnemar_p is None for score in scores)


def _title(model: ModelRecord) -> str:
    """The model's own name, with the scheme unless the name has it already."""
    name = model.name.rstrip("/").rsplit("/", 1)[-1]
    return name if not model.scheme or model.scheme.lower() in name.lower() else f"{name} {model.scheme}"


def _share(part: int | None, whole: int | None) -> str | None:
    return f"{numbers.in_percent(part / whole)} %" if part is not None and whole else None


def _coarsest(run: RunRecord, comparison: Comparison) -> StepView | None:
    """Rows whose items weigh alike, are right or wrong and answered once: one item is 100 / (items right) points."""
    rules = {record.name: record.rule for record in run.rows}
    steps = [
        (100 / (row.n * row.baseline.score), row.task)
        for row in comparison.tasks
        if rules.get(row.task) != "mean"
        and row.baseline.score > 0
        and any(score.mcnemar_p is not None and score.recovery is not None for score in row.compressed)
        and all(task.higher_is_better for task in tasks_of(run, row))
    ]
    if not steps:
        return None
    points, task = max(steps)
    return StepView(task, f"{points:.{numbers.DECIMALS}f}")


def clean(finding: Finding) -> Finding:
    """The finding without any path of the machine in its words."""
    words = {name: without_paths(getattr(finding, name)) for name in ("finding", "where", "advice")}
    return finding.model_copy(update=words)


def _gate(comparison: Comparison, slug: str) -> ModelVerdict | None:
    """The gate's word on this model, where the gate was asked."""
    if comparison.verdict is None:
        return None
    verdict = GateVerdict.model_validate(comparison.verdict)
    return next((model for model in verdict.models if model.model == slug), None)
