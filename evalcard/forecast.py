"""Before a run: what its items can show of each row, and whether the gate's limits ask for more than that.

Pure: scores and flips of stored runs come as priors (evalcard/priors.py); the arithmetic is compare/power.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from evalcard.compare.plans import ASSUMED_FLIPS, AnyPlan, MeanPlan, Plan
from evalcard.compare.power import finest_limit, finest_score, items_for_limit, items_for_score, smallest_drop
from evalcard.gate.spec import DEFAULT_CONFIDENCE, GateSpec
from evalcard.gate.verdict import Kind, Scope
from evalcard.priors import Prior
from evalcard.results.compared import OVERALL
from evalcard.results.records import RowRecord, TaskRecord

ASSUMED_SCORE = 0.6
"""The baseline's, where no run has told yet."""


@dataclass(frozen=True, slots=True)
class AskedLimit:
    """A limit of the gate beside what the items can show."""

    kind: Kind
    limit: float
    """In percent or points, as the gate has it."""
    finest: float | None
    """The most demanding limit of this kind that a lossless model passes in four of five runs; None: there is none."""
    is_too_fine: bool
    items: int | None
    """The fewest items on which it would pass; None where no number would do."""


@dataclass(frozen=True, slots=True)
class RowForecast:
    """What the items of one row, or of the rows of an average, can show."""

    scope: Scope
    name: str
    items: int
    """An item that is answered several times is one: this makes the forecast cautious."""
    score: float | None = None
    """The baseline's, as a fraction; None where it is no share."""
    score_is_from: str | None = None
    """Name of the stored run; None: assumed."""
    flip_rate: float | None = None
    """As a fraction; None for an average, which has each row's own."""
    flips_are_from: str | None = None
    smallest_drop: float | None = None
    """Of recovery, in points; None where not even a total loss is shown."""
    finest_limit: float | None = None
    """Of recovery, in percent; None where there is none above 0."""
    asked: tuple[AskedLimit, ...] = ()

    def summary(self) -> dict[str, Any]:
        """For a program."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Average:
    """The plain mean of some rows' scores, as compare/averages.py takes it; that of one row is the row itself."""

    scope: Scope
    name: str
    rows: tuple[RowRecord, ...]
    is_told: bool
    """Whether it is another number than a row or the average before it."""
    has_one_direction: bool
    """Else there is no such mean: higher is better on some rows and lower on others."""


def averages_of(rows: Sequence[RowRecord], tasks: Mapping[str, TaskRecord]) -> list[Average]:
    """By category, then over all rows. tasks: by name."""
    groups: dict[str, list[RowRecord]] = {}
    for row in rows:
        groups.setdefault(tasks[row.tasks[0]].category, []).append(row)

    def of(scope: Scope, name: str, members: Sequence[RowRecord], is_told: bool) -> Average:
        directions = {tasks[leaf].higher_is_better for row in members for leaf in row.tasks}
        return Average(scope, name, tuple(members), is_told, len(directions) == 1)

    found = [of("average", name, members, len(members) > 1) for name, members in groups.items()]
    return [*found, of("overall", OVERALL, rows, len(groups) > 1)]


def forecast(
    rows: Sequence[RowRecord],
    tasks: Mapping[str, TaskRecord],
    priors: Mapping[str, Prior],
    gate: GateSpec | None = None,
    confidence: float | None = None,
) -> list[RowForecast]:
    """Every row, then the averages of several rows and those that the gate asks for.

    tasks: by name. The gate's confidence goes before ``confidence``; with neither it is 95 %.
    """
    level = gate.confidence if gate else confidence or DEFAULT_CONFIDENCE
    told = {row.name: priors.get(row.name, Prior()) for row in rows}
    plans = {row.name: _plan_of(row, tasks, told[row.name], level) for row in rows}
    limits = _Limits(gate, [row.name for row in rows])
    found = [_of_row(row, tasks, plans[row.name], told[row.name], limits) for row in rows]
    for average in averages_of(rows, tasks):
        parts = [plan for row in average.rows if (plan := plans[row.name]) is not None]
        is_wanted = average.is_told or limits.on(average.scope, average.name)
        if is_wanted and len(parts) == len(average.rows) and _are_apart(average.rows):
            found.append(_of_average(average, parts, told, limits))
    return found


