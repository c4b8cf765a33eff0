"""Limits decided by intervals, alone and together."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from evalcard.compare.evidence import ratio_interval
from evalcard.gate.judge import judge
from evalcard.gate.measure import wilson
from evalcard.gate.spec import Bounds, GateSpec
from evalcard.gate.verdict import GateVerdict, LimitVerdict
from evalcard.results.compared import CompressedScore
from evalcard.results.records import SequentialRecord

ALLOWED = [HealthCheck.function_scoped_fixture]
order = {"PASS": 0, "INCONCLUSIVE": 1, "FAIL": 2}


def only(judged: GateVerdict) -> LimitVerdict:
    ((limit,),) = [model.limits for model in judged.models]
    return limit


def spec_of(confidence: float = 0.95, **limits: float) -> GateSpec:
    return GateSpec(every=Bounds(**limits), confidence=confidence)


tables = st.tuples(
    st.integers(40, 400), st.floats(0.2, 1.0), st.floats(0.0, 0.2), st.floats(0.0, 0.2), st.sampled_from([1, 0.5])
)


def table(counts: Any, drawn: tuple[int, float, float, float, float]) -> tuple[list[float], list[float]]:
    """Scores of two models; graded ones where what is right counts half."""
    n, share, lost, gained, worth = drawn
    right = max(int(n * share), 10)
    before, after = counts(n, right, int(lost * right), int(gained * (n - right)))
    return [worth * one for one in before], [worth * one for one in after]


@settings(deadline=None, max_examples=60, suppress_health_check=ALLOWED)
@given(tables, st.sampled_from(["min_recovery", "max_drop", "min_score"]), st.integers(0, 2000), st.integers(0, 300))
def test_a_harder_limit_is_never_easier(compare: Any, counts: Any, drawn: Any, kind: str, limit: int, step: int):
    """And PASS and FAIL are never both: each limit has one outcome, and its figures say the same."""
    _, compared = compare({"t": table(counts, drawn)})
    easy, hard = (limit + step, limit) if kind == "max_drop" else (limit, limit + step)
    easy, hard = min(easy, 2000), min(hard, 2000)
    # Up to 1 % a share is taken for a fraction, and refused.
    assume(kind == "max_drop" or not any(0 < one <= 10 for one in (easy, hard)))
    first, second = (only(judge(compared, spec_of(**{kind: one / 10}))) for one in (easy, hard))
    assert order[first.outcome] <= order[second.outcome]
    for one in (first, second):
        worst, best = (one.high, one.low) if kind == "max_drop" else (one.low, one.high)
        sign = -1 if kind == "max_drop" else 1
        passes = worst is not None and sign * worst >= sign * one.limit
        fails = best is not None and sign * best < sign * one.limit
        assert not (passes and fails)
        assert one.outcome == ("PASS" if passes else "FAIL" if fails else "INCONCLUSIVE")


@settings(deadline=None, max_examples=40, suppress_health_check=ALLOWED)
@given(tables, st.floats(0.55, 0.999), st.integers(500, 1200))
def test_a_pass_at_a_confidence_is_where_its_interval_reaches(
    compare: Any, counts: Any, drawn: Any, confidence: float, tenths: int
):
    _, compared = compare({"t": table(counts, drawn)})
    (score,) = compared.tasks[0].compressed
    found = ratio_interval(score.paired, confidence)
    limit = only(judge(compared, spec_of(confidence, min_recovery=tenths / 10)))
    assert (limit.outcome == "PASS") == (100 * found.low >= tenths / 10)
    assert (limit.outcome == "FAIL") == (100 * found.high < tenths / 10)
    assert (limit.low, limit.high) == (100 * found.low, 100 * found.high)


@pytest.mark.parametrize("higher", [True, False])
def test_the_interval_that_decides_is_the_one_that_is_printed(higher: bool, compare: Any, counts: Any):
    _, compared = compare({"t": counts(300, 200, 9, 5)}, {"t": {"higher_is_better": higher}})
    (score,) = compared.tasks[0].compressed
    limit = only(judge(compared, spec_of(min_recovery=95)))
    assert (limit.value, limit.low, limit.high) == (score.recovery.value, score.recovery.low, score.recovery.high)
    found = ratio_interval(score.paired, compared.confidence, higher)
    assert (limit.low, limit.high) == (100 * found.low, 100 * found.high)
    wider = only(judge(compared, spec_of(0.99, min_recovery=95)))
    assert wider.low < limit.low < limit.value < limit.high < wider.high


def test_an_open_end_is_told_with_what_would_close_it(compare: Any, counts: Any):
    """300 items, nothing flipped: they show 97.4 %, and what it takes to show 99 % is true."""
    run, compared = compare({"t": counts(300, 150, 0, 0)}, {"t": {"items_total": 1319}})
    judged = judge(compared, spec_of(min_recovery=99), run)
    limit = only(judged)
    assert (judged.outcome, judged.exit_code, limit.value) == ("INCONCLUSIVE", 3, 100.0)
    assert judged.reasons == [
        f"t, small: recovery 100.00 % (95 % interval {limit.low:.2f} to {limit.high:.2f}) does not decide 99 %: about "
        f"{limit.more_items} more items like these would show it at or above the limit, and there are 1019; "
        "these can show a limit of 97.40 % or less."
    ]
    # What it says is true: with so many items more of the same kind it passes, with a tenth fewer it does not.
    enough = 300 + limit.more_items
    for half, expected in ((-(-enough // 2), "PASS"), (int(0.45 * enough), "INCONCLUSIVE")):
        assert judge(compare({"t": counts(2 * half, half, 0, 0)})[1], spec_of(min_recovery=99)).outcome == expected
    assert judge(compared, spec_of(min_recovery=97.4), run).outcome == "PASS"


def test_it_says_where_the_items_do_not_suffice(compare: Any, counts: Any):
    scores = {"t": counts(300, 150, 0, 0)}
    used_up = only(judge(compare(scores)[1], spec_of(min_recovery=99), compare(scores)[0]))
    assert "would show it at or above the limit, but all 300 are used; these" in used_up.reason
    run, compared = compare(scores, {"t": {"items_total": 320}})
    assert "the limit, but there are only 20; these" in only(judge(compared, spec_of(min_recovery=99), run)).reason
    assert "would show it at or above the limit; these" in only(judge(compared, spec_of(min_recovery=99))).reason


@pytest.mark.parametrize(
    ("limits", "side"),
    [({"min_recovery": 99}, "below"), ({"min_recovery": 97}, "at or above"), ({"max_drop": 1}, "above"),
     ({"max_drop": 2.2}, "at or below"), ({"min_score": 80}, "below"), ({"min_score": 77}, "at or above")],
)  # fmt: skip
def test_it_says_which_way_more_items_would_decide(limits: dict[str, float], side: str, compare: Any, counts: Any):
    """A release that heads for a FAIL must not read as one that only lacks items."""
    limit = only(judge(compare({"t": counts(1000, 800, 25, 11)})[1], spec_of(**limits)))
    assert limit.outcome == "INCONCLUSIVE"
    assert f"about {limit.more_items} more items like these would show it {side} the limit" in limit.reason


@pytest.mark.parametrize("distance", [0.002, 0.05])
def test_a_number_of_items_that_nobody_has_is_not_told(distance: float, compare: Any, counts: Any):
    run, compared = compare({"t": counts(1000, 800, 25, 11)})
    value = compared.tasks[0].compressed[0].recovery.value
    limit = only(judge(compared, spec_of(min_recovery=value - distance), run))
    assert limit.outcome == "INCONCLUSIVE" and limit.more_items is None
    assert ": too close to the limit to be decided in practice; these can show" in limit.reason


@pytest.mark.parametrize("least", [78.0, 77.0, 80.5])
def test_the_items_that_decide_a_least_score_are_the_ones_that_do(least: float, compare: Any, counts: Any):
    """Wilson's interval is lopsided, so that it does not narrow with the root of the items alone."""
    n, score = 500, 0.79
    limit = only(judge(compare({"t": counts(n, 395, 0, 0)})[1], spec_of(min_score=least)))
    assert limit.outcome == "INCONCLUSIVE" and limit.more_items is not None
    for items, is_open in ((n + limit.more_items, False), (n + limit.more_items - 1, True)):
        ends = wilson(score, items, 0.95)
        assert (ends.low < least / 100 < ends.high) == is_open


