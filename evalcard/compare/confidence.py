"""A comparison's intervals at another confidence: all that they follow from is stored with them."""

import math

from evalcard.compare.evidence import difference_interval, ratio_interval
from evalcard.errors import UserError
from evalcard.results.compared import ComparedRow, Comparison, CompressedScore, DifferenceRecord, RecoveryRecord


def at_confidence(comparison: Comparison, confidence: float) -> Comparison:
    """The same comparison with every interval at ``confidence``, from 0.5 to 1.

    Raises UserError for a run that was to stop early: its confidence sequence belongs to the bets that were made at the
    confidence it stopped by.
    """
    assert 0.5 < confidence < 1, confidence
    if confidence == comparison.confidence:
        return comparison
    _refuse_stopped(comparison, confidence)
    overall = _row(comparison.overall, confidence) if comparison.overall is not None else None
    update = {
        "tasks": [_row(row, confidence) for row in comparison.tasks],
        "averages": [_row(row, confidence) for row in comparison.averages],
        "overall": overall,
        "confidence": confidence,
    }
    return comparison.model_copy(update=update)


def _refuse_stopped(comparison: Comparison, confidence: float) -> None:
    early = [one.sequential for row in comparison.tasks for one in row.compressed if one.sequential is not None]
    if early:
        first = early[0]
        raise UserError(
            f"the run was to stop early ({first.row} used {first.used} of {first.items} items), so its intervals are "
            f"those of a confidence of {first.confidence:g}, got {confidence:g}. Leave out --confidence, or give "
            f"{first.confidence:g}; for another one, run it without --sequential."
        )


def _row(row: ComparedRow, confidence: float) -> ComparedRow:
    return row.model_copy(update={"compressed": [_score(one, row, confidence) for one in row.compressed]})


def _score(one: CompressedScore, row: ComparedRow, confidence: float) -> CompressedScore:
    if one.paired is None:
        return one
    update: dict[str, RecoveryRecord | DifferenceRecord] = {}
    if one.recovery is not None:
        ratio = ratio_interval(one.paired, confidence, row.higher_is_better)
        high = None if ratio is None or math.isinf(ratio.high) else 100 * ratio.high
        low = None if ratio is None else 100 * ratio.low
        update["recovery"] = RecoveryRecord(value=one.recovery.value, low=low, high=high)
    if one.difference is not None:
        change = difference_interval(one.paired, confidence)
        ends = {"low": change.low, "high": change.high} if change is not None else {}
        update["difference"] = DifferenceRecord(value=one.difference.value, **ends)
    return one.model_copy(update=update)
