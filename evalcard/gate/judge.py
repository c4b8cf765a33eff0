"""The release gate: from a comparison and limits to a verdict with its reasons. ``judge`` is pure.

A limit passes where the end of the interval that speaks against the model reaches it, fails where the end that speaks
for the model does not, and is inconclusive between (``decide`` interval); or the measured value alone is held against
it (``decide`` point). Equal to the limit passes. What was rounded for print is never compared: see gate/measure.py.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evalcard.errors import ComparisonRefused
from evalcard.gate.calibration import not_calibrated, other_revisions
from evalcard.gate.decide import Held, hold
from evalcard.gate.lmeval_notes import check_setup, notes_of
from evalcard.gate.notes import notes_on
from evalcard.gate.spec import GateSpec
from evalcard.gate.targets import Target, find_targets
from evalcard.gate.verdict import EXIT_CODES, OUTCOMES_WORST_FIRST, GateVerdict, LimitVerdict, ModelVerdict, Outcome
from evalcard.gate.wording import more_in_practice, reason_of
from evalcard.results.agreement import read_agreeing
from evalcard.results.compared import Comparison, Finding
from evalcard.results.incomplete import is_incomplete
from evalcard.results.records import RunRecord

if TYPE_CHECKING:
    from evalcard.results.store import RunFolder


def judge(comparison: Comparison, spec: GateSpec, run: RunRecord | None = None) -> GateVerdict:
    """Hold every compressed model against every limit; ``run`` tells what the models are and how many items there are.

    A blocker, an incomplete run or a value that is undefined cannot be judged; a warning, and limits that were set for
    another model, make a PASS inconclusive. Findings on one row count where a limit touches it.
    Raises UserError for a limit that cannot be asked of this comparison (see ``find_targets``).
    """
    targets = find_targets(comparison, spec, run)
    if spec.asked_by is not None:
        check_setup(spec.asked_by, comparison, run)
    held = {slug: hold(targets, slug, spec, comparison.confidence) for slug in _slugs(comparison)}
    asked = notes_of(spec.asked_by, comparison, run) if spec.asked_by is not None else ()
    notes = list(dict.fromkeys([*asked, *notes_on(comparison, held, spec), *other_revisions(spec.set_for, run)]))
    models = [
        _judge_model(comparison, slug, one, spec, run).model_copy(
            update={"notes": [text for whose, text in notes if whose == slug]}
        )
        for slug, one in held.items()
    ]
    reasons = list(_reasons(models, targets))
    if not models:
        reasons = [_told(finding) for finding in comparison.health if finding.severity == "blocker"]
        reasons.append("There is no compressed model with a score to judge.")
    outcome = _worst([model.outcome for model in models] or ["CANNOT_JUDGE"])
    return GateVerdict(
        outcome=outcome,
        exit_code=EXIT_CODES[outcome],
        decide=spec.decide,
        confidence=spec.confidence,
        models=models,
        reasons=list(dict.fromkeys(reasons)),
        notes=list(dict.fromkeys(text for _, text in notes)),
    )


def judge_run(out: Path, which: str, spec: GateSpec, limits_from: str | None = None) -> GateVerdict:
    """Judge a stored run (see results/runs.py) and keep the verdict in its comparison.json.

    ``limits_from``: see ``GateVerdict``. Raises ComparisonRefused for a run that is incomplete, and what
    ``read_judgeable`` raises.
    """
    from evalcard.results.runs import find_run

    folder = find_run(out, which)
    run, comparison = read_judgeable(folder)
    named = {"run": run.name, "finished": run.finished, "limits_from": limits_from}
    verdict = judge(comparison, spec, run).model_copy(update=named)
    folder.write_comparison(with_verdict(comparison, verdict))
    return verdict


def read_judgeable(folder: "RunFolder") -> tuple[RunRecord, Comparison]:
    """A run and its comparison, if they can be judged.

    Raises ComparisonRefused where the run is incomplete, whether or not an earlier attempt left a comparison, or has
    another run's; UserError where either file is damaged.
    """
    run = folder.read_run()
    if run.finished is None:
        raise ComparisonRefused(is_incomplete(run, ", so there is nothing to judge"))
    return run, read_agreeing(folder, run)


def with_verdict(comparison: Comparison, verdict: GateVerdict) -> Comparison:
    """The comparison with the gate's last word in it, as comparison.json keeps it."""
    return comparison.model_copy(update={"verdict": verdict.model_dump(mode="json")})