def test_no_number_of_items_helps_where_the_limit_is_the_value(compare: Any, counts: Any):
    limit = only(judge(compare({"t": counts(300, 150, 0, 0)})[1], spec_of(min_recovery=100)))
    assert limit.outcome == "INCONCLUSIVE" and limit.more_items is None
    assert "no number of items like these would decide" in limit.reason


@pytest.mark.parametrize(("drop", "expected"), [(2, "PASS"), (0.5, "INCONCLUSIVE"), (0, "INCONCLUSIVE")])
def test_a_drop_passes_where_the_greatest_loss_is_small_enough(drop: float, expected: str, compare: Any, counts: Any):
    _, compared = compare({"t": counts(1000, 800, 7, 4)})
    limit = only(judge(compared, spec_of(max_drop=drop)))
    assert limit.outcome == expected and limit.value == 0.3 and limit.low < 0.3 < limit.high < 2
    assert f"loss of 0.30 points (95 % interval {limit.low:.2f} to {limit.high:.2f})" in limit.reason


def test_a_drop_of_a_metric_where_lower_is_better_has_its_own_unit(compare: Any):
    before = [2.0 + place / 100 for place in range(100)]
    after = [one + 0.3 + 0.01 * (place % 3) for place, one in enumerate(before)]
    _, compared = compare({"t": (before, after)}, {"t": {"higher_is_better": False, "metric": "acc"}})
    limit = only(judge(compared, spec_of(max_drop=0.5)))
    assert limit.outcome == "PASS" and limit.value == pytest.approx(0.3099) and limit.low < limit.value < limit.high
    assert "loss of 0.31 of acc" in limit.reason and "is at most 0.5 of acc" in limit.reason
    assert only(judge(compared, spec_of(max_drop=0.25))).outcome == "FAIL"


