"""What was measured of a limit, in the limit's own unit: the value and its interval at any confidence.

Stored scores and differences are exact fractions rounded once, to the nearest float. Percent are taken from the
shortest decimal that names this float and rounded once again, so a score that equals its limit equals it here.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from evalcard.compare.evidence import difference_interval, ratio_interval
from evalcard.compare.intervals import MIN_DIFFERENT, Interval, normal_quantile, student_quantile
from evalcard.gate.targets import Target
from evalcard.gate.verdict import Kind
from evalcard.results.compared import CompressedScore


@dataclass(frozen=True, slots=True)
class Measured:
    """One compressed model, in percent or points, unrounded."""

    value: float | None
    low: float | None = None
    """Ends of the interval; None where there is none, and ``high`` also where it has no upper end."""
    high: float | None = None
    why: str | None = None
    """Why there is no value."""


def reaches(kind: Kind, figure: float, limit: float) -> bool:
    """Whether the figure is on the good side of the limit; equal is."""
    return figure <= limit if kind == "max_drop" else figure >= limit


def measure(target: Target, slug: str, confidence: float, stored_confidence: float) -> Measured:
    """The value, and its interval at ``confidence``; the one that is stored, and printed, where that is the same."""
    score = target.score_of(slug)
    if score is None or target.row is None:
        return Measured(None, why="no score")
    value, why = _value(target, score)
    if value is None:
        return Measured(None, why=why)
    low, high = _ends(target, score, confidence, is_stored=confidence == stored_confidence)
    return Measured(value, low, None if high is None or math.isinf(high) else high)


def interval_at(target: Target, score: CompressedScore, confidence: float) -> Interval | None:
    """The interval in the limit's unit; None where nothing can be said, or the run stopped early."""
    row, paired = target.row, score.paired
    assert row is not None, target
    if score.sequential is not None:
        return None
    if target.kind == "min_score":
        return _of_score(target, score, confidence)
    if paired is None:
        return None
    if target.kind == "min_recovery":
        ratio = ratio_interval(paired, confidence, row.higher_is_better)
        return Interval(100 * ratio.low, 100 * ratio.high) if ratio else None
    change = difference_interval(paired, confidence)
    if change is None:
        return None
    return Interval(-100 * change.high, -100 * change.low) if row.higher_is_better else change


def wilson(score: float, items: float, confidence: float) -> Interval:
    """Wilson score interval of a share, as fractions (E. B. Wilson, JASA 22, 1927). It has width at 0 and at 1."""
    assert 0 <= score <= 1 and items > 0, (score, items)
    z2 = normal_quantile(confidence) ** 2
    shift = z2 / (2 * items)
    spread = math.sqrt(z2 * (score * (1 - score) / items + z2 / (4 * items * items)))
    # (score + shift - spread) / (1 + z2 / items) without its cancellation, as the ends' product is known; the upper end
    # is the lower one of what is missed.
    return Interval(score**2 / (score + shift + spread), 1 - (1 - score) ** 2 / (1 - score + shift + spread))


def percent(fraction: float) -> float:
    """100 times the shortest decimal of a float, rounded once: 0.29 is 29, which 100 * 0.29 is not."""
    return float(100 * Fraction(repr(fraction)))


def _value(target: Target, score: CompressedScore) -> tuple[float | None, str | None]:
    row = target.row
    assert row is not None, target
    if target.kind == "min_recovery":
        recovery = score.recovery
        return (None, f"no recovery: {score.reason}") if recovery is None else (recovery.value, None)
    if target.kind == "min_score":
        return percent(score.score), None
    if score.difference is not None:
        change = score.difference.value
    else:
        change = float(Fraction(repr(score.score)) - Fraction(repr(row.baseline.score)))
    return (-percent(change) + 0.0 if row.higher_is_better else change), None


def _ends(
    target: Target, score: CompressedScore, confidence: float, is_stored: bool
) -> tuple[float | None, float | None]:
    """Recovery's are stored in percent as they are printed; all others follow from what is stored."""
    recovery = score.recovery
    if target.kind == "min_recovery" and recovery and (score.sequential or (is_stored and recovery.low is not None)):
        return recovery.low, recovery.high
    found = interval_at(target, score, confidence)
    return (found.low, found.high) if found else (None, None)


def _of_score(target: Target, score: CompressedScore, confidence: float) -> Interval | None:
    """One model's score by itself: Wilson's interval for items right or wrong, else by its standard error.

    Where that tells nothing (no spread, or few items) Wilson's serves again: of all scores between 0 and 1 with a given
    mean those of 0 and 1 vary most. None for scores without bounds there, and for an average whose rows share items.
    """
    paired, items = score.paired, _items(target)
    is_share = 0 <= score.score <= 1
    if target.is_average and paired is None:
        return None
    is_binary = paired is not None and paired.is_binary
    if score.stderr is None or score.stderr == 0 or items < MIN_DIFFERENT or is_binary:
        ends = wilson(score.score, items, confidence) if is_share and items > 0 else None
    else:
        degrees = paired.degrees if paired is not None else items - 1
        reach = student_quantile(confidence, degrees) * score.stderr
        ends = Interval(score.score - reach, score.score + reach)
    return Interval(100 * ends.low, 100 * ends.high) if ends else None


def _items(target: Target) -> float:
    """Items that a plain mean over all of them would need for the spread that the mean of the parts has."""
    sizes = [part.n for part in target.parts]
    return len(sizes) ** 2 / sum(1 / size for size in sizes) if sizes and min(sizes) > 0 else 0.0
