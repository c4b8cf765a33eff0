"""The simulation's own parts: what it simulates is what it says, and a missed bar is told."""

import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import simulate_intervals  # noqa: E402
from simulate import early, graded, pairs  # noqa: E402
from simulate.report import Part, allowance  # noqa: E402

from evalcard.compare.intervals import PairedCounts, score_difference, score_ratio  # noqa: E402


def test_quick_run_meets_every_bar(capsys):
    assert simulate_intervals.main(["--quick"]) == 0
    told = capsys.readouterr().out
    assert told.count("###") == 5 and told.endswith("Every bar is met.\n")


def test_the_same_seed_gives_the_same_table():
    tables = {early.speeds(2, seed).markdown() for seed in (1, 1, 2)}
    assert len(tables) == 2


def test_a_missed_bar_is_named_and_ends_in_1(monkeypatch, capsys):
    def one(runs, seed):
        part = Part("Coverage", ("items",), [["30"]])
        part.at_least("n 30", 0.9, 0.93, 20_000)
        yield part

    monkeypatch.setattr(simulate_intervals, "simulate", one)
    assert simulate_intervals.main([]) == 1
    assert "MISSED: Coverage, n 30: 90.0 %, must be at least 93.0 %" in capsys.readouterr().out


def test_bars_give_way_by_the_error_of_the_simulation_alone():
    assert allowance(0.025, 2000) == pytest.approx(0.01047, abs=1e-5)
    part = Part("t", ("a",))
    part.at_most("x", 0.025 + 0.0104, 0.025, 2000)
    assert not part.misses
    part.at_most("x", 0.025 + 0.0106, 0.025, 2000)
    assert len(part.misses) == 1


def test_cases_have_their_correlation_where_it_can_be():
    for case in pairs.cases(100, 0.6):
        score, other = case.both + case.lost, case.both + case.gained
        assert (score, other) == (pytest.approx(0.6), pytest.approx(0.6 * case.recovery))
        scale = np.sqrt(score * (1 - score) * other * (1 - other))
        greatest = (min(score, other) - score * other) / scale
        assert (case.both - score * other) / scale == pytest.approx(min(case.correlation, greatest))


def test_covers_where_the_interval_itself_covers():
    """The simulation asks the test statistic; asking the interval gives the same answers."""
    case = next(iter(pairs.cases(30, 0.6)))
    found = pairs.try_case(case, 300, np.random.default_rng(1))
    rest = 1 - case.both - case.lost - case.gained
    drawn = np.random.default_rng(1).multinomial(30, [case.both, case.lost, case.gained, rest], size=300)[:, :3]
    counts = [PairedCounts(*row, 30) for row in drawn.tolist()]
    ratios, points = [score_ratio(one, 0.95) for one in counts], [score_difference(one, 0.95) for one in counts]
    assert found.ratio_covered == pytest.approx(np.mean([one.low <= 1 <= one.high for one in ratios]))
    assert found.difference_covered == pytest.approx(np.mean([one.low <= 0 <= one.high for one in points]))
    assert found.false_pass == pytest.approx(np.mean([one.low >= 1 for one in ratios]))


def test_sets_of_the_sequential_test_are_what_their_rows_say():
    items = early.binary(1319, 0.9, 0.05, 1.0)
    assert len(items.baseline) == len(items.compressed) == 1319
    assert sum(items.baseline) == 1187 and items.recovery == 1
    damaged = early.binary(1319, 0.6, 0.10, 0.85)
    flips = sum(b != c for b, c in zip(damaged.baseline, damaged.compressed, strict=True))
    assert float(damaged.recovery) == pytest.approx(0.85, abs=0.001) and flips / 1319 == pytest.approx(0.1, abs=0.001)
    shares = early.graded(50, 0.95, np.random.default_rng(0))
    assert {one.denominator for one in shares.baseline} <= {1, 2, 4} and isinstance(shares.recovery, Fraction)


def test_a_stored_pair_has_the_variances_of_its_means():
    baseline, compressed = np.array([0.0, 0.5, 1.0, 1.0]), np.array([0.25, 0.5, 0.75, 1.0])
    record = graded.pair(baseline, compressed)
    assert record.baseline_variance == pytest.approx(np.var(baseline, ddof=1) / 4)
    assert record.covariance == pytest.approx(np.cov(baseline, compressed)[0, 1] / 4)
    assert (record.both, record.lost, record.gained, record.different) == (2.25, 0.25, 0.25, 2)