def test_failures_are_corrected_for_their_number(compare: Any, counts: Any):
    """One row fails by a hair: by itself that is a FAIL, beside five others it may be luck."""
    weak, sound = counts(220, 160, 28, 11), counts(2000, 1600, 1, 1)
    limit = 96.9
    alone = judge(compare({"t": weak})[1], spec_of(min_recovery=limit))
    assert alone.outcome == "FAIL" and only(alone).high < limit
    rows = {"t": weak} | {f"u{place}": sound for place in range(5)}
    run, compared = compare(rows)
    among = judge(compared, spec_of(min_recovery=limit), run)
    first = among.models[0].limits[0]
    assert among.outcome == first.outcome == "INCONCLUSIVE" and first.high < limit
    assert "is below 96.9 % by itself, but not for sure among 6 limits (Holm's correction: p = 0.1" in first.reason
    assert first.more_items > 1 and "all 220 are used" in first.reason
    assert judge(compared, GateSpec(every=Bounds(limit), decide="point"), run).outcome == "FAIL"
    # A failure beyond doubt stays one.
    assert judge(compared, spec_of(min_recovery=limit + 3), run).outcome == "FAIL"


def test_a_pass_needs_no_correction(compare: Any, counts: Any):
    row = counts(300, 150, 0, 0)
    low = only(judge(compare({"t": row})[1], spec_of(min_recovery=99))).low
    rows = {f"t{place}": row for place in range(20)}
    judged = judge(compare(rows)[1], spec_of(min_recovery=low))
    assert judged.outcome == "PASS" and [limit.outcome for limit in judged.models[0].limits] == ["PASS"] * 20


