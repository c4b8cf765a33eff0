"""Forecasts against simulated runs, against each other, and the case from the field."""

import math
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evalcard.compare.intervals import (
    Interval,
    PairedCounts,
    flip_widening,
    normal_quantile,
    ratio_statistic,
    score_ratio,
)
from evalcard.compare.plans import MeanPlan, Plan, expected_counts
from evalcard.compare.power import (
    finest_limit,
    finest_score,
    items_for_limit,
    items_for_margin,
    items_for_score,
    margin_in_errors,
    more_items,
    more_items_of,
    smallest_drop,
    smallest_margin,
)

PLANS = [Plan(200, 0.9, 0.10), Plan(500, 0.6, 0.10), Plan(1319, 0.9, 0.05), Plan(1000, 0.3, 0.2, 0.9, 0.5)]


def draw(plan: Plan, recovery: float, source: random.Random) -> PairedCounts:
    """One simulated run of a model with this recovery."""
    mean = expected_counts(plan, recovery)
    weights = (mean.both, mean.lost, mean.gained, plan.n - mean.both - mean.lost - mean.gained)
    drawn = source.choices(("both", "lost", "gained", "neither"), weights, k=plan.n)
    return PairedCounts(drawn.count("both"), drawn.count("lost"), drawn.count("gained"), plan.n)


@pytest.mark.parametrize("plan", PLANS)
def test_smallest_drop_is_shown_as_often_as_promised(plan):
    drop, source = smallest_drop(plan), random.Random(1)
    assert drop is not None
    found = [score_ratio(draw(plan, 1 - drop, source), plan.confidence) for _ in range(300)]
    assert sum(one.high < 1 for one in found) / 300 == pytest.approx(plan.power, abs=0.09)


@pytest.mark.parametrize("plan", PLANS)
def test_finest_limit_is_passed_as_often_as_promised(plan):
    limit, source = finest_limit(plan), random.Random(2)
    assert limit is not None
    found = [score_ratio(draw(plan, 1.0, source), plan.confidence) for _ in range(300)]
    assert sum(one.low >= limit for one in found) / 300 == pytest.approx(plan.power, abs=0.09)


def share_of(plan: Plan, recovery: float, ratio: float, sign: int) -> float:
    """Of simulated runs at this recovery, those whose statistic of ``ratio`` is beyond the quantile on this side."""
    mean = expected_counts(plan, recovery)
    cells = np.array([mean.both, mean.lost, mean.gained]) / plan.n
    drawn = np.random.default_rng(7).multinomial(plan.n, [*cells, max(1 - cells.sum(), 0.0)], size=4000)
    counts, times = np.unique(drawn[:, :3], axis=0, return_counts=True)
    z, runs = normal_quantile(plan.confidence), [PairedCounts(*map(int, one), plan.n) for one in counts]
    found = [sign * ratio_statistic(one, ratio) > z * flip_widening(one) for one in runs]
    return float(times[found].sum() / times.sum())


