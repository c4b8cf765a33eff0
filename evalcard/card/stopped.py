"""Runs that stopped as soon as their gate was decided, or that never came to their end: how far they went."""

from dataclasses import dataclass
from typing import Any

from evalcard.card import numbers
from evalcard.card.paths import without_paths
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


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A run without an end: only models with all their answers are compared."""

    complete: tuple[str, ...]
    """Models with all answers, the baseline first where it is among them."""
    missing: tuple[str, ...]
    """Models without; what was asked for and is not known by name is in no list."""


def unfinished_of(run: RunRecord) -> Unfinished | None:
    """None where the run came to its end."""
    if run.finished is not None:
        return None
    complete = [_label(model.name, model.scheme) for model in run.models]
    given = [run.resolved.get("baseline"), *(run.resolved.get("compressed") or ())]
    asked = [_asked(one) for one in given if isinstance(one, dict)]
    # Models are evaluated in the order in which they were asked for.
    return Unfinished(tuple(complete), tuple(asked[len(complete) :]))


def _asked(model: dict[str, Any]) -> str:
    source = str(model.get("source", ""))
    name = {"@demo": "evalcard-demo"}.get(source, source.rstrip("/").rsplit("/", 1)[-1])
    return _label(name, model.get("scheme"))


def _label(name: str, scheme: str | None) -> str:
    last = without_paths(name).rsplit("/", 1)[-1]
    return f"{last} {scheme}" if scheme else last


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
