"""Two models on one row as a PairedRecord, and the intervals that follow from it."""

import math
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction

from evalcard.compare.intervals import (
    MIN_DIFFERENT,
    Interval,
    PairedCounts,
    fieller_ratio,
    score_difference,
    score_ratio,
    skewed_quantile,
    student_quantile,
)
from evalcard.compare.paired import has_repeats
from evalcard.compare.recovery import MOST_RATIO, Rule, Values
from evalcard.results.compared import PairedRecord
from evalcard.results.records import ItemId

Pairs = Sequence[tuple[float, float]]
"""(baseline, compressed) of each item, means over its repeats."""


def pair_row(rule: Rule, baseline: Sequence[Values], compressed: Sequence[Values]) -> PairedRecord | None:
    """Both models on the tasks of a row, over the items both answered; None below two items in any of its sets."""
    sets = [pairs for ours, theirs in zip(baseline, compressed, strict=True) if (pairs := _pairs(ours, theirs))]
    if rule != "mean":
        sets = [[pair for pairs in sets for pair in pairs]]
    if not sets or min(map(len, sets)) < 2:
        return None
    repeated = has_repeats(baseline)
    records = [_pair_set(pairs, repeated) for pairs in sets]
    return records[0] if len(records) == 1 else average_pairs(records)


def average_pairs(records: Sequence[PairedRecord]) -> PairedRecord:
    """The plain mean of several independent sets.

    Variances take in two items more for each set, one lost and one gained: without a single flip the spread of the
    difference would be nil (the idea of A. Agresti and Y. Min, Statistics in Medicine 24, 2005).
    """
    spread = [_with_two_flips(record) for record in records]
    share = 1 / len(records)
    # A set that does not tell its spread would enter with none at all, and the average would look surer than its parts.
    untold = [record for record in records if record.both is None and not _has_spread(record)]
    return PairedRecord(
        n=sum(record.n for record in records),
        different=min(record.different for record in untold) if untold else sum(one.different for one in records),
        is_binary=False,
        both=None,
        lost=None,
        gained=None,
        baseline=share * math.fsum(record.baseline for record in records),
        compressed=share * math.fsum(record.compressed for record in records),
        baseline_variance=share**2 * math.fsum(variances[0] for variances in spread),
        compressed_variance=share**2 * math.fsum(variances[1] for variances in spread),
        covariance=share**2 * math.fsum(variances[2] for variances in spread),
        skewness=None,
        degrees=min(record.n for record in untold) - 1 if untold else None,
    )


def ratio_interval(paired: PairedRecord, confidence: float, higher_is_better: bool = True) -> Interval | None:
    """Interval of compressed / baseline, the other way round where lower is better; both are fractions.

    None where nothing can be said: a denominator of 0, or too few items that differ in scores without bounds.
    """
    one = paired if higher_is_better else _swapped(paired)
    if one.baseline <= 0:
        return None
    counts = _counts(one)
    if counts is not None:
        return score_ratio(counts, confidence)
    if not _has_spread(one):
        return None
    variances = (one.baseline_variance, one.compressed_variance, one.covariance)
    low, high = _quantiles(one, confidence)
    return Interval(
        fieller_ratio(one.baseline, one.compressed, variances, low).low,
        fieller_ratio(one.baseline, one.compressed, variances, high).high,
    )


def difference_interval(paired: PairedRecord, confidence: float) -> Interval | None:
    """Interval of compressed - baseline; None where too few items differ in scores without bounds."""
    counts = _counts(paired)
    if counts is not None:
        return score_difference(counts, confidence)
    if not _has_spread(paired):
        return None
    variance = paired.baseline_variance + paired.compressed_variance - 2 * paired.covariance
    value = paired.compressed - paired.baseline
    reach = student_quantile(confidence, paired.degrees) * math.sqrt(max(variance, 0.0))
    return Interval(value - reach, value + reach)


def why_no_interval(paired: PairedRecord, higher_is_better: bool) -> str | None:
    """In words, why ``ratio_interval`` is None; None where it is not."""
    if (paired.baseline if higher_is_better else paired.compressed) <= 0:
        return f"the {'baseline' if higher_is_better else 'compressed model'} does not score above 0"
    if _counts(paired) is not None or _has_spread(paired):
        return None
    return (
        f"only {paired.different} items score differently in the two models, and scores without bounds need "
        f"{MIN_DIFFERENT} to tell how far the true value may lie"
    )


