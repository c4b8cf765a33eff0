"""What a number of items can show, before a run and after one that decided nothing. Pure; the standard library only.

All of it holds the very test that the interval inverts (compare/intervals.py) against the items that are expected, or
were found, so a forecast and the later verdict follow one rule. Scores, limits and drops are fractions.
"""

import math
from collections.abc import Callable
from statistics import NormalDist

from evalcard.compare.intervals import (
    FEW_FLIPS,
    Interval,
    PairedCounts,
    flip_widening,
    normal_quantile,
    ratio_statistic,
)
from evalcard.compare.plans import AnyPlan, Plan, expected_counts, standard_error

_HALVINGS = 60
_COUNTED_FLIPS = 12
"""Expected flips up to which how often a drop is shown is counted out; beyond, the delta method is as good."""
_MOST_ITEMS = 2**40
"""More than any set of items has."""


def smallest_drop(plan: AnyPlan) -> float | None:
    """The smallest drop of recovery, as a fraction of 1, that these items show; None where even a total loss would not.

    Shown: the interval lies below 100 %.
    """
    if plan.score == 0:
        return None
    return _least(lambda drop: _is_below(plan, 1 - drop))


def finest_limit(plan: AnyPlan) -> float | None:
    """The highest limit that a model which lost nothing passes on these items; None where there is none above 0.

    A gate with a limit above it stays inconclusive, or fails, more often than it should.
    """
    if plan.score == 0:
        return None
    margin = _least(lambda margin: _passes(plan, 1 - margin))
    return None if margin is None or margin >= 1 else 1 - margin


def items_for_limit(plan: AnyPlan, limit: float) -> int | None:
    """The fewest such items on which a model that lost nothing passes ``limit`` with the plan's power; None where no
    number of them would do, as for a limit of 100 %."""
    if plan.score == 0 or limit >= 1:
        return None
    return _fewest(lambda n: _passes(plan.resized(n), limit))


def finest_score(plan: AnyPlan) -> float:
    """The highest limit on the score itself that a model which lost nothing passes; likewise."""
    return max(plan.score - _needed(plan) * plan.score_error, 0.0)


def items_for_score(plan: AnyPlan, limit: float) -> int | None:
    """The fewest items for a limit on the score itself; None where it is not below the score that is expected."""
    if limit >= plan.score:
        return None
    return _fewest(lambda n: plan.score - limit >= _needed(plan) * plan.resized(n).score_error)


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
    """``more_items`` for scores of 0 and 1, where it is exact: the statistic grows with the root of the counts, and its
    quantile falls as the flips become more (`flip_widening`)."""
    found = abs(ratio_statistic(counts, limit))
    if found == 0:
        return None
    squared, flips = (normal_quantile(confidence) / found) ** 2, counts.lost + counts.gained
    growth = squared * (1 + 1 / FEW_FLIPS)
    if growth * flips > FEW_FLIPS:
        # growth = squared (1 + 1 / (growth flips)), where it brings more flips than FEW_FLIPS.
        growth = (squared + math.sqrt(squared**2 + 4 * squared / flips)) / 2
    return _missing(counts.n, math.sqrt(growth))


def more_items_of_score(n: int, score: float, limit: float, confidence: float) -> int | None:
    """``more_items`` for one model's share of items right, where it is exact: Wilson's interval leaves the limit out as
    soon as the score lies further from it than ``confidence`` allows at the spread that the limit has."""
    margin = abs(score - limit)
    if margin == 0 or not 0 < limit < 1:
        return None
    return _missing(n, normal_quantile(confidence) * math.sqrt(limit * (1 - limit) / n) / margin)


def margin_in_errors(n: int, score: float, margin: float) -> float:
    """Standard errors between one model's score and a limit ``margin`` below it; infinite where it cannot vary.

    For limits on a score itself: below about 2 such a gate turns red without any regression.
    """
    spread = standard_error(n, score)
    return margin / spread if spread > 0 else math.inf


def smallest_margin(n: int, score: float, confidence: float) -> float:
    """The least distance of a limit below a score, as fractions, that ``n`` new items tell from it."""
    return normal_quantile(confidence) * standard_error(n, score)


def items_for_margin(score: float, margin: float, confidence: float) -> int:
    """Items from which on a limit ``margin`` below a score is told from it."""
    assert margin > 0, margin
    return max(math.ceil((normal_quantile(confidence) / margin) ** 2 * score * (1 - score)), 1)


def _passes(plan: AnyPlan, limit: float) -> bool:
    """Whether a model that lost nothing is found above the limit, with the plan's power."""
    expected, spread = plan.statistic(1.0, limit)
    return expected >= _needed(plan, spread)


def _is_below(plan: AnyPlan, recovery: float) -> bool:
    """Whether a model of this recovery is found below 100 %, with the plan's power."""
    if isinstance(plan, Plan):
        counts = expected_counts(plan, recovery)
        if counts.lost + counts.gained <= _COUNTED_FLIPS:
            return _share_below(counts, plan.quantile) >= plan.power
    expected, spread = plan.statistic(recovery, 1.0)
    return -expected >= _needed(plan, spread)


def _share_below(counts: PairedCounts, quantile: float) -> float:
    """How often a ratio below 1 is found where so many losses and gains are expected: exact, as few are whole numbers.

    (lost - gained) / sqrt(lost + gained) is what the interval holds against its quantile at a ratio of 1.
    """
    n, expected = counts.n, counts.lost + counts.gained
    share, of_lost = expected / n, counts.lost / expected if expected else 0.0
    found = 0.0
    for flips in range(1, min(n, math.ceil(expected + 8 * math.sqrt(expected))) + 1):
        margin = quantile * flip_widening(PairedCounts(0, flips, 0, n)) * math.sqrt(flips)
        least = max(math.ceil((flips + margin) / 2), flips // 2 + 1)
        of_flips = math.comb(n, flips) * share**flips * (1 - share) ** (n - flips)
        ways = (
            math.comb(flips, lost) * of_lost**lost * (1 - of_lost) ** (flips - lost) for lost in range(least, flips + 1)
        )
        found += of_flips * math.fsum(ways)
    return found


def _needed(plan: AnyPlan, spread: float = 1.0) -> float:
    """Expected z that is beyond the quantile with the plan's power, where z spreads so."""
    return plan.quantile + NormalDist().inv_cdf(plan.power) * spread


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


def _fewest(is_enough: Callable[[int], bool]) -> int | None:
    """The least number of items that is enough, where all greater ones are; None where ``_MOST_ITEMS`` are not."""
    high = 1
    while not is_enough(high):
        high *= 2
        if high > _MOST_ITEMS:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high