def test_averages_are_decided_by_their_own_interval(compare: Any, counts: Any):
    rows = {"t": counts(400, 300, 8, 7), "u": counts(600, 300, 9, 9), "v": counts(500, 250, 9, 9)}
    run, compared = compare(rows, {"v": {"category": "words"}})
    judged = judge(compared, GateSpec(every=Bounds(), averages={"general": Bounds(95)}, overall=Bounds(95)), run)
    assert judged.outcome == "PASS"
    average, overall = judged.models[0].limits
    (stored,) = compared.averages[0].compressed
    assert (average.value, average.low) == (stored.recovery.value, stored.recovery.low)
    assert overall.low == compared.overall.compressed[0].recovery.low > average.low
    open_end = judge(compared, GateSpec(every=Bounds(), averages={"general": Bounds(99.5)}), run)
    assert open_end.outcome == "INCONCLUSIVE" and "all 1000 are used" in open_end.reasons[0]


def test_without_an_interval_only_a_point_can_be_decided(row: Any, comparison: Any):
    compared = comparison(row("t", Fraction(1), small=Fraction(99, 100)))
    limit = only(judge(compared, spec_of(min_recovery=90)))
    assert (limit.outcome, limit.low, limit.more_items) == ("INCONCLUSIVE", None, None)
    assert "no interval to decide by" in limit.reason
    assert judge(compared, GateSpec(every=Bounds(90), decide="point")).outcome == "PASS"


def sequential(compare: Any, counts: Any, decision: str | None, low: float, high: float) -> tuple[Any, Any]:
    run, compared = compare({"t": counts(200, 160, 3, 2)}, {"t": {"items_total": 1319}})
    test = SequentialRecord.model_validate(
        {"row": "t", "limit": 95.0, "confidence": 0.9, "items": 1319, "used": 200, "decision": decision, "low": low,
         "high": high}
    )  # fmt: skip
    (score,) = compared.tasks[0].compressed
    recovery = score.recovery.model_copy(update={"low": low, "high": high})
    changed: CompressedScore = score.model_copy(update={"sequential": test, "recovery": recovery})
    row = compared.tasks[0].model_copy(update={"compressed": [changed]})
    return run.model_copy(update={"sequential": [test]}), compared.model_copy(update={"tasks": [row]})


@pytest.mark.parametrize("decision", ["PASS", "FAIL"])
def test_a_decision_made_early_stands(decision: str, compare: Any, counts: Any):
    """Whatever the interval's ends, which touch the limit where the test stopped."""
    run, compared = sequential(compare, counts, decision, 94.9999999, 95.0000001)
    judged = judge(compared, spec_of(0.9, min_recovery=95), run)
    assert judged.outcome == decision
    assert "after 200 of 1319 items" in judged.reasons[0]


def test_another_limit_is_held_against_the_confidence_sequence(compare: Any, counts: Any):
    run, compared = sequential(compare, counts, "PASS", 95.2, 103.0)
    for limit, expected in ((95.2, "PASS"), (96.0, "INCONCLUSIVE"), (103.1, "FAIL")):
        assert judge(compared, spec_of(0.9, min_recovery=limit), run).outcome == expected
    undecided = only(judge(compared, spec_of(0.9, min_recovery=96), run))
    assert undecided.more_items is None and "200 of 1319 items were used" in undecided.reason


def test_an_undecided_test_leaves_it_open(compare: Any, counts: Any):
    run, compared = sequential(compare, counts, None, 91.0, 103.0)
    assert judge(compared, spec_of(0.9, min_recovery=95), run).outcome == "INCONCLUSIVE"
