"""What a row tells of a model beside its score: how the answers ended, pass@k, and every other measure of them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from evalcard.compare.pairing import Answers, MeasureName
from evalcard.compare.passk import pass_at
from evalcard.compare.recovery import Rule, Values, score_row
from evalcard.results.compared import MetricScore
from evalcard.results.records import Outcome


@dataclass(frozen=True, slots=True)
class Measures:
    """In the form in which a row stores them."""

    outcomes: dict[Outcome, int]
    """All five; they sum to the samples."""
    pass_at: list[float]
    others: list[MetricScore]


def measures_of(rule: Rule, tasks: Sequence[Answers], values: Sequence[Values], higher_is_better: bool) -> Measures:
    """Measures of one model on one row; ``values`` are the primary scores of ``tasks``."""
    return Measures(
        outcomes=count_outcomes(tasks),
        pass_at=[float(one) for one in pass_at(rule, values)] if higher_is_better else [],
        others=_others(rule, tasks),
    )


def count_outcomes(tasks: Sequence[Answers]) -> dict[Outcome, int]:
    """How many answers came out how, each outcome named."""
    counts = Counter(answer.outcome for answers in tasks for answer in answers.values())
    found: dict[Outcome, int] = {outcome: counts[outcome] for outcome in get_args(Outcome)}
    assert sum(found.values()) == sum(map(len, tasks)), (counts, found)
    return found


def _others(rule: Rule, tasks: Sequence[Answers]) -> list[MetricScore]:
    """Measures that every answer of every task has; one that failed counts 0 in each, as it does in the score."""
    answered = [answers for answers in tasks if answers]
    found = []
    for name in _shared_names(answered):
        score = score_row(rule, [{at: answer.measure(name) for at, answer in answers.items()} for answers in answered])
        assert score is not None, name
        found.append(MetricScore(metric=name[0], filter=name[1], score=float(score.score)))
    return found


def _shared_names(tasks: Sequence[Answers]) -> list[MeasureName]:
    """In the order in which the first task's grading gives them."""
    graded = [answer for answers in tasks for answer in answers.values() if answer.outcome != "error"]
    if not graded:
        return []
    shared = set(graded[0].others).intersection(*(answer.others for answer in graded))
    return [name for name in graded[0].others if name in shared]
