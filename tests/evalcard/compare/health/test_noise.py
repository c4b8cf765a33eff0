"""Noise beside the flips of compression: when it is harmless and when it is half of what was seen."""

import random
from fractions import Fraction

import pytest

from evalcard.compare.comparison import compare_run
from evalcard.compare.health.noise import about_noise
from evalcard.compare.pairing import Answered
from evalcard.gate.judge import GateSpec, judge
from evalcard.gate.spec import Bounds
from evalcard.results.records import NoiseRecord, RowRecord


def noise(task: str, answers: int, differing: int, flipped: int) -> NoiseRecord:
    return NoiseRecord(task=task, answers=answers, differing=differing, flipped=flipped)


@pytest.fixture
def compared(case):
    def compare(*records: NoiseRecord):
        return compare_run(case.run().model_copy(update={"noise": list(records)}), case.verdicts, case.samples)

    return compare


def test_equal_answers_are_summed_up(case, flips, compared):
    case.add("gsm8k", *flips(100, 50, 2, 2)).add("arc", *flips(100, 50, 2, 2))
    (found,) = compared(noise("gsm8k", 20, 0, 0), noise("arc", 30, 0, 0)).health
    assert found.finding == "Asked again in another order, all 50 answers of the baseline were the same."
    assert (found.severity, found.where, found.row, found.model) == ("note", "base", None, None)


def test_no_check_no_finding(case, flips, compared):
    case.add("gsm8k", *flips(100, 50, 2, 2))
    assert compared().health == []


@pytest.mark.parametrize(
    ("differing", "flipped", "tail"),
    [(7, 0, ", none in its score."), (7, 1, ", and 1.0 % (1 of 100) got another score.")],
)
def test_little_noise_is_a_note(case, flips, compared, differing, flipped, tail):
    case.add("gsm8k", *flips(200, 100, 3, 2))  # 2.5 % flipped
    (found,) = compared(noise("gsm8k", 100, differing, flipped)).health
    assert found.finding == f"Asked again in another order, 7 of 100 answers of the baseline differed{tail}"
    assert (found.severity, found.row) == ("note", "gsm8k")


def test_noise_of_half_the_flips_is_a_warning_for_that_model(case, flips, compared):
    case.slugs = ["base", "small", "tiny"]
    baseline, small = flips(200, 100, 2, 2)
    case.add("gsm8k", baseline, small, flips(200, 100, 30, 2)[1])
    comparison = compared(noise("gsm8k", 100, 7, 6))
    (found,) = comparison.health
    assert found.finding.endswith("and 6.0 % (6 of 100) got another score; compression changed 2.0 % (4 of 200).")
    assert (found.severity, found.row, found.model) == ("warning", "gsm8k", "small")
    assert {one.model: one.outcome for one in judge(comparison, GateSpec()).models}["small"] == "INCONCLUSIVE"


def test_a_row_of_several_tasks_is_one_finding(case, flips, compared):
    for name in ("anatomy", "law"):
        case.add(name, *flips(100, 50, 10, 10), row=False)
    case.rows.append(RowRecord(name="mmlu", tasks=["anatomy", "law"], rule="size"))
    (found,) = compared(noise("anatomy", 20, 0, 0), noise("law", 20, 3, 1)).health
    assert found.row == "mmlu" and "3 of 40 answers" in found.finding and "2.5 % (1 of 40)" in found.finding


def test_noise_that_may_be_luck_is_a_note_with_the_figures(case, flips, compared):
    """One flip of 50 answers is a rate of 2 %, and would be half of most changes."""
    case.add("gsm8k", *flips(200, 100, 3, 3))
    comparison = compared(noise("gsm8k", 50, 7, 1))
    (found,) = comparison.health
    assert found.finding.endswith("2.0 % (1 of 50) got another score; compression changed 3.0 % (6 of 200).")
    assert (found.severity, found.model) == ("note", "small") and "--noise-check" in found.advice
    assert judge(comparison, GateSpec(every=Bounds(min_recovery=50))).outcome == "PASS"


@pytest.mark.parametrize(
    ("answers", "differing", "is_said"), [(3, 0, True), (19, 0, True), (20, 0, False), (5, 1, True)]
)
def test_few_answers_say_what_they_cannot_show(case, flips, compared, answers, differing, is_said):
    case.add("gsm8k", *flips(200, 100, 3, 3)).add("arc", *flips(200, 100, 3, 3))
    found = compared(noise("gsm8k", answers, differing, 0), noise("arc", 100, differing, 0)).health[0].finding
    said = f". Of a task only {answers} were asked again: noise below 1 in {answers} shows in none."
    assert found.endswith(said) == is_said and ("Of a task only" in found) == is_said


ROWS, ITEMS = [f"t{n}" for n in range(6)], 1319


@pytest.fixture
def simulate(case, flips):
    """Share of simulated runs with a warning: six rows whose items flip at ``change``, and by noise at ``rate``."""
    for name in ROWS:
        case.add(name, *flips(4, 2, 0, 0))
    run = case.run()
    right, wrong = (Answered(Fraction(value), "correct", "stop", "i", "p") for value in (1, 0))
    baseline = {name: {(item, 0): right for item in range(ITEMS)} for name in ROWS}

    def share(change: float, rate: float, asked: int, runs: int, source: random.Random) -> float:
        warned = 0
        for _ in range(runs):
            small = {name: {at: wrong if source.random() < change else right for at in baseline[name]} for name in ROWS}
            flipped = [sum(source.random() < rate for _ in range(asked)) for _ in ROWS]
            records = [noise(name, asked, count, count) for name, count in zip(ROWS, flipped, strict=True)]
            found = about_noise(run.model_copy(update={"noise": records}), {"base": baseline, "small": small})
            warned += any(one.severity == "warning" for one in found)
        return warned / runs

    return share


@pytest.mark.parametrize("change", [0.01, 0.03, 0.08])
@pytest.mark.parametrize("part", [6, 10])
def test_noise_far_below_the_change_is_seldom_warned_of(simulate, change, part):
    """50 answers asked again: at most 3 % of runs, in which one flip is two thirds of a change of 3 %."""
    assert simulate(change, change / part, 50, 100, random.Random(part)) <= 0.03


def test_noise_as_large_as_the_change_is_warned_of(simulate):
    assert simulate(0.05, 0.05, 500, 30, random.Random(3)) > 0.9