def _quantiles(paired: PairedRecord, confidence: float) -> tuple[float, float]:
    """Quantiles for the low and the high end: losses that are rare and alike skew the mean, and a symmetric interval
    would reach too little on one side. They are widened for few items that differ, as their spread is then guessed."""
    t = student_quantile(confidence, paired.degrees)
    if paired.skewness is None or paired.degrees is None:
        return t, t
    wider = math.sqrt(1 + 2 / max(paired.different, 1))
    tilt = paired.skewness / math.sqrt(paired.n)
    return wider * max(t, skewed_quantile(t, tilt)), wider * max(t, skewed_quantile(t, -tilt))


def _pairs(ours: Values, theirs: Values) -> list[tuple[float, float]]:
    """Means over the repeats that both models have."""
    repeats: dict[ItemId, list[tuple[Fraction, Fraction]]] = defaultdict(list)
    for address, value in ours.items():
        if address in theirs:
            repeats[address[0]].append((value, theirs[address]))
    return [
        (float(sum(b for b, _ in found) / len(found)), float(sum(c for _, c in found) / len(found)))
        for found in repeats.values()
    ]


def _pair_set(pairs: Pairs, repeated: bool) -> PairedRecord:
    n = len(pairs)
    mean_b, mean_c = math.fsum(b for b, _ in pairs) / n, math.fsum(c for _, c in pairs) / n
    scale = 1 / (n * (n - 1))
    is_share = all(0 <= score <= 1 for pair in pairs for score in pair)
    return PairedRecord(
        n=n,
        different=sum(b != c for b, c in pairs),
        is_binary=not repeated and all(score in (0, 1) for pair in pairs for score in pair),
        both=math.fsum(min(pair) for pair in pairs) if is_share else None,
        lost=math.fsum(max(b - c, 0.0) for b, c in pairs) if is_share else None,
        gained=math.fsum(max(c - b, 0.0) for b, c in pairs) if is_share else None,
        baseline=mean_b,
        compressed=mean_c,
        baseline_variance=scale * math.fsum((b - mean_b) ** 2 for b, _ in pairs),
        compressed_variance=scale * math.fsum((c - mean_c) ** 2 for _, c in pairs),
        covariance=scale * math.fsum((b - mean_b) * (c - mean_c) for b, c in pairs),
        skewness=_skewness(pairs, mean_c / mean_b) if mean_b else None,
        degrees=n - 1,
    )


def _skewness(pairs: Pairs, ratio: float) -> float | None:
    """Of compressed - ratio * baseline: third central moment over the variance to the power 3/2; None without variance.

    It knows no unit, so deviations are taken in that of the largest: powers of tiny or huge ones would leave a float.
    """
    if not abs(ratio) <= MOST_RATIO:
        return None
    values = [c - ratio * b for b, c in pairs]
    mean = math.fsum(values) / len(values)
    scale = max(abs(value - mean) for value in values)
    if not 0 < scale < math.inf:
        return None
    parts = [(value - mean) / scale for value in values]
    second = math.fsum(part**2 for part in parts) / len(parts)
    third = math.fsum(part**3 for part in parts) / len(parts)
    return third / second**1.5


def _with_two_flips(record: PairedRecord) -> tuple[float, float, float]:
    """(variance, variance, covariance) of the means after two items more, (1, 0) and (0, 1); as they are where scores
    have no bounds, or the record is an average already."""
    raw = (record.baseline_variance, record.compressed_variance, record.covariance)
    if record.both is None or record.degrees is None:
        return raw
    n, more = record.n, record.n + 2
    means = (record.baseline, record.compressed)
    products = ((means[0], means[0], 1.0), (means[1], means[1], 1.0), (means[0], means[1], 0.0))
    found = []
    for variance, (one, other, added) in zip(raw, products, strict=True):
        total = variance * n * (n - 1) + n * one * other + added
        centre = (n * one + 1) * (n * other + 1) / more
        found.append((total - centre) / (more * (more - 1)))
    return found[0], found[1], found[2]


def _swapped(paired: PairedRecord) -> PairedRecord:
    changes = {
        "baseline": paired.compressed, "compressed": paired.baseline, "lost": paired.gained, "gained": paired.lost,
        "baseline_variance": paired.compressed_variance, "compressed_variance": paired.baseline_variance,
        "skewness": None if paired.skewness is None else -paired.skewness,
    }  # fmt: skip
    return paired.model_copy(update=changes)


def _has_spread(paired: PairedRecord) -> bool:
    """Whether the items themselves tell how differences spread; an average's sets have told it before, where its
    ``degrees`` are None."""
    return paired.degrees is None or paired.different >= MIN_DIFFERENT


def _counts(paired: PairedRecord) -> PairedCounts | None:
    """Where the score interval is taken: for items right or wrong, and while the items do not tell the spread."""
    if not paired.is_binary and _has_spread(paired):
        return None
    if paired.both is None or paired.lost is None or paired.gained is None:
        return None
    return PairedCounts(paired.both, paired.lost, paired.gained, paired.n)
