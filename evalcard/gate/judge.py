"""The release gate: from a comparison and limits to a verdict with its reasons. ``judge`` is pure.

Stored recoveries are exact fractions rounded once, to the nearest float, and so are the limits; rounding keeps order,
so a recovery that equals its limit passes and no figure that was rounded for print is ever compared.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from evalcard.errors import ComparisonRefused, UserError
from evalcard.results.compared import ComparedRow, Comparison, CompressedScore, Finding
from evalcard.results.records import Record

Outcome = Literal["PASS", "FAIL", "INCONCLUSIVE", "CANNOT_JUDGE"]

EXIT_CODES: Mapping[str, int] = MappingProxyType({"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 3, "CANNOT_JUDGE": 4})
DEFAULT_MIN_RECOVERY = 99.0
MAX_LIMIT = 200.0
_NO_RECOVERY = "no recovery: "
_WORST_FIRST: tuple[Outcome, ...] = ("CANNOT_JUDGE", "FAIL", "INCONCLUSIVE", "PASS")


@dataclass(frozen=True, slots=True)
class GateSpec:
    """Limits in percent of the baseline's score. Raises UserError for a limit outside 0 to 200."""

    min_recovery: float = DEFAULT_MIN_RECOVERY
    tasks: Mapping[str, float] = field(default_factory=dict)
    """Row name -> its own limit instead of ``min_recovery``."""
    decide: Literal["point"] = "point"
    """What is held against the limit: the recovery itself."""

    def __post_init__(self) -> None:
        for name, limit in (("--min-recovery", self.min_recovery), *self.tasks.items()):
            if not math.isfinite(limit) or not 0 <= limit <= MAX_LIMIT:
                raise UserError(
                    f"the limit {name} is {limit:g}; a limit is a recovery in percent from 0 to {MAX_LIMIT:g}, "
                    f"such as {DEFAULT_MIN_RECOVERY:g}."
                )
        if self.decide != "point":
            raise UserError(f"decide is {self.decide!r}; this version decides by 'point' only.")

    def limit_of(self, row: str) -> float:
        return self.tasks.get(row, self.min_recovery)


class RowVerdict(Record):
    """One compressed model on one row."""

    task: str
    outcome: Outcome
    recovery: float | None
    """In percent, unrounded; None where it is undefined."""
    limit: float
    reason: str


class ModelVerdict(Record):
    """One compressed model on all rows."""

    model: str
    """Slug."""
    outcome: Outcome
    rows: list[RowVerdict]
    reasons: list[str]
    """What decided, beyond the rows: findings that forbid a judgement or a pass, unless a row says the same."""


class GateVerdict(Record):
    """The gate's word on a comparison: that of its worst model."""

    outcome: Outcome
    exit_code: int
    min_recovery: float
    decide: str
    models: list[ModelVerdict]
    reasons: list[str]
    """Every row's reason and the findings that forbid a judgement or a pass, each once."""


def judge(comparison: Comparison, spec: GateSpec) -> GateVerdict:
    """Hold every row of every compressed model against its limit; equal to the limit passes.

    A blocker, an incomplete run or a missing recovery cannot be judged; a warning makes a pass inconclusive.
    Raises UserError for a limit on a row that is not there.
    """
    _check_limits(comparison, spec)
    slugs = _slugs(comparison)
    models = [_judge_model(comparison, slug, spec) for slug in slugs]
    reasons = list(_reasons(models))
    if not models:
        reasons = [_told(finding) for finding in comparison.health if finding.severity == "blocker"]
        reasons.append("There is no compressed model with a score to judge.")
    outcome = _worst([model.outcome for model in models] or ["CANNOT_JUDGE"])
    return GateVerdict(
        outcome=outcome,
        exit_code=EXIT_CODES[outcome],
        min_recovery=spec.min_recovery,
        decide=spec.decide,
        models=models,
        reasons=list(dict.fromkeys(reasons)),
    )


def judge_run(out: Path, which: str, spec: GateSpec) -> GateVerdict:
    """Judge a stored run (see results/runs.py) and keep the verdict in its comparison.json.

    Raises ComparisonRefused for a run that is incomplete.
    """
    from evalcard.results.runs import find_run

    folder = find_run(out, which)
    run = folder.read_run()
    if run.finished is None:
        raise ComparisonRefused(
            f"the run {run.name} is incomplete, so there is nothing to judge. Give its `evalcard run` command again: "
            "what was finished is stored."
        )
    comparison = folder.read_comparison()
    verdict = judge(comparison, spec)
    folder.write_comparison(with_verdict(comparison, verdict))
    return verdict


