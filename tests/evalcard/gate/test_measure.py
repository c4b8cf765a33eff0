"""Values as exact as they were stored, and intervals of one model's score."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalcard.compare.recovery import wilson_low
from evalcard.gate.judge import judge
from evalcard.gate.measure import percent, wilson
from evalcard.gate.spec import Bounds, GateSpec
from evalcard.gate.verdict import LimitVerdict
from evalcard.results.compared import Comparison

ALLOWED = [HealthCheck.function_scoped_fixture]
counted = st.integers(1, 3000).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, 2 * n)))


def judged(compared: Comparison, decide: str = "point", **limits: float) -> LimitVerdict:
    spec = GateSpec(every=Bounds(**limits), decide=decide)  # type: ignore[arg-type]
    (limit,) = judge(compared, spec).models[0].limits
    return limit


@settings(deadline=None, suppress_health_check=ALLOWED)
@given(counted, st.integers(0, 2000).filter(lambda tenths: not 0 < tenths <= 10))
def test_floats_decide_as_the_fractions_would(row: Any, comparison: Any, counts: tuple[int, int], tenths: int):
    """Recovery, score and loss of points, of models with a whole number of right answers."""
    baseline, compressed = Fraction(counts[0], 6000), Fraction(counts[1], 6000)
    compared, limit = comparison(row("t", baseline, m=compressed)), Fraction(tenths, 10)
    recovery = judged(compared, min_recovery=tenths / 10)
    assert (recovery.outcome == "PASS") == (100 * compressed / baseline >= limit)
    score = judged(compared, min_score=tenths / 10)
    assert (score.outcome == "PASS") == (100 * compressed >= limit)
    drop = judged(compared, max_drop=tenths / 10)
    assert (drop.outcome == "PASS") == (100 * (baseline - compressed) <= limit)


@settings(deadline=None, suppress_health_check=ALLOWED)
@given(st.integers(1, 10_000), st.data())
def test_a_score_at_its_limit_passes(row: Any, comparison: Any, n: int, data: Any):
    """Each limit with up to three decimals that ``n`` items can meet exactly."""
    right = data.draw(st.integers(0, n))
    score = Fraction(right, n)
    if (100_000 * score).denominator != 1 or 0 < 100 * score <= 1:
        return
    limit = float(100 * score)
    compared = comparison(row("t", Fraction(1), m=score))
    assert judged(compared, min_score=limit).outcome == "PASS"
    assert judged(compared, max_drop=float(100 * (1 - score))).outcome == "PASS"


def test_percent_takes_the_decimal_that_was_meant():
    assert percent(0.29) == 29 != 100 * 0.29
    assert percent(460 / 500) == 92 and percent(1 / 3) == pytest.approx(100 / 3, rel=1e-15)


@pytest.mark.parametrize(
    ("score", "n", "low", "high"),
    # A score of 1 has the lower end 1 / (1 + z^2 / n).
    [(1.0, 100, 1 / (1 + 1.95996398454**2 / 100), 1.0), (0.0, 100, 0.0, 0.0369935), (0.5, 10, 0.2365931, 0.7634069)],
)  # fmt: skip
def test_wilson_interval(score: float, n: int, low: float, high: float):
    found = wilson(score, n, 0.95)
    assert found.low == pytest.approx(low, abs=1e-7) and found.high == pytest.approx(high, abs=1e-7)


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_wilson_interval_agrees_with_the_baseline_check(counts: tuple[int, int]):
    n, right = counts
    found, mirrored = wilson(right / n, n, 0.95), wilson((n - right) / n, n, 0.95)
    assert found.low == pytest.approx(wilson_low(right / n, n), rel=1e-9, abs=1e-12)
    assert found.high == pytest.approx(1 - mirrored.low, rel=1e-9, abs=1e-12)


def test_items_right_or_wrong_have_wilsons_interval(compare: Any, counts: Any):
    _, compared = compare({"t": counts(200, 190, 1, 0)})
    limit = judged(compared, "interval", min_score=93.5)
    found = wilson(189 / 200, 200, 0.95)
    assert (limit.value, limit.outcome) == (94.5, "INCONCLUSIVE")
    assert limit.low == pytest.approx(100 * found.low) and limit.high == pytest.approx(100 * found.high)


def test_graded_scores_have_students_interval(compare: Any):
    from scipy.stats import t, tstd

    before, after = [place / 40 for place in range(40)], [place / 50 for place in range(40)]
    _, compared = compare({"t": (before, after)})
    limit = judged(compared, "interval", min_score=30)
    reach = 100 * t.ppf(0.975, 39) * tstd(after) / 40**0.5
    assert (limit.low, limit.high) == pytest.approx((39 - reach, 39 + reach))


@pytest.mark.parametrize("scores", [[1.0] * 40, [0.5] * 40, [0.5, 0.75] * 4])
def test_a_score_that_tells_no_spread_has_wilsons_interval(scores: list[float], compare: Any):
    """Graded scores that are all alike, or fewer than ten."""
    _, compared = compare({"t": ([0.25, *scores[1:]], scores)})
    limit, found = judged(compared, "interval", min_score=2), wilson(sum(scores) / len(scores), len(scores), 0.95)
    assert limit.low == pytest.approx(100 * found.low) and limit.high == pytest.approx(100 * found.high)
    assert limit.low < limit.value and limit.value <= limit.high


def test_an_average_of_perfect_rows_still_has_width(compare: Any):
    """Two rows of 20 and 80 items spread as 64 items of one kind do: 4 / (1/20 + 1/80)."""
    _, compared = compare({"t": ([1] * 20, [1] * 20), "u": ([1] * 80, [1] * 80)})
    spec = GateSpec(every=Bounds(), averages={"general": Bounds(min_score=95)})
    (limit,) = judge(compared, spec).models[0].limits
    assert limit.low == pytest.approx(100 * wilson(1.0, 64, 0.95).low) and limit.high == 100


def test_an_average_of_scores_has_the_normal_interval_of_its_standard_error(compare: Any, counts: Any):
    _, compared = compare({"t": counts(100, 80, 2, 1), "u": counts(100, 50, 2, 1)})
    spec = GateSpec(every=Bounds(), overall=Bounds(min_score=60))
    (limit,) = judge(compared, spec).models[0].limits
    (stored,) = compared.averages[0].compressed
    assert limit.low == pytest.approx(100 * (stored.score - 1.959964 * stored.stderr))


def test_a_drop_without_its_items_is_still_measured(row: Any, comparison: Any):
    compared = row("t", Fraction(9, 10), m=Fraction(8, 10))
    (score,) = compared.compressed
    bare = compared.model_copy(update={"compressed": [score.model_copy(update={"difference": None})]})
    assert judged(comparison(bare), max_drop=10).outcome == "PASS"
    assert judged(comparison(bare), max_drop=9.9).value == 10
