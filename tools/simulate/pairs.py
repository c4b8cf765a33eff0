"""Pairs of scores 0 and 1: coverage of the score intervals, false PASS at the limit, McNemar's false alarms."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from evalcard.compare.intervals import (
    PairedCounts,
    difference_statistic,
    flip_widening,
    normal_quantile,
    ratio_statistic,
    score_difference,
    score_ratio,
)
from evalcard.compare.paired import mcnemar_p
from simulate.report import Part, greatest, percent, spread

CONFIDENCE, ALPHA = 0.95, 0.025
MANY_FLIPS = 10
"""Expected flips from which on the narrow bar on coverage holds."""
SIZES = (30, 100, 300, 1000, 2000)
SCORES = (0.1, 0.3, 0.6, 0.9, 0.98)
RECOVERIES = (1.0, 0.95)
CORRELATIONS = (0.0, 0.5, 0.8, 0.95)


@dataclass(frozen=True)
class Case:
    """Probabilities of one item."""

    n: int
    both: float
    lost: float
    gained: float
    recovery: float
    correlation: float

    @property
    def flips(self) -> float:
        """Expected number."""
        return self.n * (self.lost + self.gained)


@dataclass(frozen=True)
class Found:
    """Shares of simulated runs."""

    ratio_covered: float
    difference_covered: float
    false_pass: float
    false_alarm: float | None
    """McNemar's p at most 5 %; None where there is something to find."""


def cases(n: int, score: float) -> Iterator[Case]:
    """Every recovery and correlation; two different scores go together as far as they can."""
    for recovery in RECOVERIES:
        for correlation in CORRELATIONS:
            other = score * recovery
            covariance = correlation * math.sqrt(score * (1 - score) * other * (1 - other))
            both = min(score * other + covariance, other, score)
            yield Case(n, both, score - both, other - both, recovery, correlation)


def try_case(case: Case, runs: int, rng: np.random.Generator) -> Found:
    """A ratio lies in its interval where its own statistic is no greater than z: the very test that is inverted."""
    rest = max(1 - case.both - case.lost - case.gained, 0.0)
    drawn = rng.multinomial(case.n, [case.both, case.lost, case.gained, rest], size=runs)[:, :3]
    drawn = drawn[drawn[:, 0] + drawn[:, 1] > 0]  # without a right answer of the baseline there is no recovery
    kinds, times = np.unique(drawn, axis=0, return_counts=True)
    counts = [PairedCounts(both, lost, gained, case.n) for both, lost, gained in kinds.tolist()]
    shares = times / times.sum()
    z = np.array([normal_quantile(CONFIDENCE) * flip_widening(one) for one in counts])
    drop = case.gained - case.lost
    ratios = np.array([ratio_statistic(one, case.recovery) for one in counts])
    differences = np.array([difference_statistic(one, drop) for one in counts])
    alarms = None
    if case.recovery == 1:
        alarms = float(shares @ np.array([_mcnemar(one.lost, one.gained) <= 1 - CONFIDENCE for one in counts]))
    return Found(
        ratio_covered=float(shares @ (np.abs(ratios) <= z)),
        difference_covered=float(shares @ (np.abs(differences) <= z)),
        false_pass=float(shares @ (ratios >= z)),
        false_alarm=alarms,
    )


def coverage(runs: int, seed: int) -> Part:
    """The table: one row for each number of items and score, over all recoveries and correlations."""
    part = Part(
        f"Scores of 0 and 1: {runs} runs a case, 95 % intervals",
        ("items", "score", "cases", "recovery covers (≥ 10 flips)", "recovery covers (fewer)",
         "points cover (≥ 10 flips)", "points cover (fewer)", "false PASS, most", "McNemar, false alarms, most"),
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    for n in SIZES:
        for score in SCORES:
            found = [(case, try_case(case, runs, rng)) for case in cases(n, score)]
            for case, one in found:
                _hold(part, case, one, runs)
            many = [one for case, one in found if case.flips >= MANY_FLIPS]
            few = [one for case, one in found if case.flips < MANY_FLIPS]
            part.rows.append(
                [str(n), f"{score:g}", str(len(found)),
                 spread([one.ratio_covered for one in many]), spread([one.ratio_covered for one in few]),
                 spread([one.difference_covered for one in many]), spread([one.difference_covered for one in few]),
                 greatest([one.false_pass for _, one in found]),
                 greatest([one.false_alarm for _, one in found if one.false_alarm is not None])]
            )  # fmt: skip
    return part


def widths() -> Part:
    """Width of the intervals without a single flip."""
    part = Part("No flip at all: recovery's 95 % interval", ("items", "right", "recovery", "difference in points"))
    for n in SIZES:
        for right in sorted({1, n // 2, n}):
            counts = PairedCounts(right, 0, 0, n)
            ratio, points = score_ratio(counts, CONFIDENCE), score_difference(counts, CONFIDENCE)
            if not (ratio.low < 1 < ratio.high and points.low < 0 < points.high):
                part.misses.append(f"{part.title}, {right} of {n}: {ratio}, {points} must have width on both sides")
            part.rows.append([str(n), str(right), f"{percent(ratio.low)} – {percent(ratio.high)}",
                              f"{100 * points.low:.2f} – {100 * points.high:.2f}"])  # fmt: skip
    return part


def _hold(part: Part, case: Case, found: Found, runs: int) -> None:
    where = f"n {case.n}, score {case.both + case.lost:g}, recovery {case.recovery:g}, correlation {case.correlation:g}"
    for name, covered in (("recovery", found.ratio_covered), ("points", found.difference_covered)):
        if case.flips >= MANY_FLIPS:
            part.at_least(f"{name} covers, {where}", covered, 0.93, runs)
            part.at_most(f"{name} covers, {where}", covered, 0.97, runs)
        else:
            part.at_least(f"{name} covers, {where}", covered, 0.89, runs)
    part.at_most(f"false PASS, {where}", found.false_pass, ALPHA, runs)
    if found.false_alarm is not None:
        part.at_most(f"McNemar, {where}", found.false_alarm, 1 - CONFIDENCE, runs)


@cache
def _mcnemar(lost: int, gained: int) -> float:
    return mcnemar_p(min(lost, gained), max(lost, gained)) if lost != gained else 1.0
