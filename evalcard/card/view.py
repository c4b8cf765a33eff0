"""One compressed model's card as data: every number formatted, every word of the run in place, no prose.

Templates read these views and nothing else.
"""

import re
from dataclasses import dataclass

from evalcard.card import numbers
from evalcard.card.contrasts import ContrastsView, contrasts_view
from evalcard.card.deployment import DeploymentView, deployment_view
from evalcard.card.fidelity import FidelityView, fidelity_view
from evalcard.card.findings import FindingGroup, clean, finding_groups
from evalcard.card.measures import MeasuresView, measures_view
from evalcard.card.options import CardOptions
from evalcard.card.overview import Overview, overview_of
from evalcard.card.paths import without_paths
from evalcard.card.published import folders_of, original_as, published_as
from evalcard.card.reproduction import Reproduction, reproduction_of
from evalcard.card.settings import RowSettings, Settings, row_settings, settings_of
from evalcard.card.stopped import StoppedLine, Unfinished, is_sequential, stopped_lines, unfinished_of
from evalcard.card.summary import (
    BelowView,
    ErrorsView,
    FlipsView,
    Headline,
    StepView,
    below_average,
    coarsest,
    flips_view,
    has_untested,
    headlines_of,
    telling_errors,
)
from evalcard.card.tables import TableView, categories, overall_view, table_view
from evalcard.card.terms import Terms, terms_of
from evalcard.card.usage import Creation, Usage, creation_of, is_unread, quant_method, usage_of
from evalcard.card.verdicts import GateView, gate_view
from evalcard.results.compared import Comparison, Finding
from evalcard.results.records import ModelRecord, RunRecord

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


@dataclass(frozen=True, slots=True)
class ModelView:
    """One model as a reader wants to know it; None where it is not known."""

    slug: str
    title: str
    name: str
    hub_id: str | None
    published: str | None
    """Hub id that it has by its user's word, where it was measured under another name."""
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
    folders: tuple[tuple[str, str], ...]
    """(name, Hub id) of the folders in the run's command that hold what has a Hub id by its user's word."""
    terms: Terms
    overview: Overview
    quant_method: str | None
    """As config.json has it."""
    unfinished: Unfinished | None
    """None where the run came to its end."""
    weights_share: str | None
    """Bytes of the weights in percent of the baseline's."""
    headlines: tuple[Headline, ...]
    errors: tuple[ErrorsView, ...]
    below: tuple[BelowView, ...]
    flips: FlipsView | None
    coarsest: StepView | None
    confidence: str
    """Of the intervals, in percent."""
    tables: tuple[TableView, ...]
    overall: TableView | None
    """Only the average of all rows, where there is more than one category."""
    contrasts: ContrastsView
    stopped: tuple[StoppedLine, ...]
    """Of a run that was to stop early."""
    is_sequential: bool
    measures: MeasuresView
    findings: tuple[Finding, ...]
    groups: tuple[FindingGroup, ...]
    """The findings as a reader takes them in."""
    gate: GateView | None
    fidelity: FidelityView | None
    deployment: DeploymentView | None
    usage: Usage
    creation: Creation | None
    notes: str | None
    """The user's own words, as Markdown."""
    settings: Settings
    reproduction: Reproduction
    row_settings: tuple[RowSettings, ...]
    has_untested: bool
    """Whether a row counts flips without testing them, as its items were answered several times."""
    is_unread: bool
    """Whether no file of the compressed model was read, as its answers are another program's."""
    is_sampled: bool
    """Whether some answers were drawn at random."""
    shares_draws: bool
    """Whether both models then drew with the same random numbers, as evalcard's own engine does."""

    @property
    def blockers(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity == "blocker")