@pytest.mark.parametrize("n", [40, 60, 100, 200, 500])
@pytest.mark.parametrize("score", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("flips", [0.02, 0.05, 0.1])
def test_few_items_show_what_is_promised_in_four_of_five_runs_and_not_in_nineteen_of_twenty(n, score, flips):
    """Where the drop takes all the flips, the statistic spreads by a half and not by one."""
    plan = Plan(n, score, flips)
    drop, limit = smallest_drop(plan), finest_limit(plan)
    assert share_of(plan, 1 - drop, 1.0, -1) == pytest.approx(plan.power, abs=0.04)
    assert share_of(plan, 1.0, limit, 1) == pytest.approx(plan.power, abs=0.04)


@pytest.mark.parametrize("figure", [smallest_drop, lambda plan: 1 - finest_limit(plan)], ids=["drop", "margin"])
def test_shows_more_with_more_items_fewer_flips_and_less_demanded(figure):
    base = Plan(500, 0.8, 0.05)
    better = [replace(base, n=501), replace(base, flip_rate=0.04), replace(base, confidence=0.94)]
    better += [replace(base, power=0.79), replace(base, n=10**6), replace(base, flip_rate=0.0)]
    assert all(figure(plan) < figure(base) for plan in better)
    sizes = [figure(Plan(n, 0.8)) for n in (50, 100, 200, 400, 800, 1600)]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("plan", [*PLANS, MeanPlan((PLANS[0], Plan(300, 0.5, 0.08)))])
@pytest.mark.parametrize("limit", [0.8, 0.95, 0.99, 0.999])
def test_items_for_a_limit_are_the_fewest_that_pass_it(plan, limit):
    n = items_for_limit(plan, limit)
    assert n is not None and finest_limit(plan.resized(n)) >= limit
    # The items of a mean come in steps of its parts.
    steps = range(1, 2 if isinstance(plan, Plan) else 4)
    assert any((finest_limit(plan.resized(n - step)) or 0) < limit for step in steps)


def test_no_number_of_items_passes_a_limit_that_asks_for_no_loss_at_all():
    assert items_for_limit(Plan(100, 0.9), 1.0) is None and items_for_limit(Plan(100, 0.9), 1.02) is None
    assert items_for_limit(Plan(100, 0.0), 0.9) is None
    assert items_for_limit(Plan(100, 0.9), 0.0) == 1


def test_a_mean_of_equal_parts_is_as_good_as_their_pool():
    part = Plan(2000, 0.8, 0.06)
    mean, pool = MeanPlan((part,) * 4), replace(part, n=8000)
    assert (mean.n, mean.score) == (pool.n, pytest.approx(pool.score))
    assert smallest_drop(mean) == pytest.approx(smallest_drop(pool), rel=0.03)
    assert finest_limit(mean) == pytest.approx(finest_limit(pool), abs=0.0005)
    nested = MeanPlan((MeanPlan((part, part)), MeanPlan((part, part))))
    assert smallest_drop(nested) == pytest.approx(smallest_drop(mean))


def test_a_mean_weighs_its_parts_alike():
    small, large = Plan(100, 0.8, 0.06), Plan(10_000, 0.8, 0.06)
    drop = smallest_drop(MeanPlan((small, large)))
    # Nearly all of the variance is that of the small part, and half of its weight.
    assert drop == pytest.approx(smallest_drop(MeanPlan((small, small))) / math.sqrt(2), rel=0.1)


def test_the_measured_value_itself_passes_finer_limits():
    """Without an interval, a lossless model passes with power 0.8 once a limit is 0.84 standard errors below it."""
    plan = Plan(800, 0.7, 0.08, confidence=None)
    limit, source = finest_limit(plan), random.Random(3)
    counts = [draw(plan, 1.0, source) for _ in range(300)]
    passed = sum(c.both + c.gained >= limit * (c.both + c.lost) for c in counts)
    assert passed / 300 == pytest.approx(0.8, abs=0.08)
    assert limit > finest_limit(replace(plan, confidence=0.95))


def test_limits_on_a_score_itself():
    plan = Plan(200, 0.944)
    finest = finest_score(plan)
    assert finest == pytest.approx(0.944 - (1.96 + 0.8416) * math.sqrt(0.944 * 0.056 / 200), abs=1e-5)
    assert items_for_score(plan, finest) == pytest.approx(200, abs=1)
    n = items_for_score(plan, 0.934)
    assert finest_score(plan.resized(n)) >= 0.934 > finest_score(plan.resized(n - 1))
    assert items_for_score(plan, 0.944) is None
    assert finest_score(Plan(1, 0.5)) == 0


def test_a_drop_that_is_shown_is_the_least_one():
    for n in (40, 130, 1319):
        for score in (0.4, 0.9, 0.99, 1.0):
            for flips in (0.0, 0.02, 0.3):
                plan = Plan(n, score, flips)
                drop = smallest_drop(plan)
                assert drop is not None and 0 < drop <= 1
                halves = [smallest_drop(replace(plan, n=n * factor)) for factor in (4, 16)]
                assert drop > halves[0] > halves[1]


DOCS = (Path(__file__).parents[3] / "docs" / "statistics.md").read_text(encoding="utf-8")
SECTION = DOCS.partition("## What a number of items can show")[2].partition("\n## ")[0]


@pytest.mark.parametrize("n", [200, 500, 1319, 5000, 14042])
def test_the_documented_drops_and_limits(n):
    plans = [Plan(n, score) for score in (0.3, 0.6, 0.9)]
    cells = [f"{100 * smallest_drop(plan):.1f} points, {100 * finest_limit(plan):.1f} %" for plan in plans]
    assert f"| {n} | {' | '.join(cells)} |" in SECTION


@pytest.mark.parametrize("limit", [95, 97, 98, 99, 99.5])
def test_the_documented_numbers_of_items(limit):
    counts = [str(items_for_limit(Plan(1, score), limit / 100)) for score in (0.3, 0.6, 0.9)]
    assert f"| {limit:g} % | {' | '.join(counts)} |" in SECTION


def test_what_cannot_be_shown_at_all():
    assert smallest_drop(Plan(3, 0.9)) is None
    assert smallest_drop(Plan(1000, 0.0)) is None
    assert finest_limit(Plan(1000, 0.0)) is None


@pytest.mark.parametrize("recovery", [0.0, 0.5, 0.93, 1.0])
@pytest.mark.parametrize("score", [0.02, 0.5, 0.98, 1.0])
def test_expected_items_have_the_score_and_the_recovery(score, recovery):
    counts = expected_counts(Plan(100, score, 0.2), recovery)
    assert counts.both + counts.lost == pytest.approx(100 * score)
    assert counts.both + counts.gained == pytest.approx(100 * score * recovery)


@pytest.mark.parametrize(
    ("counts", "limit"), [((176, 4, 4, 200), 0.99), ((270, 25, 5, 400), 0.95), ((88, 2, 2, 100), 1.02)]
)
def test_as_many_items_more_do_decide(counts, limit):
    one = PairedCounts(*counts)
    more = more_items_of(one, limit, 0.95)
    assert more is not None and more > 0
    for extra, is_decided in ((more, True), (more * 0.98 - 1, False)):
        scale = (one.n + extra) / one.n
        grown = PairedCounts(one.both * scale, one.lost * scale, one.gained * scale, math.ceil(one.n * scale))
        found = score_ratio(replace(grown, n=one.n * scale), 0.95)  # type: ignore[arg-type]
        assert (found.low >= limit or found.high < limit) == is_decided


def test_more_items_from_an_interval_alone():
    assert more_items(100, 0.98, Interval(0.94, 1.02), 0.96) == 300  # twice too wide: four times the items
    assert more_items(100, 0.98, Interval(0.94, 1.02), 1.0) == 300
    assert more_items(100, 0.98, Interval(0.94, 1.02), 0.94) == 0
    assert more_items(100, 0.98, Interval(0.94, 1.02), 0.98) is None
    assert more_items(100, 0.98, Interval(0.0, math.inf), 1.2) is None
    assert more_items_of(PairedCounts(95, 5, 0, 200), 0.95, 0.95) is None


def test_more_items_grow_towards_the_limit():
    counts = PairedCounts(180, 5, 5, 200)
    found = [more_items_of(counts, limit, 0.95) for limit in (0.9, 0.95, 0.97, 0.99, 0.999)]
    assert found == sorted(found) and found[0] == 0


def test_200_items_and_a_one_point_margin_are_0_6_standard_errors():
    """A gate at 93.5 % was red in 17 of 120 runs of a model that scores 94.4 %."""
    assert margin_in_errors(200, 0.944, 0.01) == pytest.approx(0.6, abs=0.02)
    assert smallest_margin(200, 0.944, 0.95) == pytest.approx(0.032, abs=0.001)
    assert items_for_margin(0.944, 0.01, 0.95) == 2031


def test_margins_agree_with_each_other():
    for n, score in ((50, 0.5), (200, 0.944), (1319, 0.7)):
        margin = smallest_margin(n, score, 0.95)
        assert margin_in_errors(n, score, margin) == pytest.approx(normal_quantile(0.95))
        assert items_for_margin(score, margin, 0.95) == pytest.approx(n, abs=1)
    assert margin_in_errors(10, 1.0, 0.01) == math.inf
    assert items_for_margin(1.0, 0.01, 0.95) == 1


@pytest.mark.parametrize("wrong", [{"n": 0}, {"score": 1.1}, {"flip_rate": -0.1}, {"confidence": 0.5}, {"power": 1.0}])
def test_refuses_a_plan_that_is_none(wrong):
    with pytest.raises(AssertionError):
        replace(Plan(10, 0.5), **wrong)
