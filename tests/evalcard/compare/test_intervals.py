"""Intervals against their definitions: likelihoods maximised by brute force, and what must hold for any counts."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalcard.compare.intervals import (
    PairedCounts,
    difference_statistic,
    fieller_ratio,
    flip_widening,
    normal_quantile,
    ratio_statistic,
    score_difference,
    score_ratio,
    skewed_quantile,
    student_quantile,
)

CASES = [(50, 3, 1, 100), (20, 5, 9, 60), (3, 1, 0, 12), (0, 2, 4, 9), (140, 0, 6, 150), (8, 4, 4, 30)]


def likelihood(counts: PairedCounts, both, lost, gained):
    """Log-likelihood of the four cells, -inf outside the simplex; arrays."""
    rest = 1 - both - lost - gained
    found = np.zeros_like(lost)
    cells = [(counts.both, both), (counts.lost, lost), (counts.gained, gained)]
    cells.append((counts.n - counts.both - counts.lost - counts.gained, rest))
    with np.errstate(divide="ignore", invalid="ignore"):
        for count, share in cells:
            found = found + np.where(share < -1e-12, -np.inf, 0.0)
            found = found + (count * np.log(np.maximum(share, 0)) if count else 0.0)
    return np.where(np.isnan(found), -np.inf, found)


def brute(counts: PairedCounts, shares_of, z_of, grid):
    """The statistic with the null hypothesis's likeliest shares, found on a grid of two of them."""
    lost, other = (axis.ravel() for axis in np.meshgrid(grid, grid))
    both, gained = shares_of(lost, other)
    values = likelihood(counts, both, lost, gained)
    best = int(np.argmax(values))
    return z_of(both[best], lost[best], gained[best])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("ratio", [0.7, 0.9, 1.0, 1.25])
def test_the_ratio_statistic_has_the_null_variance(case, ratio):
    counts = PairedCounts(*case)
    both, lost, gained, n = case

    def shares(lost_share, both_share):
        return both_share, ratio * (both_share + lost_share) - both_share

    def statistic(p, x, y):
        variance = p * (1 - ratio) ** 2 + x * ratio**2 + y
        return (both + gained - ratio * (both + lost)) / n / math.sqrt(variance / n)

    found = ratio_statistic(counts, ratio)
    assert found == pytest.approx(brute(counts, shares, statistic, np.linspace(0, 1, 1601)), rel=0.02, abs=0.02)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("value", [-0.2, -0.03, 0.0, 0.1])
def test_the_difference_statistic_has_the_null_variance(case, value):
    counts = PairedCounts(*case)
    _, lost, gained, n = case

    def shares(lost_share, both_share):
        return both_share, lost_share + value

    def statistic(p, x, y):
        return ((gained - lost) / n - value) / math.sqrt((x + y - value**2) / n)

    found = difference_statistic(counts, value)
    assert found == pytest.approx(brute(counts, shares, statistic, np.linspace(0, 1, 1601)), rel=0.02, abs=0.02)


@given(st.integers(1, 60), st.integers(0, 20), st.integers(0, 20), st.integers(0, 60), st.sampled_from([0.8, 0.95]))
def test_an_interval_holds_its_estimate_and_has_width(both, lost, gained, neither, confidence):
    counts = PairedCounts(both, lost, gained, both + lost + gained + neither)
    ratio = score_ratio(counts, confidence)
    assert ratio.low < (both + gained) / (both + lost) < ratio.high
    difference = score_difference(counts, confidence)
    assert difference.low <= (gained - lost) / counts.n <= difference.high and difference.low < difference.high
    wider = score_ratio(counts, 0.99)
    assert wider.low <= ratio.low and wider.high >= ratio.high


@given(st.integers(1, 40), st.integers(0, 10), st.integers(0, 10), st.integers(0, 40))
def test_models_may_be_swapped(both, lost, gained, neither):
    n = both + lost + gained + neither
    one, other = (score_ratio(PairedCounts(both, *flips, n), 0.95) for flips in ((lost, gained), (gained, lost)))
    assert one.low == pytest.approx(1 / other.high) and one.high == pytest.approx(1 / other.low)


def test_the_ends_are_where_the_test_just_rejects():
    counts = PairedCounts(460, 12, 3, 500)
    found, z = score_ratio(counts, 0.95), normal_quantile(0.95) * math.sqrt(1 + 1 / 25)
    assert normal_quantile(0.95) == pytest.approx(1.959964, abs=1e-6)
    assert ratio_statistic(counts, found.low) == pytest.approx(z)
    assert ratio_statistic(counts, found.high) == pytest.approx(-z)