def card_view(run: RunRecord, comparison: Comparison, slug: str, options: CardOptions | None = None) -> CardView:
    """The card of one compressed model of the run; ``options``: what its user added."""
    options = options or CardOptions()
    baseline = run.models[0]
    model = next(model for model in run.models if model.slug == slug)
    named = categories(comparison)
    base = base_model(run, options)
    names = original_as(baseline, base), published_as(run, model, options)
    findings = tuple(clean(finding) for finding in comparison.health if finding.model in (None, slug))
    return CardView(
        baseline=model_view(baseline, names[0]),
        model=model_view(model, names[1]),
        base_model=base,
        folders=folders_of((baseline, names[0]), (model, names[1])),
        terms=terms_of(run, options, base),
        overview=overview_of(model),
        quant_method=quant_method(model),
        unfinished=unfinished_of(run),
        weights_share=_share(model.weight_bytes, baseline.weight_bytes),
        headlines=headlines_of(comparison, slug),
        errors=telling_errors(comparison, slug),
        below=below_average(comparison, slug),
        flips=flips_view(run, comparison, slug),
        coarsest=coarsest(run, comparison),
        confidence=f"{100 * comparison.confidence:g}",
        tables=tuple(table_view(run, comparison, category, slug) for category in named),
        overall=overall_view(run, comparison, slug),
        contrasts=contrasts_view(run, comparison, slug),
        stopped=stopped_lines(comparison, slug),
        is_sequential=is_sequential(run, comparison),
        measures=measures_view(run, comparison, ((None, "baseline"), (slug, "compressed"))),
        findings=findings,
        groups=finding_groups(findings, [row.task for row in comparison.tasks]),
        gate=gate_view(comparison, slug),
        fidelity=fidelity_view(comparison, slug),
        deployment=deployment_view(model.config, model.weight_bytes, model.scheme, None),
        usage=usage_of(run, model, options),
        creation=creation_of(run, model),
        notes=options.notes,
        settings=settings_of(run, (baseline, model)),
        reproduction=reproduction_of(run, [baseline, model], {baseline.slug: "baseline", slug: "compressed"}),
        row_settings=tuple(row_settings(run, row) for row in comparison.tasks),
        has_untested=has_untested(comparison, slug),
        is_unread=is_unread(run, model),
        is_sampled=is_sampled(run),
        shares_draws=is_sampled(run) and run.resolved.get("backend") == "evalcard" and not run.sources,
    )


def is_sampled(run: RunRecord) -> bool:
    return any(task.decoding.startswith("sampled") for task in run.tasks)


def base_model(run: RunRecord, options: CardOptions | None = None) -> str | None:
    """Hub id of the model that was compressed, where it is known: as the user said for the card or the run, or the
    baseline's own; never a folder."""
    said = options.base_model if options else None
    named = said or run.resolved.get("base_model") or (run.models[0].hub_id if run.models else None)
    return named if named and _HUB_ID.fullmatch(named) else None


def model_view(model: ModelRecord, published: str | None = None) -> ModelView:
    """``published``: the Hub id that its user says it has."""
    return ModelView(
        slug=model.slug,
        title=_title(published or model.name, model.scheme),
        name=without_paths(model.name),
        hub_id=model.hub_id,
        published=published if published != model.hub_id else None,
        revision=model.revision,
        scheme=model.scheme,
        scheme_title=model.scheme_title,
        bits_per_weight=None if model.bits_per_weight is None else numbers.bits(model.bits_per_weight),
        weights=None if model.weight_bytes is None else numbers.megabytes(model.weight_bytes),
        parameters=None if model.num_parameters is None else numbers.parameters(model.num_parameters),
    )


def _title(name: str, scheme: str | None) -> str:
    """The model's own name, with the scheme unless the name has it already."""
    last = name.rstrip("/").rsplit("/", 1)[-1]
    return last if not scheme or scheme.lower() in last.lower() else f"{last} {scheme}"


def _share(part: int | None, whole: int | None) -> str | None:
    return f"{numbers.in_percent(part / whole)} %" if part is not None and whole else None
