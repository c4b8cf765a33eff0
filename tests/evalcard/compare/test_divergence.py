"""Distances of distributions against the slow definitions of numpy and scipy."""

import math
import random

import numpy as np
import pytest
from scipy.special import log_softmax, rel_entr

from evalcard.compare.divergence import EDGES, NUM_BINS, bins, divergence, normalised, quantile, standard_error


def test_normalised_and_divergence_are_those_of_scipy():
    rng = random.Random(7)
    for _ in range(200):
        n = rng.randint(2, 12)
        first, second = ([rng.uniform(-40, 0) for _ in range(n)] for _ in range(2))
        p, q = normalised(first), normalised(second)
        assert p == pytest.approx(list(log_softmax(first)), abs=1e-12)
        expected = rel_entr(np.exp(log_softmax(first)), np.exp(log_softmax(second))).sum()
        assert divergence(p, q) == pytest.approx(expected, rel=1e-9, abs=1e-14)


def test_by_hand():
    half, quarter = normalised([math.log(0.5)] * 2), normalised([math.log(0.25), math.log(0.75)])
    assert divergence(half, quarter) == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(2 / 3))
    assert divergence(quarter, half) == pytest.approx(0.25 * math.log(0.5) + 0.75 * math.log(1.5)), "it has a direction"


def test_a_shift_of_all_choices_is_no_difference():
    spacing = math.ulp(105.0)
    assert divergence(normalised([-3.0, -5.0]), normalised([-103.0, -105.0])) <= spacing


def test_far_apart_is_finite_and_equal_is_never_negative():
    assert divergence(normalised([0.0, -2000.0]), normalised([-2000.0, 0.0])) == pytest.approx(2000)
    rng = random.Random(3)
    for _ in range(500):
        p = normalised([rng.uniform(-5, 0) for _ in range(4)])
        assert 0 <= divergence(p, [one + rng.choice((-1, 1)) * 1e-16 for one in p]) < 1e-15


def test_quantiles_and_errors_are_those_of_numpy():
    rng = random.Random(5)
    for n in (1, 2, 3, 10, 101):
        values = sorted(rng.random() for _ in range(n))
        for share in (0, 0.5, 0.9, 0.99, 1):
            assert quantile(values, share) == pytest.approx(float(np.quantile(values, share)))
        if n > 1:
            assert standard_error(values) == pytest.approx(np.std(values, ddof=1) / math.sqrt(n))
    assert standard_error([1.0]) is None


def test_bins_hold_every_divergence_once_and_where_it_belongs():
    assert len(EDGES) == NUM_BINS - 1 and EDGES[0] == 1e-8 and EDGES[-1] == pytest.approx(10)
    values = [0.0, 9e-9, 1e-8, 1.1e-8, 0.5, 9.9, 10.0, 500.0]
    counts = bins(values)
    assert sum(counts) == len(values) and counts[0] == 2 and counts[1] == 2 and counts[-1] == 2 and counts[-2] == 1
    assert list(np.histogram(values, [-1.0, *EDGES, math.inf])[0]) == counts
