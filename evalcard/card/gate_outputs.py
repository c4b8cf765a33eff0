"""The gate's word for CI as files: JUnit XML and a GitHub job summary (annotations.py has the workflow commands).

Names, reasons and findings come from models, tasks and data sets: here they are data, whatever they hold. The prose
lies in templates/junit.xml.j2 and templates/summary.md.j2.
"""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from evalcard.card.findings import finding_groups
from evalcard.card.limits import (
    LimitView,
    as_data,
    decided_by_no_limit,
    has_failed,
    limit_view,
    place_of,
    reasons_beside_figures,
    spelled,
)
from evalcard.card.settings import settings_of
from evalcard.gate.calibration import name_of
from evalcard.gate.verdict import GateVerdict, LimitVerdict, ModelVerdict, Outcome
from evalcard.results.compared import Comparison
from evalcard.results.records import RunRecord

if TYPE_CHECKING:
    from jinja2 import Environment

Result = Literal["passed", "failure", "error", "skipped"]
Properties = tuple[tuple[str, str], ...]

JUNIT_TEMPLATE, SUMMARY_TEMPLATE = "junit.xml.j2", "summary.md.j2"
_RESULTS: dict[Outcome, Result] = {
    "PASS": "passed", "FAIL": "failure", "CANNOT_JUDGE": "error", "INCONCLUSIVE": "skipped"
}  # fmt: skip
WHOLE = "the comparison as a whole"
_MARKDOWN = re.compile(r"([\\`*_\[\]|~#])")


@dataclass(frozen=True, slots=True)
class Case:
    """One test of a suite: a limit, or what stands in the way of judging at all."""

    classname: str
    name: str
    result: Result
    message: str
    properties: Properties = ()


@dataclass(frozen=True, slots=True)
class Suite:
    """All limits of one compressed model."""

    name: str
    seconds: float
    """That the model's answers took in the last attempt that computed any."""
    properties: Properties
    cases: tuple[Case, ...]

    def count(self, result: Result) -> int:
        return sum(case.result == result for case in self.cases)


@dataclass(frozen=True, slots=True)
class SummaryModel:
    """One compressed model's section of the job summary."""

    slug: str
    outcome: str
    limits: tuple[tuple[LimitView, str], ...]
    """Each with the items it was measured on; empty for an average."""


def junit_xml(verdict: GateVerdict, run: RunRecord, comparison: Comparison, *, fails_inconclusive: bool = False) -> str:
    """One testsuite a compressed model, one testcase a limit, in the form that Jenkins and GitLab read.

    ``fails_inconclusive``: an undecided limit is a failure instead of a skipped test.
    """
    suites = [_suite(verdict, model, run, comparison, fails_inconclusive) for model in verdict.models]
    if not suites:
        message = " ".join(verdict.reasons)
        case = _case(run, "", WHOLE, _result(verdict.outcome, fails_inconclusive), message)
        suites = [Suite(as_data(run.name), 0.0, _facts(run, verdict), (case,))]
    results: tuple[Result, ...] = ("failure", "error", "skipped")
    total = {result: sum(suite.count(result) for suite in suites) for result in results}
    names = {"suites": suites, "total": total, "run": as_data(run.name), "finished": _timestamp(run)}
    return _environment().overlay(autoescape=True).get_template(JUNIT_TEMPLATE).render(names)


def job_summary(verdict: GateVerdict, run: RunRecord, comparison: Comparison) -> str:
    """GitHub Markdown: the outcome, every limit by model, what the checks found, and how to measure it again."""
    environment = _environment()
    environment.filters["plain"] = plain_markdown
    names = {
        "outcome": spelled(verdict.outcome),
        "decide": verdict.decide,
        "confidence": f"{100 * verdict.confidence:g}",
        "baseline": run.models[0].slug if run.models else None,
        "models": [_summary_model(model, comparison) for model in verdict.models],
        "reasons": reasons_beside_figures(verdict),
        "failed_run": run.name if has_failed(verdict) else None,
        "findings": finding_groups(comparison.health, [row.task for row in comparison.tasks]),
        "notes": verdict.notes,
        "settings": settings_of(run, run.models) if run.models else None,
    }
    text = environment.get_template(SUMMARY_TEMPLATE).render(names)
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n") + "\n"


def plain_markdown(text: str) -> str:
    """Text that starts no mark-up, no HTML, no formula and no workflow command, and stays in its table cell."""
    text = as_data(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # Entities last, as their own # would be escaped.
    return _MARKDOWN.sub(r"\\\1", text).replace("$", "&#36;").replace("::", "&#58;&#58;")


def _environment() -> "Environment":
    from evalcard.card.render import make_environment
    from evalcard.resources import card_templates

    return make_environment(card_templates())


def _timestamp(run: RunRecord) -> str:
    """As JUnit has it, without a zone."""
    return (run.finished or run.created)[:19]


def _result(outcome: Outcome, fails_inconclusive: bool) -> Result:
    return "failure" if outcome == "INCONCLUSIVE" and fails_inconclusive else _RESULTS[outcome]


def _facts(run: RunRecord, verdict: GateVerdict, slug: str | None = None) -> Properties:
    """Properties of a suite: what was judged, and how."""
    facts = {
        "run": run.name,
        "baseline": name_of(run.models[0]) if run.models else "",
        "compressed": next((name_of(model) for model in run.models if model.slug == slug), slug or ""),
        "decide": verdict.decide,
        "confidence": f"{verdict.confidence:g}",
        "evalcard": run.versions.get("evalcard", ""),
    }
    return tuple((name, as_data(value)) for name, value in facts.items() if value)


def _suite(
    verdict: GateVerdict, model: ModelVerdict, run: RunRecord, comparison: Comparison, fails_inconclusive: bool
) -> Suite:
    cases = [
        _case(
            run,
            model.model,
            f"{place_of(limit)} {limit_view(limit).rule}",
            _result(limit.outcome, fails_inconclusive),
            limit.reason,
            _figures(limit, verdict.confidence, comparison),
        )
        for limit in model.limits
    ]
    if reason := decided_by_no_limit(model):
        # A reader of the file must not take the passes of single limits for the outcome.
        cases.append(_case(run, model.model, WHOLE, _result(model.outcome, fails_inconclusive), reason))
    seconds = sum(step.seconds for step in run.progress if step.model == model.model)
    return Suite(as_data(model.model), seconds, _facts(run, verdict, model.model), tuple(cases))


def _figures(limit: LimitVerdict, confidence: float, comparison: Comparison) -> Properties:
    """Unrounded, in the unit of the limit."""
    figures = {
        "value": limit.value,
        "low": limit.low,
        "high": limit.high,
        "confidence": confidence,
        "items": _items(limit, comparison),
    }
    return tuple((name, str(value)) for name, value in figures.items() if value is not None)


def _case(run: RunRecord, slug: str, name: str, result: Result, message: str, properties: Properties = ()) -> Case:
    classname = ".".join(part for part in ("evalcard", run.name, slug) if part)
    return Case(as_data(classname), as_data(name), result, as_data(message), properties)


def _items(limit: LimitVerdict, comparison: Comparison) -> int | None:
    """None for an average, whose n counts rows."""
    rows = comparison.tasks if limit.scope == "task" else []
    return next((row.n for row in rows if row.task == limit.name), None)


def _summary_model(model: ModelVerdict, comparison: Comparison) -> SummaryModel:
    limits = tuple((limit_view(limit), str(_items(limit, comparison) or "")) for limit in model.limits)
    return SummaryModel(model.model, spelled(model.outcome), limits)
