"""Scores of rows as exact fractions, their standard errors, and recovery: where it is defined and where it is not."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from evalcard.results.journal import Address
from evalcard.results.records import ItemId

MIN_RIGHT = 5
"""Items' worth of right answers below which the baseline is too weak to divide by: one item moves recovery by 20+."""
MOST_RATIO = 10**50
"""A recovery beyond this factor is no figure: the denominator is as good as 0."""
Z_95 = 1.959963984540054
"""97.5 % quantile of the normal distribution."""

Values = Mapping[Address, Fraction]
"""One model's scores of one task by (item, repeat)."""
Rule = Literal["task", "size", "mean"]


@dataclass(frozen=True, slots=True)
class RowScore:
    """One model on one row."""

    score: Fraction
    stderr: float | None
    """None below two items, in any of the tasks where these weigh the same."""
    n: int
    """Items."""
    right: Fraction
    """Sum of the item scores: how many items' worth the model has right."""
    answers: tuple[Fraction, int] | None = None
    """(right, all) answers where items were answered several times; None where there is one answer to each."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """Recovery in percent, exact; None with the reason why there is none."""

    value: Fraction | None
    reason: str | None = None


def score_row(rule: Rule, tasks: Sequence[Values]) -> RowScore | None:
    """Score a row over its tasks: ``mean`` weighs tasks alike, ``size`` and ``task`` weigh items alike.

    An item's score is the mean over its repeats. Tasks without answers do not enter; None where none has any.
    """
    pools = [means for means in map(_item_means, tasks) if means]
    if not pools:
        return None
    if rule != "mean":
        pools = [[mean for pool in pools for mean in pool]]
    n = sum(map(len, pools))
    right = sum((sum(pool, Fraction(0)) for pool in pools), Fraction(0))
    score = plain_mean([plain_mean(pool) for pool in pools])
    values = [value for task in tasks for value in task.values()]
    answers = (sum(values, Fraction(0)), len(values)) if len(values) > n else None
    return RowScore(score, mean_stderr([standard_error(pool) for pool in pools]), n, right, answers)


def plain_mean(values: Sequence[Fraction]) -> Fraction:
    """Exact mean of at least one value."""
    assert values, "mean of nothing"
    return sum(values, Fraction(0)) / len(values)


def standard_error(values: Sequence[Fraction]) -> float | None:
    """Sample standard deviation (n - 1) over sqrt(n); None below two values."""
    n = len(values)
    if n < 2:
        return None
    mean = float(plain_mean(values))
    variance = math.fsum((float(value) - mean) ** 2 for value in values) / (n - 1)
    return math.sqrt(variance / n)


def mean_stderr(stderrs: Iterable[float | None]) -> float | None:
    """Standard error of the plain mean of independent scores; None where any of them is unknown."""
    known = list(stderrs)
    squares = [stderr**2 for stderr in known if stderr is not None]
    return math.sqrt(math.fsum(squares)) / len(known) if len(squares) == len(known) else None


def wilson_low(score: float, n: int) -> float:
    """Lower end of the 95 % Wilson score interval of a share (E. B. Wilson, 1927)."""
    z2 = Z_95**2
    centre = score + z2 / (2 * n)
    spread = Z_95 * math.sqrt(score * (1 - score) / n + z2 / (4 * n * n))
    # (centre - spread) / (1 + z2 / n) without its cancellation: the product of both ends is score^2 / (1 + z2 / n).
    return score**2 / (centre + spread)


def baseline_fault(baseline: RowScore, chance: float, higher_is_better: bool) -> str | None:
    """Why nothing may be divided by this baseline; None where it is sound."""
    if baseline.n < 2:
        return "fewer than 2 items"
    if baseline.score == 0:
        return "the baseline scores 0"
    if not higher_is_better:
        return None
    score = float(baseline.score)
    if chance > 0 and (not 0 <= score <= 1 or wilson_low(score, baseline.n) <= chance):
        figures = f"{100 * score:.2f} % on {baseline.n} items, chance {100 * chance:.2f} %"
        return f"the baseline is not shown to be above chance ({figures})"
    if baseline.right < MIN_RIGHT:
        return _too_few(baseline)
    return None


def _too_few(baseline: RowScore) -> str:
    """Counted in what was graded: several answers to an item make fractions of it right."""
    if baseline.answers is None:
        return f"the baseline has only {float(baseline.right):g} of {baseline.n} items right, fewer than {MIN_RIGHT}"
    right, answers = baseline.answers
    return f"the baseline has only {float(right):g} of {answers} answers right, fewer than {MIN_RIGHT} items' worth"


def recover(baseline: Fraction, compressed: Fraction, higher_is_better: bool) -> Recovered:
    """100 * compressed / baseline from unrounded scores; turned round where lower is better."""
    top, bottom = (compressed, baseline) if higher_is_better else (baseline, compressed)
    if bottom == 0:
        return Recovered(None, f"the {'baseline' if higher_is_better else 'compressed model'} scores 0")
    if abs(top / bottom) > MOST_RATIO:
        return Recovered(None, f"the {'baseline' if higher_is_better else 'compressed model'} scores as good as 0")
    return Recovered(100 * top / bottom)


def recover_row(baseline: RowScore, compressed: RowScore, chance: float, higher_is_better: bool) -> Recovered:
    """Recovery of one row, or the reason why it means nothing here."""
    fault = baseline_fault(baseline, chance, higher_is_better)
    return Recovered(None, fault) if fault else recover(baseline.score, compressed.score, higher_is_better)


def _item_means(values: Values) -> list[Fraction]:
    """Mean over repeats of each item."""
    repeats: dict[ItemId, list[Fraction]] = defaultdict(list)
    for (item_id, _), value in values.items():
        repeats[item_id].append(value)
    return [plain_mean(answers) for answers in repeats.values()]
