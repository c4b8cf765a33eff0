"""Rows of a comparison: which tasks each pools, what every model scores on it, and how that is written down."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from evalcard.compare.evidence import difference_interval, pair_row, ratio_interval
from evalcard.compare.measures import Measures, measures_of
from evalcard.compare.paired import Flips, count_flips, has_repeats, mcnemar_p
from evalcard.compare.pairing import Answers
from evalcard.compare.recovery import Recovered, RowScore, Values, recover_row, score_row
from evalcard.errors import ComparisonRefused
from evalcard.results.compared import (
    ComparedRow,
    CompressedScore,
    DifferenceRecord,
    PairedRecord,
    RecoveryRecord,
    ScoreRecord,
)
from evalcard.results.records import RowRecord, RunRecord, SequentialRecord, TaskRecord

CONFIDENCE = 0.95
"""Of every interval."""


@dataclass(frozen=True, slots=True)
class ModelOnRow:
    """A compressed model on one row."""

    score: RowScore
    recovered: Recovered
    flips: Flips | None
    mcnemar_p: float | None
    one_sided: int
    """Samples that only one of the two models has."""
    paired: PairedRecord | None
    """None where some are."""
    measures: Measures


@dataclass(frozen=True, slots=True)
class RowScores:
    """One row with all models, scores exact."""

    record: RowRecord
    metric: str
    category: str
    chance: float
    higher_is_better: bool
    baseline: RowScore
    baseline_measures: Measures
    compressed: Mapping[str, ModelOnRow]
    """By slug; a model without any answer on the row is not in it."""


def score_rows(run: RunRecord, answers: Mapping[str, Mapping[str, Answers]]) -> list[RowScores]:
    """All rows on which the baseline has answers; health reports the others."""
    tasks = {task.name: task for task in run.tasks}
    rows = (_score_row(record, [tasks[name] for name in record.tasks], run, answers) for record in run.rows)
    return [row for row in rows if row is not None]


def compared_row(row: RowScores, run: RunRecord) -> ComparedRow:
    """The stored form of a row."""
    early = next((one for one in run.sequential if one.row == row.record.name), None)
    return ComparedRow(
        task=row.record.name,
        metric=row.metric,
        n=row.baseline.n,
        baseline=ScoreRecord(
            score=float(row.baseline.score), stderr=row.baseline.stderr, **_told(row.baseline_measures)
        ),
        compressed=[_stored(row, m.slug, m.scheme, early) for m in run.models if m.slug in row.compressed],
        chance=row.chance,
        category=row.category,
        tasks=list(row.record.tasks),
        higher_is_better=row.higher_is_better,
    )


def stored_recovery(recovered: Recovered, paired: PairedRecord | None, higher_is_better: bool) -> RecoveryRecord | None:
    """Rounded once, to the nearest float: two exact recoveries keep their order."""
    if recovered.value is None:
        return None
    found = ratio_interval(paired, CONFIDENCE, higher_is_better) if paired else None
    if found is None:
        return RecoveryRecord(value=float(recovered.value))
    high = None if math.isinf(found.high) else 100 * found.high
    return RecoveryRecord(value=float(recovered.value), low=100 * found.low, high=high)


def stored_difference(value: Fraction, paired: PairedRecord | None) -> DifferenceRecord | None:
    """``value`` is exact, and rounded once; None where an item was answered by one of the two models only, or there
    are fewer than two."""
    if paired is None:
        return None
    found = difference_interval(paired, CONFIDENCE)
    ends = {"low": found.low, "high": found.high} if found else {}
    return DifferenceRecord(value=float(value), **ends)


def _score_row(
    record: RowRecord, tasks: Sequence[TaskRecord], run: RunRecord, answers: Mapping[str, Mapping[str, Answers]]
) -> RowScores | None:
    given = {model.slug: [answers.get(model.slug, {}).get(task.name, {}) for task in tasks] for model in run.models}
    ours = given[run.models[0].slug]
    values = [_values(one) for one in ours]
    baseline = score_row(record.rule, values)
    if baseline is None:
        return None
    higher = _shared_direction(record, tasks)
    chance = row_chance(record, tasks, [len(answered) for answered in values])
    compressed = {
        model.slug: scored
        for model in run.models[1:]
        if (scored := _on_row(record, baseline, values, given[model.slug], chance, higher)) is not None
    }
    metric = " / ".join(dict.fromkeys(task.metric for task in tasks))
    measures = measures_of(record.rule, ours, values, higher)
    return RowScores(record, metric, tasks[0].category, chance, higher, baseline, measures, compressed)


def _values(answers: Answers) -> Values:
    return {address: answer.value for address, answer in answers.items()}


def _shared_direction(record: RowRecord, tasks: Sequence[TaskRecord]) -> bool:
    directions = {task.higher_is_better for task in tasks}
    if len(directions) != 1:
        lower = ", ".join(task.name for task in tasks if not task.higher_is_better)
        raise ComparisonRefused(
            f"the row {record.name} pools tasks where higher is better with tasks where lower is better ({lower}). "
            "Name the tasks one by one instead of the group."
        )
    return directions.pop()


def row_chance(record: RowRecord, tasks: Sequence[TaskRecord], answers: Sequence[int]) -> float:
    """The score of guessing, weighted as the row weighs its tasks; ``answers`` are the baseline's to each of them."""
    weights = [count if record.rule == "size" else 1 for count in answers]
    return sum(task.chance * weight for task, weight in zip(tasks, weights, strict=True)) / sum(weights)


