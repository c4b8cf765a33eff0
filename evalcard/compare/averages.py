"""Averages, of a category or of all rows: the plain mean of the rows' scores, whatever their sizes, and the ratio of
these means."""

from collections.abc import Sequence

from evalcard.compare.evidence import average_pairs
from evalcard.compare.recovery import Recovered, mean_stderr, plain_mean, recover
from evalcard.compare.rows import RowScores, stored_difference, stored_recovery
from evalcard.results.compared import ComparedRow, CompressedScore, ScoreRecord
from evalcard.results.records import ModelRecord, RunRecord

AVERAGE = "average"
"""Stands where a row has its metric."""


def average_rows(rows: Sequence[RowScores], run: RunRecord, name: str) -> ComparedRow | None:
    """The average over some rows, named by what they have in common.

    None for a single row, and where higher is better on some rows and lower on others: such scores have no mean.
    """
    if len(rows) < 2 or len({row.higher_is_better for row in rows}) > 1:
        return None
    complete = [model for model in run.models[1:] if all(model.slug in row.compressed for row in rows)]
    return ComparedRow(
        task=name,
        metric=AVERAGE,
        n=len(rows),
        baseline=ScoreRecord(
            score=float(plain_mean([row.baseline.score for row in rows])),
            stderr=mean_stderr(row.baseline.stderr for row in rows),
        ),
        compressed=[_average_of(model, rows) for model in complete],
        chance=sum(row.chance for row in rows) / len(rows),
        category=name,
        tasks=[row.record.name for row in rows],
        higher_is_better=rows[0].higher_is_better,
    )


def _average_of(model: ModelRecord, rows: Sequence[RowScores]) -> CompressedScore:
    mine = [row.compressed[model.slug] for row in rows]
    score = plain_mean([on_row.score.score for on_row in mine])
    recovered = _recovery_of_average(model, rows)
    known = [on_row.paired for on_row in mine if on_row.paired is not None]
    # Rows that share items are not independent, so nothing is known of how far their mean may lie.
    leaves = [leaf for row in rows for leaf in row.record.tasks]
    paired = average_pairs(known) if len(known) == len(mine) and len(set(leaves)) == len(leaves) else None
    baseline = plain_mean([row.baseline.score for row in rows])
    return CompressedScore(
        model=model.slug,
        scheme=model.scheme,
        score=float(score),
        stderr=mean_stderr(on_row.score.stderr for on_row in mine),
        recovery=stored_recovery(recovered, paired, rows[0].higher_is_better),
        reason=recovered.reason,
        difference=stored_difference(score - baseline, paired),
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