def keep_verdict(earlier: Comparison, comparison: Comparison) -> Comparison:
    """``comparison`` with the gate's word on ``earlier``, which stands as long as what it judged is unchanged."""
    is_same = _unnamed(earlier) == _unnamed(comparison)
    return comparison.model_copy(update={"verdict": earlier.verdict}) if is_same else comparison


def _unnamed(comparison: Comparison) -> Comparison:
    """What a gate judges by: without its word, without the metrics' names, which another judge of the same answers
    changes though every score stays, and without fidelity and files' digests, which an older evalcard did not tell."""
    rows = [row.model_copy(update={"metric": ""}) for row in comparison.tasks]
    return comparison.model_copy(update={"tasks": rows, "verdict": None, "fidelity": [], "made_from": {}})


def _slugs(comparison: Comparison) -> list[str]:
    """Compressed models in the order of the rows; one without any score is still named by its findings."""
    scored = [score.model for row in comparison.tasks for score in row.compressed]
    blocked = [finding.model for finding in comparison.health if finding.model is not None]
    return list(dict.fromkeys(scored + blocked))


def _judge_model(
    comparison: Comparison, slug: str, held: Sequence[Held], spec: GateSpec, run: RunRecord | None
) -> ModelVerdict:
    limits = [_limit_verdict(one, spec, run, _advice(one, comparison, slug)) for one in held]
    touched = {row for one in held for row in one.target.touches}
    findings = [
        one for one in comparison.health if one.model in (None, slug) and (one.row is None or one.row in touched)
    ]
    blockers = [one for one in findings if one.severity == "blocker"]
    doubts = [_told(one) for one in findings if one.severity == "warning"] + not_calibrated(spec.set_for, run, slug)
    outcome = _worst([limit.outcome for limit in limits] or ["CANNOT_JUDGE"])
    if blockers:
        outcome = "CANNOT_JUDGE"
    elif doubts and outcome == "PASS":
        outcome = "INCONCLUSIVE"
    told = [_told(one) for one in blockers if not _is_said(one, limits)]
    return ModelVerdict(model=slug, outcome=outcome, limits=limits, reasons=told + doubts)


def _advice(held: Held, comparison: Comparison, slug: str) -> str | None:
    """What to do about a limit without a value: the advice of the findings that forbid it."""
    if held.measured.value is not None:
        return None
    found = [
        one.advice
        for one in comparison.health
        if one.severity == "blocker" and one.model in (None, slug) and one.row in held.target.touches
    ]
    return " ".join(dict.fromkeys(filter(None, found))) or None


def _limit_verdict(held: Held, spec: GateSpec, run: RunRecord | None, advice: str | None) -> LimitVerdict:
    target, measured = held.target, held.measured
    reason = reason_of(held, spec, run)
    return LimitVerdict(
        scope=target.scope,
        name=target.name,
        kind=target.kind,
        limit=target.limit,
        outcome=held.outcome,
        value=measured.value,
        low=measured.low,
        high=measured.high,
        # Every page that says why shall say what to do: a terminal, JUnit and annotations have no findings beside it.
        reason=f"{reason.removesuffix('.')}. {advice.removesuffix('.')}" if advice else reason,
        more_items=more_in_practice(held),
    )


def _reasons(models: Sequence[ModelVerdict], targets: Sequence[Target]) -> Iterator[str]:
    """Models that lack a value for the same reason share a line, as what is wrong is most often their baseline."""
    for model in models:
        for target, limit in zip(targets, model.limits, strict=True):
            sharing = [one.model for one in models if limit in one.limits] if limit.value is None else [model.model]
            if sharing[0] == model.model:
                yield f"{target.where}, {', '.join(sharing)}: {limit.reason}."
        yield from model.reasons


def _is_said(finding: Finding, limits: Sequence[LimitVerdict]) -> bool:
    """Whether a row without a recovery gives this very reason."""
    said = finding.finding.removeprefix("No recovery: ").removesuffix(".")
    reasons = (f"no recovery: {said}", f"no recovery: {said}. {finding.advice}".removesuffix("."))
    places = [limit.name for limit in limits if limit.scope == "task" and limit.reason in reasons]
    return any(finding.where == task or finding.where.startswith(f"{task}, ") for task in places)


def _told(finding: Finding) -> str:
    return f"{finding.where}: {finding.finding}"


def _worst(outcomes: Sequence[Outcome]) -> Outcome:
    return next(outcome for outcome in OUTCOMES_WORST_FIRST if outcome in outcomes)