def _on_row(
    record: RowRecord, baseline: RowScore, ours: Sequence[Values], given: Sequence[Answers], chance: float, higher: bool
) -> ModelOnRow | None:
    theirs = [_values(one) for one in given]
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
    measures = measures_of(record.rule, given, theirs, higher)
    paired = None if one_sided else pair_row(record.rule, ours, theirs)
    return ModelOnRow(score, recovered, flips, p_value, one_sided, paired, measures)


def _stored(row: RowScores, slug: str, scheme: str | None, early: SequentialRecord | None) -> CompressedScore:
    on_row = row.compressed[slug]
    # What supposes a number of items that was fixed beforehand does not hold where looks on the way decided it.
    paired = None if early else on_row.paired
    difference = on_row.score.score - row.baseline.score
    return CompressedScore(
        model=slug,
        scheme=scheme,
        score=float(on_row.score.score),
        stderr=on_row.score.stderr,
        recovery=_recovery(row, on_row, early),
        reason=on_row.recovered.reason,
        difference=DifferenceRecord(value=float(difference)) if early else stored_difference(difference, paired),
        chance_adjusted=_above_chance(row, on_row),
        error_ratio=_error_ratio(row, on_row),
        paired=paired,
        lost=on_row.flips.lost if on_row.flips else None,
        gained=on_row.flips.gained if on_row.flips else None,
        mcnemar_p=None if early else on_row.mcnemar_p,
        sequential=early,
        **_told(on_row.measures),
    )


def _recovery(row: RowScores, on_row: ModelOnRow, early: SequentialRecord | None) -> RecoveryRecord | None:
    """With the ends of its confidence sequence where the run stopped early, else of its interval."""
    if early is None or on_row.recovered.value is None:
        return stored_recovery(on_row.recovered, on_row.paired, row.higher_is_better)
    return RecoveryRecord(value=float(on_row.recovered.value), low=early.low, high=early.high)


def _above_chance(row: RowScores, on_row: ModelOnRow) -> float | None:
    """Recovery of what lies above guessing; where recovery itself is undefined, so is this."""
    if on_row.recovered.value is None or not row.higher_is_better:
        return None
    return 100 * (float(on_row.score.score) - row.chance) / (float(row.baseline.score) - row.chance)


def _error_ratio(row: RowScores, on_row: ModelOnRow) -> float | None:
    """For scores that are shares of items."""
    before, after = 1 - row.baseline.score, 1 - on_row.score.score
    is_share = row.higher_is_better and 0 < before <= 1 and 0 <= after <= 1
    return float(after / before) if is_share else None


def _told(measures: Measures) -> dict[str, Any]:
    return {name: getattr(measures, name) for name in ("outcomes", "pass_at", "others")}
