"""What a number of items can show, before a run and after one that decided nothing. Pure; the standard library only.

All of it holds the very test that the interval inverts (compare/intervals.py) against the items that are expected, or
were found, so a forecast and the later verdict follow one rule. Scores, limits and drops are fractions.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

from evalcard.compare.intervals import Interval, PairedCounts, normal_quantile, ratio_statistic

ASSUMED_FLIPS = 0.05
"""Share of items that flip between a model and its compressed form where no run has told yet."""
ASSUMED_POWER = 0.8
"""How often what is there shall be shown: in four of five runs, as is usual in planning."""
_HALVINGS = 60


@dataclass(frozen=True, slots=True)
class Plan:
    """Items to come."""

    n: int
    score: float
    """The baseline's: stored, or supposed."""
    flip_rate: float = ASSUMED_FLIPS
    """Share of the items that flip, either way, where compression costs nothing."""
    confidence: float = 0.95
    power: float = ASSUMED_POWER

    def __post_init__(self) -> None:
        assert self.n >= 1 and 0 <= self.score <= 1 and 0 <= self.flip_rate <= 1, self
        assert 0.5 < self.confidence < 1 and 0 < self.power < 1, self

    @property
    def needed(self) -> float:
        """Expected test statistic, in standard errors, that gives significance with this power."""
        return normal_quantile(self.confidence) + NormalDist().inv_cdf(self.power)


def expected_counts(plan: Plan, recovery: float) -> PairedCounts:
    """Items by what becomes of them on average, at a recovery of at most 1.

    The flips stay as many as without a drop, shifted towards losses, until the drop alone takes more.
    """
    assert 0 <= recovery <= 1, recovery
    drop = plan.score * (1 - recovery)
    gained = min(max((plan.flip_rate - drop) / 2, 0.0), 1 - plan.score, plan.score - drop)
    lost = gained + drop
    return PairedCounts(max(plan.score - lost, 0.0) * plan.n, lost * plan.n, gained * plan.n, plan.n)


def smallest_drop(plan: Plan) -> float | None:
    """The smallest drop of recovery, as a fraction of 1, that these items show; None where even a total loss would not.

    Shown: the interval lies below 100 %.
    """
    if plan.score == 0:
        return None
    return _least(lambda drop: -ratio_statistic(expected_counts(plan, 1 - drop), 1.0) >= plan.needed)


def finest_limit(plan: Plan) -> float | None:
    """The highest limit that a model which lost nothing passes on these items; None where there is none above 0.

    A gate with a limit above it stays inconclusive, or fails, more often than it should.
    """
    if plan.score == 0:
        return None
    counts = expected_counts(plan, 1.0)
    margin = _least(lambda margin: ratio_statistic(counts, 1 - margin) >= plan.needed)
    return None if margin is None or margin >= 1 else 1 - margin


def more_items(n: int, estimate: float, interval: Interval, limit: float) -> int | None:
    """About how many more items would decide, if they come as the first ``n`` did; None where no number would.

    The interval narrows with the root of the number of items; its end on the limit's side has to reach the limit. All
    three are ratios, or all three differences. 0 where it is decided.
    """
    end = interval.low if estimate >= limit else interval.high
    if estimate == limit or not math.isfinite(end):
        return None
    return _missing(n, (estimate - end) / (estimate - limit))


def more_items_of(counts: PairedCounts, limit: float, confidence: float) -> int | None:
    """``more_items`` for scores of 0 and 1, where it is exact: the statistic grows with the root of the counts."""
    found = abs(ratio_statistic(counts, limit))
    return _missing(counts.n, normal_quantile(confidence) / found) if found > 0 else None


def margin_in_errors(n: int, score: float, margin: float) -> float:
    """Standard errors between one model's score and a limit ``margin`` below it; infinite where it cannot vary.

    For limits on a score itself: below about 2 such a gate turns red without any regression.
    """
    spread = _standard_error(n, score)
    return margin / spread if spread > 0 else math.inf


def smallest_margin(n: int, score: float, confidence: float) -> float:
    """The least distance of a limit below a score, as fractions, that ``n`` new items tell from it."""
    return normal_quantile(confidence) * _standard_error(n, score)


def items_for_margin(score: float, margin: float, confidence: float) -> int:
    """Items from which on a limit ``margin`` below a score is told from it."""
    assert margin > 0, margin
    return max(math.ceil((normal_quantile(confidence) / margin) ** 2 * score * (1 - score)), 1)


def _standard_error(n: int, score: float) -> float:
    assert n >= 1 and 0 <= score <= 1, (n, score)
    return math.sqrt(score * (1 - score) / n)


def _missing(n: int, widening: float) -> int:
    """Items beyond ``n`` at which an interval ``widening`` times too wide is as narrow as it has to be."""
    total = n * widening**2
    # Beyond 2**63 nothing is a number of items any more; the figure stays printable.
    return max(math.ceil(min(total, 2.0**63) * (1 - 1e-12)) - n, 0)


def _least(is_shown: Callable[[float], bool]) -> float | None:
    """The least value from 0 to 1 that is shown, where all greater ones are; None where 1 is not."""
    if not is_shown(1.0):
        return None
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_shown(middle) else (middle, high)
    return high
