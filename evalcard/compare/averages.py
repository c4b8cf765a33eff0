"""The average of a category: the plain mean of its rows' scores, whatever their sizes, and the ratio of these means."""

from collections.abc import Sequence

from evalcard.compare.evidence import average_pairs
from evalcard.compare.recovery import Recovered, mean_stderr, plain_mean, recover
from evalcard.compare.rows import RowScores, stored_difference, stored_recovery
from evalcard.results.records import ComparedRow, CompressedScore, ModelRecord, RunRecord, ScoreRecord

AVERAGE = "average"
"""Stands where a row has its metric."""


def average_rows(rows: Sequence[RowScores], run: RunRecord) -> ComparedRow | None:
    """The average over the rows of one category.

    None for a single row, and where higher is better on some rows and lower on others: such scores have no mean.
    """
    if len(rows) < 2 or len({row.higher_is_better for row in rows}) > 1:
        return None
    complete = [model for model in run.models[1:] if all(model.slug in row.compressed for row in rows)]
    return ComparedRow(
        task=rows[0].category,
        metric=AVERAGE,
        n=len(rows),
        baseline=ScoreRecord(
            score=float(plain_mean([row.baseline.score for row in rows])),
            stderr=mean_stderr(row.baseline.stderr for row in rows),
        ),
        compressed=[_average_of(model, rows) for model in complete],
        chance=sum(row.chance for row in rows) / len(rows),
        category=rows[0].category,
        tasks=[row.record.name for row in rows],
    )


def _average_of(model: ModelRecord, rows: Sequence[RowScores]) -> CompressedScore:
    mine = [row.compressed[model.slug] for row in rows]
    score = plain_mean([on_row.score.score for on_row in mine])
    recovered = _recovery_of_average(model, rows)
    known = [on_row.paired for on_row in mine if on_row.paired is not None]
    paired = average_pairs(known) if len(known) == len(mine) else None
    return CompressedScore(
        model=model.slug,
        scheme=model.scheme,
        score=float(score),
        stderr=mean_stderr(on_row.score.stderr for on_row in mine),
        recovery=stored_recovery(recovered, paired, rows[0].higher_is_better),
        reason=recovered.reason,
        difference=stored_difference(paired),
        paired=paired,
        lost=None,
        gained=None,
        mcnemar_p=None,
    )


def _recovery_of_average(model: ModelRecord, rows: Sequence[RowScores]) -> Recovered:
    undefined = [row.record.name for row in rows if row.compressed[model.slug].recovered.value is None]
    if undefined:
        return Recovered(None, f"there is no recovery for {', '.join(undefined)}")
    baseline = plain_mean([row.baseline.score for row in rows])
    compressed = plain_mean([row.compressed[model.slug].score.score for row in rows])
    return recover(baseline, compressed, rows[0].higher_is_better)