def with_verdict(comparison: Comparison, verdict: GateVerdict) -> Comparison:
    """The comparison with the gate's last word in it, as comparison.json keeps it."""
    return comparison.model_copy(update={"verdict": verdict.model_dump(mode="json")})


def keep_verdict(earlier: Comparison, comparison: Comparison) -> Comparison:
    """``comparison`` with the gate's word on ``earlier``, which stands as long as what it judged is unchanged."""
    is_same = earlier.model_copy(update={"verdict": None}) == comparison
    return earlier if is_same else comparison


def _check_limits(comparison: Comparison, spec: GateSpec) -> None:
    known = [row.task for row in comparison.tasks]
    unknown = [name for name in spec.tasks if name not in known]
    if unknown:
        raise UserError(
            f"there is a limit on {', '.join(unknown)}, but the run has no such task. "
            f"Its tasks are: {', '.join(known) or 'none'}."
        )


def _slugs(comparison: Comparison) -> list[str]:
    """Compressed models in the order of the rows; one without any score is still named by its findings."""
    scored = [score.model for row in comparison.tasks for score in row.compressed]
    blocked = [finding.model for finding in comparison.health if finding.model is not None]
    return list(dict.fromkeys(scored + blocked))


def _judge_model(comparison: Comparison, slug: str, spec: GateSpec) -> ModelVerdict:
    rows = [_judge_row(row, slug, spec.limit_of(row.task)) for row in comparison.tasks]
    findings = [finding for finding in comparison.health if finding.model in (None, slug)]
    blockers = [finding for finding in findings if finding.severity == "blocker"]
    warnings = [_told(finding) for finding in findings if finding.severity == "warning"]
    outcome = _worst([row.outcome for row in rows] or ["CANNOT_JUDGE"])
    if blockers:
        told = [_told(finding) for finding in blockers if not _is_said(finding, rows)]
        return ModelVerdict(model=slug, outcome="CANNOT_JUDGE", rows=rows, reasons=told + warnings)
    if warnings and outcome == "PASS":
        outcome = "INCONCLUSIVE"
    return ModelVerdict(model=slug, outcome=outcome, rows=rows, reasons=warnings)


def _judge_row(row: ComparedRow, slug: str, limit: float) -> RowVerdict:
    score = next((score for score in row.compressed if score.model == slug), None)
    outcome, recovery, reason = _decide(score, limit)
    return RowVerdict(task=row.task, outcome=outcome, recovery=recovery, limit=limit, reason=reason)


def _decide(score: CompressedScore | None, limit: float) -> tuple[Outcome, float | None, str]:
    if score is None:
        return "CANNOT_JUDGE", None, "no score"
    if score.recovery is None:
        return "CANNOT_JUDGE", None, f"{_NO_RECOVERY}{score.reason}"
    value = score.recovery.value
    if value >= limit:
        return "PASS", value, f"recovery {_shown(value, limit)} % is at or above {limit:g} %"
    return "FAIL", value, f"recovery {_shown(value, limit)} % is below {limit:g} %"


def _shown(value: float, limit: float) -> str:
    """Enough decimals that the printed figure stands on its own side of the limit."""
    for decimals in range(2, 12):
        text = f"{value:.{decimals}f}"
        if (float(text) >= limit) == (value >= limit):
            return text
    return repr(value)


def _reasons(models: Sequence[ModelVerdict]) -> Iterator[str]:
    """Models that lack a recovery for the same reason share a line, as what is wrong is most often their baseline."""
    for model in models:
        for row in model.rows:
            sharing = [one.model for one in models if row in one.rows] if row.recovery is None else [model.model]
            if sharing[0] == model.model:
                yield f"{row.task}, {', '.join(sharing)}: {row.reason}."
        yield from model.reasons


def _is_said(finding: Finding, rows: Sequence[RowVerdict]) -> bool:
    """Whether a row without a recovery gives this very reason."""
    said = finding.finding.removeprefix("No recovery: ").removesuffix(".")
    places = (row.task for row in rows if row.reason == f"{_NO_RECOVERY}{said}")
    return any(finding.where == task or finding.where.startswith(f"{task}, ") for task in places)


def _told(finding: Finding) -> str:
    return f"{finding.where}: {finding.finding}"


def _worst(outcomes: list[Outcome]) -> Outcome:
    return next(outcome for outcome in _WORST_FIRST if outcome in outcomes)
