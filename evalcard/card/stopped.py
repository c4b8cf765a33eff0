"""Runs that stopped as soon as their gate was decided: how far each row went."""

from dataclasses import dataclass

from evalcard.card import numbers
from evalcard.card.tables import interval_of, score_of
from evalcard.results.compared import Comparison
from evalcard.results.records import RunRecord


@dataclass(frozen=True, slots=True)
class StoppedLine:
    """One row of a sequential run."""

    task: str
    used: int
    items: int
    share: str
    """Of the items that were used."""
    limit: str
    decision: str | None
    """None where the run ended before it was decided."""
    interval: str
    confidence: str
    """In percent."""


def is_sequential(run: RunRecord, comparison: Comparison) -> bool:
    """Whether the run was to stop early. Then no score of it is published as one of a full set, not even that of a row
    which went through to the end: which rows do is no matter of chance."""
    scores = (score for row in comparison.tasks for score in row.compressed)
    return bool(run.sequential) or any(score.sequential is not None for score in scores)


def stopped_lines(comparison: Comparison, slug: str) -> tuple[StoppedLine, ...]:
    """Every row with a sequential test, whether it stopped or not."""
    lines = []
    for row in comparison.tasks:
        score = score_of(row, slug)
        if score is not None and score.sequential is not None:
            one = score.sequential
            lines.append(
                StoppedLine(
                    task=row.task,
                    used=one.used,
                    items=one.items,
                    share=f"{100 * one.used / one.items:.0f} %",
                    limit=f"{one.limit:g} %",
                    decision=one.decision,
                    interval=numbers.interval(one.low, one.high) or interval_of(score),
                    confidence=f"{100 * one.confidence:g}",
                )
            )
    return tuple(lines)
