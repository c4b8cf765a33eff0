"""Rows of a comparison: which tasks each pools, what every model scores on it, and how that is written down."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evalcard.compare.paired import Flips, count_flips, has_repeats, mcnemar_p
from evalcard.compare.pairing import Answers
from evalcard.compare.recovery import Recovered, RowScore, Values, recover_row, score_row
from evalcard.errors import ComparisonRefused
from evalcard.results.records import (
    ComparedRow,
    CompressedScore,
    RecoveryRecord,
    RowRecord,
    RunRecord,
    ScoreRecord,
    TaskRecord,
)


@dataclass(frozen=True, slots=True)
class ModelOnRow:
    """A compressed model on one row."""

    score: RowScore
    recovered: Recovered
    flips: Flips | None
    mcnemar_p: float | None
    one_sided: int
    """Samples that only one of the two models has."""


@dataclass(frozen=True, slots=True)
class RowScores:
    """One row with all models, scores exact."""

    record: RowRecord
    metric: str
    category: str
    chance: float
    higher_is_better: bool
    baseline: RowScore
    compressed: Mapping[str, ModelOnRow]
    """By slug; a model without any answer on the row is not in it."""


def score_rows(run: RunRecord, answers: Mapping[str, Mapping[str, Answers]]) -> list[RowScores]:
    """All rows on which the baseline has answers; health reports the others."""
    tasks = {task.name: task for task in run.tasks}
    rows = (_score_row(record, [tasks[name] for name in record.tasks], run, answers) for record in run.rows)
    return [row for row in rows if row is not None]


def compared_row(row: RowScores, run: RunRecord) -> ComparedRow:
    """The stored form of a row."""
    return ComparedRow(
        task=row.record.name,
        metric=row.metric,
        n=row.baseline.n,
        baseline=ScoreRecord(score=float(row.baseline.score), stderr=row.baseline.stderr),
        compressed=[_stored(row.compressed[m.slug], m.slug, m.scheme) for m in run.models if m.slug in row.compressed],
        chance=row.chance,
        category=row.category,
        tasks=list(row.record.tasks),
    )


def stored_recovery(recovered: Recovered) -> RecoveryRecord | None:
    """Rounded once, to the nearest float: two exact recoveries keep their order."""
    return None if recovered.value is None else RecoveryRecord(value=float(recovered.value))


def _score_row(
    record: RowRecord, tasks: Sequence[TaskRecord], run: RunRecord, answers: Mapping[str, Mapping[str, Answers]]
) -> RowScores | None:
    values = {model.slug: [_values(answers, model.slug, task) for task in tasks] for model in run.models}
    baseline_values = values[run.models[0].slug]
    baseline = score_row(record.rule, baseline_values)
    if baseline is None:
        return None
    higher = _shared_direction(record, tasks)
    chance = _chance(record, tasks, baseline_values)
    compressed = {
        model.slug: scored
        for model in run.models[1:]
        if (scored := _on_row(record, baseline, baseline_values, values[model.slug], chance, higher)) is not None
    }
    metric = " / ".join(dict.fromkeys(task.metric for task in tasks))
    return RowScores(record, metric, tasks[0].category, chance, higher, baseline, compressed)


def _values(answers: Mapping[str, Mapping[str, Answers]], slug: str, task: TaskRecord) -> Values:
    return {address: answer.value for address, answer in answers.get(slug, {}).get(task.name, {}).items()}


def _shared_direction(record: RowRecord, tasks: Sequence[TaskRecord]) -> bool:
    directions = {task.higher_is_better for task in tasks}
    if len(directions) != 1:
        lower = ", ".join(task.name for task in tasks if not task.higher_is_better)
        raise ComparisonRefused(
            f"the row {record.name} pools tasks where higher is better with tasks where lower is better ({lower}). "
            "Name the tasks one by one instead of the group."
        )
    return directions.pop()


def _chance(record: RowRecord, tasks: Sequence[TaskRecord], values: Sequence[Values]) -> float:
    """The score of guessing, weighted as the row weighs its tasks."""
    weights = [len(answered) if record.rule == "size" else 1 for answered in values]
    return sum(task.chance * weight for task, weight in zip(tasks, weights, strict=True)) / sum(weights)


def _on_row(
    record: RowRecord, baseline: RowScore, ours: Sequence[Values], theirs: Sequence[Values], chance: float, higher: bool
) -> ModelOnRow | None:
    score = score_row(record.rule, theirs)
    if score is None:
        return None
    one_sided = sum(len(a.keys() ^ b.keys()) for a, b in zip(ours, theirs, strict=True))
    if one_sided:
        recovered = Recovered(None, f"{one_sided} answers are there for one of the two models only")
    else:
        recovered = recover_row(baseline, score, chance, higher)
    flips = count_flips(ours, theirs, higher)
    tested = flips is not None and not has_repeats(ours)
    p_value = mcnemar_p(flips.lost, flips.gained) if flips is not None and tested else None
    return ModelOnRow(score, recovered, flips, p_value, one_sided)


def _stored(on_row: ModelOnRow, slug: str, scheme: str | None) -> CompressedScore:
    return CompressedScore(
        model=slug,
        scheme=scheme,
        score=float(on_row.score.score),
        stderr=on_row.score.stderr,
        recovery=stored_recovery(on_row.recovered),
        reason=on_row.recovered.reason,
        lost=on_row.flips.lost if on_row.flips else None,
        gained=on_row.flips.gained if on_row.flips else None,
        mcnemar_p=on_row.mcnemar_p,
    )
