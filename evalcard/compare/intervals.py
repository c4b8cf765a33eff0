"""Intervals of what compression changed: the ratio and the difference of paired scores. The standard library only.

Scores of 0 and 1: the score interval, which inverts the test of a given ratio (J. Nam and W. C. Blackwelder, Statistics
in Medicine 21, 2002) or of a given difference (T. Tango, Statistics in Medicine 17, 1998), with the variance that its
null hypothesis implies. It has width without a single flip, and both of its ends miss equally often. Flips are whole
numbers, and few of them tell the variance poorly: its quantile is a little wider for it (`flip_widening`).

Graded scores, and items answered several times: Fieller's interval (E. C. Fieller, JRSS B 16, 1954) on the means of the
items, paired. Below ``MIN_DIFFERENT`` items that differ, the score interval on masses instead of counts: of all scores
between 0 and 1 with given means those of 0 and 1 vary most, so it can only be too wide.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

MIN_DIFFERENT = 10
"""Items with different scores from which on the spread of the differences is taken from the items themselves."""
FEW_FLIPS = 25
"""Flips up to which the score interval's quantile is widened alike."""
_HALVINGS = 200
"""More than a float has bits."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Both ends; a ratio or a difference of fractions. ``high`` may be infinite."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PairedCounts:
    """Items by what became of them: counts for scores of 0 and 1, masses for graded ones."""

    both: float
    """Right with both models."""
    lost: float
    """Right with the baseline only."""
    gained: float
    """Right with the compressed model only."""
    n: int
    """Items in all."""

    def __post_init__(self) -> None:
        right = self.both + self.lost + self.gained
        assert min(self.both, self.lost, self.gained) >= 0 and right <= self.n * (1 + 1e-12), self


def normal_quantile(confidence: float) -> float:
    """z such that a standard normal lies within -z and z with probability ``confidence``."""
    assert 0 < confidence < 1, confidence
    return NormalDist().inv_cdf((1 + confidence) / 2)


def score_ratio(counts: PairedCounts, confidence: float) -> Interval:
    """Score interval of compressed / baseline. The baseline must have something right."""
    assert counts.both + counts.lost > 0, counts
    z = normal_quantile(confidence) * flip_widening(counts)
    estimate = (counts.both + counts.gained) / (counts.both + counts.lost)
    low = 0.0 if estimate == 0 else _edge(lambda ratio: ratio_statistic(counts, ratio) > z, 0.0, estimate)
    top = max(2 * estimate, 2.0)
    while ratio_statistic(counts, top) > -z and top < 1e12:
        top *= 2
    return Interval(low, _edge(lambda ratio: ratio_statistic(counts, ratio) >= -z, estimate, top))


def score_difference(counts: PairedCounts, confidence: float) -> Interval:
    """Score interval of compressed - baseline, as fractions."""
    z = normal_quantile(confidence) * flip_widening(counts)
    estimate = (counts.gained - counts.lost) / counts.n
    low = _edge(lambda value: difference_statistic(counts, value) > z, -1.0, estimate)
    return Interval(low, _edge(lambda value: difference_statistic(counts, value) >= -z, estimate, 1.0))


def flip_widening(counts: PairedCounts) -> float:
    """What the normal quantile is multiplied by: sqrt(1 + 1 / flips), and below 25 flips as for 25.

    With the normal quantile alone a model exactly at its limit passed in up to 2.73 % of 100,000 simulated runs where
    2.5 % may, all of them with some 20 to 30 flips; fewer need nothing, and should still tell four losses from none.
    """
    return math.sqrt(1 + 1 / max(counts.lost + counts.gained, FEW_FLIPS))


def ratio_statistic(counts: PairedCounts, ratio: float) -> float:
    """z of the null hypothesis compressed / baseline = ``ratio``; falls as ``ratio`` grows.

    The likeliest probability of a loss under it, x, solves a quadratic equation; that of a gain follows.
    """
    n, right = counts.n, (counts.both + counts.lost + counts.gained) / counts.n
    if ratio == 0:
        return math.inf if counts.both + counts.gained > 0 else 0.0
    shift, slope = (1 - ratio) * right, 1 + ratio
    a = slope * right
    b = ((counts.lost + counts.gained) * right + slope * shift * (counts.lost + counts.both)) / n
    c = counts.lost * shift * right / n
    lost = (b + math.sqrt(max(b * b - 4 * a * c, 0.0))) / (2 * a)
    gained = max((lost - shift) / ratio, 0.0)
    excess = (counts.both + counts.gained - ratio * (counts.both + counts.lost)) / n
    return _over(excess, math.sqrt(ratio * (gained + lost) / n))


def difference_statistic(counts: PairedCounts, value: float) -> float:
    """z of the null hypothesis compressed - baseline = ``value``; falls as ``value`` grows."""
    n = counts.n
    a = 2.0 * n
    b = 2 * value * (n - counts.gained) - (counts.lost + counts.gained) * (1 - value)
    c = -counts.lost * value * (1 - value)
    lost = (-b + math.sqrt(max(b * b - 4 * a * c, 0.0))) / (2 * a)
    lost = max(lost, -value, 0.0)
    variance = max(2 * lost + value - value * value, 0.0) / n
    return _over((counts.gained - counts.lost) / n - value, math.sqrt(variance))


def fieller_ratio(
    baseline: float, compressed: float, variances: tuple[float, float, float], quantile: float
) -> Interval:
    """Fieller's interval of compressed / baseline; (0, inf) where the baseline is not shown to be above 0.

    variances: of the baseline's mean, of the compressed model's, and their covariance. Solves
    (compressed - r baseline)^2 = quantile^2 var(compressed - r baseline) for r.
    """
    var_b, var_c, cov = variances
    a = baseline**2 - quantile**2 * var_b
    b = baseline * compressed - quantile**2 * cov
    c = compressed**2 - quantile**2 * var_c
    if a <= 0:
        return Interval(0.0, math.inf)
    # Where a > 0 the root is real: at r = compressed / baseline the equation's left side is 0. Rounding alone makes it
    # negative, as where one model's scores are a multiple of the other's.
    root = max(b * b - a * c, 0.0)
    return Interval(max((b - math.sqrt(root)) / a, 0.0), (b + math.sqrt(root)) / a)


def student_quantile(confidence: float, degrees: float | None) -> float:
    """t such that Student's t lies within -t and t with probability ``confidence``; None: the normal distribution."""
    if degrees is None:
        return normal_quantile(confidence)
    from scipy.stats import t

    return float(t.ppf((1 + confidence) / 2, degrees))


def skewed_quantile(quantile: float, tilt: float) -> float:
    """Quantile of a studentized mean whose values are skewed; tilt: their skewness over the root of their number.

    The inverse of P. Hall's cubic transformation (JRSS B 54, 1992).
    """
    if abs(tilt) < 1e-9:
        return quantile
    return 3 / tilt * (math.cbrt(1 + tilt * quantile - tilt**2 / 6) - 1)


def _over(value: float, spread: float) -> float:
    """value / spread, with a sign at no spread."""
    if spread > 0:
        return value / spread
    return math.copysign(math.inf, value) if value else 0.0


def _edge(is_below: Callable[[float], bool], low: float, high: float) -> float:
    """Where ``is_below`` turns from true to false between ``low`` and ``high``."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return (low + high) / 2