def test_few_flips_widen_as_25_do():
    found = [flip_widening(PairedCounts(50, lost, gained, 100)) for lost, gained in ((0, 0), (16, 9), (20, 20))]
    assert found == pytest.approx([math.sqrt(1.04), math.sqrt(1.04), math.sqrt(1.025)])


@pytest.mark.parametrize(("score", "gained"), [(0.6, 0.12), (0.3, 0.105), (0.6, 0.048), (0.9, 0.045)])
def test_a_model_at_its_limit_passes_in_at_most_one_run_of_forty(score, gained):
    """Over every outcome of 100 items, where the normal quantile alone lets up to 2.67 % pass."""
    n, limit = 100, 1.0
    shares = (score - gained, gained, gained, 1 - score - gained)
    passed = plain = 0.0
    for flips in range(n + 1):
        for both in range(n + 1 - flips):
            of_cells = math.log(math.comb(n, flips)) + math.log(math.comb(n - flips, both))
            of_cells += flips * math.log(gained) + both * math.log(shares[0]) + (n - flips - both) * math.log(shares[3])
            if of_cells + flips * math.log(2) < -25:
                continue
            for lost in range(flips + 1):
                counts = PairedCounts(both, lost, flips - lost, n)
                if both + lost == 0:
                    continue
                found = ratio_statistic(counts, limit)
                if found >= normal_quantile(0.95):
                    chance = math.exp(of_cells) * math.comb(flips, lost)
                    plain += chance
                    passed += chance if score_ratio(counts, 0.95).low >= limit else 0.0
    assert passed <= 0.025 and passed < plain < 0.028


def test_a_compressed_model_with_nothing_right():
    found = score_ratio(PairedCounts(0, 5, 0, 20), 0.95)
    assert found.low == 0 and 0 < found.high < 1


def test_exact_coverage_of_twelve_items():
    """Over every outcome of 12 items: 95 % intervals of the ratio cover at least 93 %."""
    shares = (0.6, 0.08, 0.08, 0.24)
    truth, covered, total = (0.6 + 0.08) / (0.6 + 0.08), 0.0, 0.0
    for both, lost, gained in itertools.product(range(13), repeat=3):
        rest = 12 - both - lost - gained
        if rest < 0 or both + lost == 0:
            continue
        ways = math.factorial(12) // math.prod(map(math.factorial, (both, lost, gained, rest)))
        chance = ways * math.prod(p**k for p, k in zip(shares, (both, lost, gained, rest), strict=True))
        found = score_ratio(PairedCounts(both, lost, gained, 12), 0.95)
        total += chance
        covered += chance * (found.low <= truth <= found.high)
    assert covered / total > 0.93


def test_fieller_solves_its_equation():
    variances, quantile = (4e-4, 5e-4, 3e-4), 2.0
    found = fieller_ratio(0.8, 0.76, variances, quantile)
    for ratio in (found.low, found.high):
        spread = variances[1] - 2 * ratio * variances[2] + ratio**2 * variances[0]
        assert (0.76 - ratio * 0.8) ** 2 == pytest.approx(quantile**2 * spread)
    assert found.low < 0.95 < found.high


def test_fieller_knows_when_it_knows_nothing():
    assert fieller_ratio(0.02, 0.03, (1e-3, 1e-3, 0.0), 2.0).high == math.inf


def test_quantiles():
    assert student_quantile(0.95, None) == normal_quantile(0.95)
    assert student_quantile(0.95, 9) == pytest.approx(2.262157, abs=1e-6)


@pytest.mark.parametrize("tilt", [-0.3, -0.05, 1e-12, 0.05, 0.3])
def test_a_skewed_quantile_is_what_the_transformation_makes_symmetric(tilt):
    found = skewed_quantile(1.96, tilt)
    assert found + tilt * found**2 / 3 + tilt**2 * found**3 / 27 + tilt / 6 == pytest.approx(1.96)
    assert (found > 1.96) == (tilt < 0) or abs(tilt) < 1e-9


@pytest.mark.parametrize("factor", [0.5, 0.9, 0.97, 1.1, 3.0])
@pytest.mark.parametrize("spread", [1e-4, 3.3e-3, 7e-3])
def test_fieller_of_scores_that_are_a_multiple_of_the_others(factor: float, spread: float):
    """Rounding makes its root negative for some of these, which says nothing of the ratio."""
    for step in range(200):
        baseline = 0.4 + 0.002717 * step
        variances = (spread**2, (factor * spread) ** 2, factor * spread * spread)
        found = fieller_ratio(baseline, factor * baseline, variances, 1.96)
        assert (found.low, found.high) == pytest.approx((factor, factor), rel=1e-6)
