"""Noise beside the flips of compression: when it is harmless and when it is half of what was seen."""

import pytest

from evalcard.compare.comparison import compare_run
from evalcard.gate.judge import GateSpec, judge
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
    case.add("gsm8k", baseline, small, flips(200, 100, 20, 2)[1])
    comparison = compared(noise("gsm8k", 100, 7, 1))
    (found,) = comparison.health
    assert found.finding.endswith("and 1.0 % (1 of 100) got another score; compression changed 2.0 % (4 of 200).")
    assert (found.severity, found.row, found.model) == ("warning", "gsm8k", "small")
    assert {one.model: one.outcome for one in judge(comparison, GateSpec()).models}["small"] == "INCONCLUSIVE"


def test_a_row_of_several_tasks_is_one_finding(case, flips, compared):
    for name in ("anatomy", "law"):
        case.add(name, *flips(100, 50, 10, 10), row=False)
    case.rows.append(RowRecord(name="mmlu", tasks=["anatomy", "law"], rule="size"))
    (found,) = compared(noise("anatomy", 20, 0, 0), noise("law", 20, 3, 1)).health
    assert found.row == "mmlu" and "3 of 40 answers" in found.finding and "2.5 % (1 of 40)" in found.finding
