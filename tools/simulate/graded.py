"""Items answered several times: coverage of the interval of their recovery."""

from dataclasses import dataclass
from itertools import product

import numpy as np

from evalcard.compare.evidence import ratio_interval
from evalcard.compare.intervals import MIN_DIFFERENT
from evalcard.results.compared import PairedRecord
from simulate.report import Part, percent

CONFIDENCE, ALPHA = 0.95, 0.025
REPEATS = 4
SIZES = (30, 100, 300)
DIFFICULTIES = ((0.5, 1.0), (0.85, 1.0), (0.3, 0.6))
"""(mean, concentration) of the items' chances of a right answer, which follow a beta distribution."""
RECOVERIES = (1.0, 0.95)
COUPLINGS = (0.5, 0.95)
"""Share of the answers in which both models draw the same noise."""


@dataclass(frozen=True)
class Found:
    """Of simulated runs."""

    covered: float
    false_pass: float
    few: float
    """Share of runs in which fewer than MIN_DIFFERENT items differ."""
    different: float
    """Mean number of items that differ."""


def try_case(
    n: int, difficulty: tuple[float, float], recovery: float, coupling: float, runs: int, rng: np.random.Generator
) -> Found:
    """New items in each run, of which each model answers every one REPEATS times."""
    mean, weight = difficulty
    chances = rng.beta(2 * mean * weight, 2 * (1 - mean) * weight, size=(runs, n, 1))
    noise = rng.random((runs, n, REPEATS))
    other = np.where(rng.random((runs, n, REPEATS)) < coupling, noise, rng.random((runs, n, REPEATS)))
    baseline, compressed = (noise < chances).mean(2), (other < recovery * chances).mean(2)
    intervals = [ratio_interval(pair(*both), CONFIDENCE) for both in zip(baseline, compressed, strict=True)]
    known = [one for one in intervals if one is not None]
    different = (baseline != compressed).sum(1)
    return Found(
        covered=sum(one.low <= recovery <= one.high for one in known) / len(known),
        false_pass=sum(one.low >= recovery for one in known) / len(known),
        few=float((different < MIN_DIFFERENT).mean()),
        different=float(different.mean()),
    )


def pair(baseline: np.ndarray, compressed: np.ndarray) -> PairedRecord:
    """What a row stores of these items' means."""
    n = len(baseline)
    variances = np.cov(baseline, compressed) / n
    return PairedRecord(
        n=n,
        different=int((baseline != compressed).sum()),
        is_binary=False,
        both=float(np.minimum(baseline, compressed).sum()),
        lost=float(np.maximum(baseline - compressed, 0).sum()),
        gained=float(np.maximum(compressed - baseline, 0).sum()),
        baseline=float(baseline.mean()),
        compressed=float(compressed.mean()),
        baseline_variance=float(variances[0, 0]),
        compressed_variance=float(variances[1, 1]),
        covariance=float(variances[0, 1]),
        skewness=skewness(compressed - compressed.mean() / baseline.mean() * baseline) if baseline.any() else None,
        degrees=n - 1,
    )


def skewness(values: np.ndarray) -> float | None:
    """As a row stores it; None without variance."""
    away = values - values.mean()
    second = float((away**2).mean())
    return float((away**3).mean()) / second**1.5 if second > 0 else None


def coverage(runs: int, seed: int) -> Part:
    part = Part(
        f"{REPEATS} answers an item: {runs} runs a case, 95 % intervals of recovery",
        ("items", "score", "recovery", "coupling", "items that differ", "runs with < 10", "covers", "false PASS"),
    )
    rng = np.random.default_rng(seed)
    for n, difficulty, recovery, coupling in product(SIZES, DIFFICULTIES, RECOVERIES, COUPLINGS):
        found = try_case(n, difficulty, recovery, coupling, runs, rng)
        where = f"n {n}, score {difficulty[0]:g}, recovery {recovery:g}, coupling {coupling:g}"
        part.at_least(where, found.covered, 0.93 if found.different >= MIN_DIFFERENT else 0.89, runs)
        if found.few == 0:
            part.at_most(where, found.covered, 0.97, runs)
        part.at_most(f"false PASS, {where}", found.false_pass, ALPHA, runs)
        part.rows.append(
            [str(n), f"{difficulty[0]:g}", percent(recovery), f"{coupling:g}", f"{found.different:.1f}",
             percent(found.few), percent(found.covered), percent(found.false_pass)]
        )  # fmt: skip
    return part
