"""Baselines that nothing may be divided by, and errors behind a high score."""

import pytest

from evalcard.gate.judge import GateSpec, judge


def test_a_tripled_error_rate_behind_a_recovery_of_99_percent(case, flips, told):
    case.add("easy", *flips(1000, 995, 10, 0))
    comparison = case.compare()
    assert f"{comparison.tasks[0].compressed[0].recovery.value:.1f}" == "99.0"
    assert told(comparison) == {"note: easy, small": "The error rate grew from 0.50 % to 1.50 %, 3.0 times."}


@pytest.mark.parametrize(
    ("task", "n", "right", "now", "chance", "said"),
    [
        ("mmlu", 14042, 3203, 3230, 0.25, "the baseline is not shown to be above chance (22.81 % on 14042 items, "
         "chance 25.00 %)"),
        ("mmlu", 14042, 0, 3230, 0.25, "the baseline scores 0"),
        ("gsm8k", 1319, 0, 0, 0.0, "the baseline scores 0"),
    ],
)  # fmt: skip
def test_a_baseline_at_chance_cannot_be_judged(case, task, n, right, now, chance, said):
    """0.2281 against 0.2300 is a ratio of 100.8 % that means nothing; a baseline of 0 divides nothing."""
    case.add(task, [1] * right + [0] * (n - right), [1] * now + [0] * (n - now), chance=chance)
    comparison = case.compare()
    (blocker,) = [one for one in comparison.health if one.severity == "blocker"]
    assert (blocker.finding, blocker.row, blocker.model) == (f"No recovery: {said}.", task, None)
    assert comparison.tasks[0].compressed[0].recovery is None
    verdict = judge(comparison, GateSpec())
    assert (verdict.outcome, verdict.exit_code) == ("CANNOT_JUDGE", 4)


@pytest.mark.parametrize(("right", "is_broken"), [(19, True), (51, True), (52, False)])
def test_a_baseline_near_zero_is_broken(case, right, is_broken):
    """Without its BOS token a model has 0.37 % of lambada right, with it 67.07 %: no denominator for anything."""
    n = 5153
    case.add("lambada_openai", [1] * right + [0] * (n - right), [1] * right + [0] * (n - right))
    comparison = case.compare()
    found = [one for one in comparison.health if one.severity == "blocker"]
    assert bool(found) == is_broken
    if right == 19:
        assert found[0].finding == "The baseline is broken: it scores 0.37 % on 5153 items."
        assert "BOS" in found[0].advice
        assert judge(comparison, GateSpec()).exit_code == 4


def test_a_low_error_is_no_broken_baseline(case, told):
    """A measure where lower is better may well be near 0."""
    case.add("errors", [0.004] * 50, [0.005] * 50, higher_is_better=False)
    assert told(case.compare()) == {}