class _Limits:
    """What the gate asks, by where."""

    def __init__(self, gate: GateSpec | None, rows: list[str]) -> None:
        self._all = list(gate.limits(rows)) if gate else []
        self._is_point = gate is not None and gate.decide == "point"

    def on(self, scope: Scope, name: str) -> list[tuple[Kind, float]]:
        return [(kind, limit) for where, which, kind, limit in self._all if (where, which) == (scope, name)]

    def against(self, scope: Scope, name: str, plan: AnyPlan, has_score: bool) -> tuple[AskedLimit, ...]:
        """A limit on a score that is only assumed would be held against nothing."""
        judged = _by_point(plan) if self._is_point else plan
        return tuple(
            _ask(kind, limit, judged) for kind, limit in self.on(scope, name) if has_score or kind != "min_score"
        )


def _of_row(
    row: RowRecord, tasks: Mapping[str, TaskRecord], plan: AnyPlan | None, prior: Prior, limits: _Limits
) -> RowForecast:
    made = RowForecast("task", row.name, sum(tasks[name].items_selected for name in row.tasks))
    if plan is None:
        return made
    return replace(
        _shown(made, plan),
        score_is_from=prior.score.run if prior.score else None,
        flip_rate=prior.flips.value if prior.flips else ASSUMED_FLIPS,
        flips_are_from=prior.flips.run if prior.flips else None,
        asked=limits.against("task", row.name, plan, prior.score is not None),
    )


def _of_average(
    average: Average, parts: Sequence[AnyPlan], priors: Mapping[str, Prior], limits: _Limits
) -> RowForecast:
    plan = parts[0] if len(parts) == 1 else MeanPlan(tuple(parts))
    scores = [priors[row.name].score for row in average.rows]
    runs = dict.fromkeys(score.run for score in scores if score is not None)
    is_stored = None not in scores
    return replace(
        _shown(RowForecast(average.scope, average.name, plan.n), plan),
        score_is_from=", ".join(runs) if is_stored else None,
        asked=limits.against(average.scope, average.name, plan, is_stored),
    )


def _plan_of(row: RowRecord, tasks: Mapping[str, TaskRecord], prior: Prior, confidence: float) -> AnyPlan | None:
    """None where the score is no share of what can be right."""
    score = prior.score.value if prior.score else ASSUMED_SCORE
    flips = prior.flips.value if prior.flips else ASSUMED_FLIPS
    sizes = [tasks[name].items_selected for name in row.tasks]
    if not all(tasks[name].higher_is_better for name in row.tasks) or not 0 <= score <= 1 or min(sizes) < 1:
        return None
    if row.rule == "mean":
        return MeanPlan(tuple(Plan(size, score, flips, confidence) for size in sizes))
    return Plan(sum(sizes), score, flips, confidence)


def _by_point(plan: AnyPlan) -> AnyPlan:
    """Held against limits by what is measured, not by the end of its interval."""
    if isinstance(plan, MeanPlan):
        return MeanPlan(tuple(_by_point(part) for part in plan.parts))
    return replace(plan, confidence=None)


def _shown(made: RowForecast, plan: AnyPlan) -> RowForecast:
    drop, limit = smallest_drop(plan), finest_limit(plan)
    return replace(
        made,
        score=plan.score,
        smallest_drop=None if drop is None else 100 * drop,
        finest_limit=None if limit is None else 100 * limit,
    )


def _ask(kind: Kind, limit: float, plan: AnyPlan) -> AskedLimit:
    """A limit on the drop in points is held as the recovery that it leaves at the score that is expected."""
    if kind == "min_score":
        finest = 100 * finest_score(plan)
        return AskedLimit(kind, limit, finest, limit > finest, items_for_score(plan, limit / 100))
    highest = finest_limit(plan)
    if kind == "min_recovery":
        finest_recovery = None if highest is None else 100 * highest
        is_too_fine = limit > (finest_recovery or 0.0)
        return AskedLimit(kind, limit, finest_recovery, is_too_fine, items_for_limit(plan, limit / 100))
    least = None if highest is None else 100 * plan.score * (1 - highest)
    left = 1 - limit / (100 * plan.score) if plan.score else 1.0
    return AskedLimit(kind, limit, least, least is None or limit < least, items_for_limit(plan, max(left, 0.0)))


def _are_apart(rows: Sequence[RowRecord]) -> bool:
    """Rows that share items are not independent, so nothing is known of how far their mean may lie."""
    leaves = [leaf for row in rows for leaf in row.tasks]
    return len(set(leaves)) == len(leaves)
