"""What a reader of a verdict should know where llm-compressor's file asked: another rule, other settings, what is left.

Its test looks at every metric it names and warns below figures that it expects. The gate judges a row by its one
measure; the others are told, without an interval, and the expected figures as well.
"""

import math
from collections.abc import Iterator

from evalcard.errors import UserError
from evalcard.gate.lmeval_yaml import LmevalSetup, Measure, as_percent, name_of
from evalcard.results.compared import ComparedRow, Comparison, CompressedScore, ScoreRecord
from evalcard.results.records import RunRecord, TaskRecord

Note = tuple[str | None, str]
"""(slug, text); None where it concerns every compressed model."""
_WARNED_BELOW = 0.95
"""Of an expected figure: below this share of it the test warns, and passes."""


def check_setup(setup: LmevalSetup, comparison: Comparison, run: RunRecord | None) -> None:
    """Raises UserError where the row is not scored by a measure of the file's, or lower is better there."""
    row = _row(setup, comparison)
    if row is None:
        return  # which the gate says of any limit
    if not row.higher_is_better:
        raise UserError(
            f"{setup.path} is a test of llm-compressor, whose rule is for scores where higher is better; lower is "
            f"better for {row.metric} of {row.task}. Write a gate file: tasks: {{{row.task}: {{min_recovery: "
            f"{as_percent(setup.threshold):g}}}}}."
        )
    judged = _judged(row, run)
    if setup.measures and judged is not None and judged not in setup.measures:
        raise UserError(
            f"{setup.path} asks for the recovery of {_listed(setup.measures)} on {row.task}, but that row is scored by "
            f"{name_of(judged)}. Evaluate the task as the file does, or write a gate file with a limit on {row.task}."
        )


def notes_of(setup: LmevalSetup, comparison: Comparison, run: RunRecord | None) -> Iterator[Note]:
    """(slug or None, text) of what a reader of the verdict should know: other rules, other settings, what is left."""
    name = setup.path.name
    yield (
        None,
        (
            f"{name} is a test of llm-compressor: it asks {100 * setup.threshold:g} % of {setup.task}. Its own rule "
            "rounds the recovery to two decimals first, so that half a percent less passes there; here nothing is "
            "rounded, and the limit is decided as the verdict says."
        ),
    )
    row = _row(setup, comparison)
    if row is None:
        return
    yield from ((None, f"{name}: {text}") for text in _differences(setup, row, run))
    yield from _other_rule(setup, row)
    yield from _other_measures(setup, row, run)
    yield from _expectations(setup, row, run)


def _row(setup: LmevalSetup, comparison: Comparison) -> ComparedRow | None:
    return next((row for row in comparison.tasks if row.task == setup.task), None)


def _tasks(row: ComparedRow, run: RunRecord | None) -> list[TaskRecord]:
    return [task for task in run.tasks if task.name in row.tasks] if run is not None else []


def _judged(row: ComparedRow, run: RunRecord | None) -> Measure | None:
    """What the row is scored by; None where that is not known."""
    filters = {task.filter for task in _tasks(row, run)}
    return (row.metric, filters.pop()) if len(filters) == 1 else None


def _differences(setup: LmevalSetup, row: ComparedRow, run: RunRecord | None) -> Iterator[str]:
    """What was asked in another way than the threshold was set for."""
    if run is None:
        yield "whether the run was set up as it says is not known: there is no run record."
        return
    tasks = _tasks(row, run)
    shots = sorted({task.num_fewshot for task in tasks})
    if shots != [setup.num_fewshot]:
        yield f"its limit is for {setup.num_fewshot} worked examples; the run gave {'/'.join(map(str, shots))}."
    items = sum(task.items_selected for task in tasks)
    whole = sum(task.items_total for task in tasks)
    wanted = whole if setup.limit is None else min(setup.limit * len(tasks), whole)
    if items != wanted:
        limit = "all items" if setup.limit is None else f"the first {setup.limit} items"
        yield f"its limit is for {limit}; the run has {items} of {whole}."
    base = run.models[0] if run.models else None
    if setup.base_model and base is not None and setup.base_model not in (base.hub_id, base.name):
        yield f"it is a test of {setup.base_model}; the run's baseline is {base.hub_id or base.name}."


def _other_rule(setup: LmevalSetup, row: ComparedRow) -> Iterator[Note]:
    """Where rounding takes the value to the limit's other side."""
    for one in row.compressed:
        share = one.recovery.value / 100 if one.recovery is not None else math.inf
        if share < setup.threshold <= round(share, 2):
            told = f"the recovery of {100 * share:.3f} % is below {100 * setup.threshold:g} %"
            yield one.model, _said(setup, one, f"{told}; rounded as {setup.path.name}'s test does it, it passes there.")


def _other_measures(setup: LmevalSetup, row: ComparedRow, run: RunRecord | None) -> Iterator[Note]:
    """The test looks at each; here they are told, without an interval, and not judged."""
    judged = _judged(row, run)
    for measure in setup.measures if judged is not None else ():
        if measure == judged:
            continue
        what = f"{name_of(measure)}, which {setup.path.name} names too,"
        base = _score_by(row.baseline, measure)
        if not base:
            yield None, f"{setup.task}: {what} is not in this comparison."
            continue
        for one in row.compressed:
            score = _score_by(one, measure)
            if score is not None:
                said = f"{what} has a recovery of {100 * score / base:.2f} %; it is not judged here."
                yield one.model, _said(setup, one, said)


def _score_by(score: ScoreRecord | CompressedScore, measure: Measure) -> float | None:
    return next((one.score for one in score.others if (one.metric, one.filter) == measure), None)


def _expectations(setup: LmevalSetup, row: ComparedRow, run: RunRecord | None) -> Iterator[Note]:
    """Expected scores only warn in the test, and so they do here."""
    judged = _judged(row, run)
    if judged is None or judged not in setup.expected:
        return
    expected = setup.expected[judged]
    for one in row.compressed:
        if one.score < _WARNED_BELOW * expected:
            told = f"{name_of(judged)} is {one.score:.4f}, below {100 * _WARNED_BELOW:g} % of the {expected:g}"
            yield one.model, _said(setup, one, f"{told} that {setup.path.name} expects; its test warns and passes.")


def _said(setup: LmevalSetup, one: CompressedScore, text: str) -> str:
    return f"{setup.task}, {one.model}: {text}"


def _listed(measures: tuple[Measure, ...]) -> str:
    return " and ".join(map(name_of, measures))
