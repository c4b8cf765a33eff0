"""What limits are held against: the rows and averages of a comparison, found by name before anything is judged."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from evalcard.errors import UserError
from evalcard.gate.spec import GateSpec
from evalcard.gate.verdict import Kind, Scope
from evalcard.results.compared import ComparedRow, Comparison, CompressedScore
from evalcard.results.records import RunRecord


@dataclass(frozen=True, slots=True)
class Target:
    """One limit and the row or average that it is on."""

    scope: Scope
    name: str
    kind: Kind
    limit: float
    """In percent or points (see ``Bounds``)."""
    row: ComparedRow | None
    """None where the run has it, but nothing of it was scored."""
    parts: tuple[ComparedRow, ...]
    """The rows that an average is taken over; a row is its own only part."""
    touches: frozenset[str]
    """Rows whose findings bear on it: its parts, and rows of the run that should have been among them."""

    @property
    def is_average(self) -> bool:
        return self.row is not None and self.row not in self.parts

    @property
    def where(self) -> str:
        """For a person."""
        return {"task": self.name, "average": f"average of {self.name}", "overall": "overall average"}[self.scope]

    def score_of(self, slug: str) -> CompressedScore | None:
        scores = self.row.compressed if self.row is not None else []
        return next((score for score in scores if score.model == slug), None)


def find_targets(comparison: Comparison, spec: GateSpec, run: RunRecord | None = None) -> list[Target]:
    """Everything that is asked, in the order of ``GateSpec.limits``.

    Raises UserError where nothing is asked; for a limit on a row, category or overall average that is not there, naming
    what is; for a least score where lower is better; and for what a run that stopped early cannot be asked.
    """
    if spec.asks_nothing:
        raise UserError("the gate has no limit. Give one, such as min_recovery 99 (--min-recovery 99).")
    _refuse_beyond_sequential(comparison, spec)
    missing = _unscored(comparison, run)
    names = [*(row.task for row in comparison.tasks), *missing]
    _check_rows(names, spec)
    found = []
    for scope, name, kind, limit in spec.limits(names):
        row, parts, unscored = _find(comparison, missing, scope, name)
        touches = frozenset(part.task for part in parts) | frozenset(unscored)
        found.append(Target(scope, name, kind, limit, row, parts, touches))
    _refuse_least_score(found)
    return found


def _unscored(comparison: Comparison, run: RunRecord | None) -> dict[str, str]:
    """Rows of the run on which the baseline has no score, with their categories; health tells why."""
    if run is None:
        return {}
    scored = {row.task for row in comparison.tasks}
    categories = {task.name: task.category for task in run.tasks}
    return {row.name: categories[row.tasks[0]] for row in run.rows if row.name not in scored}


def _find(
    comparison: Comparison, missing: dict[str, str], scope: Scope, name: str
) -> tuple[ComparedRow | None, tuple[ComparedRow, ...], Iterable[str]]:
    """(row or average, its parts, rows that should be among these)."""
    if scope == "task":
        row = next((row for row in comparison.tasks if row.task == name), None)
        return row, (row,) if row else (), [name]
    if scope == "average":
        parts = tuple(row for row in comparison.tasks if row.category == name)
        unscored = [row for row, category in missing.items() if category == name]
        stored = next((row for row in comparison.averages if row.task == name), None)
        _check_average(f"the average of {name}", stored, parts, unscored, _categories(comparison))
        return stored or (parts[0] if len(parts) == 1 else None), parts, unscored
    parts = tuple(comparison.tasks)
    stored = comparison.overall
    if stored is None and len({row.category for row in parts}) == 1:
        stored = next(iter(comparison.averages), None)
    _check_average("the overall average", stored, parts, list(missing), _categories(comparison))
    return stored or (parts[0] if len(parts) == 1 else None), parts, list(missing)


def _categories(comparison: Comparison) -> list[str]:
    return list(dict.fromkeys(row.category for row in comparison.tasks))


def _check_average(
    what: str, stored: ComparedRow | None, parts: Sequence[ComparedRow], missing: Sequence[str], known: Sequence[str]
) -> None:
    """Raises UserError where there is no such average, unless that is because nothing was scored."""
    if not known or (not parts and missing):
        return
    if not parts:
        raise UserError(
            f"there is a limit on {what}, but the run has no such category. Its categories are: {', '.join(known)}."
        )
    if stored is None and len(parts) > 1:
        lower = [row.task for row in parts if not row.higher_is_better]
        why = f"lower is better on {', '.join(lower)} and higher on the others" if lower else "it was not stored"
        raise UserError(
            f"there is a limit on {what}, but there is none: {why}. "
            f"Set limits on the rows instead: {', '.join(row.task for row in parts)}."
        )


def _check_rows(names: Sequence[str], spec: GateSpec) -> None:
    unknown = [name for name in spec.tasks if name not in names]
    if unknown:
        raise UserError(
            f"there is a limit on {', '.join(unknown)}, but the run has no such task. "
            f"Its tasks are: {', '.join(names) or 'none'}."
        )


def _refuse_least_score(targets: Sequence[Target]) -> None:
    for target in targets:
        if target.kind == "min_score" and target.row is not None and not target.row.higher_is_better:
            raise UserError(
                f"min_score {target.limit:g} is asked of {target.where}, but lower is better for its metric "
                f"{target.row.metric}. Use min_recovery or max_drop there, and name the rows that min_score is for."
            )


def _refuse_beyond_sequential(comparison: Comparison, spec: GateSpec) -> None:
    """A run that stopped early knows of its rows' recovery only, at the confidence of its test."""
    early = [row for row in comparison.tasks if any(score.sequential for score in row.compressed)]
    if not early:
        return
    (first, *_) = [score.sequential for score in early[0].compressed if score.sequential]
    assert first is not None
    asked = next(_beyond(early, spec, first.confidence), None)
    if asked is not None:
        raise UserError(
            f"the run was to stop early ({early[0].task} used {first.used} of {first.items} items), so it can be asked "
            f"for min_recovery of its rows ({', '.join(row.task for row in early)}) at a confidence of "
            f"{first.confidence:g} by 'interval' only, got {asked}. For anything else, run it without --sequential."
        )


def _beyond(early: Sequence[ComparedRow], spec: GateSpec, confidence: float) -> Iterator[str]:
    for name, bounds in spec.averages.items():
        yield from (f"{kind} of the average of {name}" for kind, _ in bounds)
    yield from (f"{kind} of the overall average" for kind, _ in spec.overall)
    for row in early:
        yield from (f"{kind} of {row.task}" for kind, _ in spec.of_row(row.task) if kind != "min_recovery")
    if spec.decide != "interval":
        yield f"the decision by {spec.decide!r}"
    if spec.confidence != confidence:
        yield f"a confidence of {spec.confidence:g}"
