"""From verdicts and samples to comparison.json."""

from pathlib import Path

import pytest

from evalcard.compare.comparison import compare_answers, compare_folder, compare_run
from evalcard.errors import ComparisonRefused
from evalcard.results.compared import Comparison, DifferenceRecord, RecoveryRecord
from evalcard.results.files import decode_record, encode_record
from evalcard.results.records import RowRecord, SequentialRecord
from evalcard.results.store import RunFolder


def test_a_row(case, flips):
    """220 items, 160 right; 28 lost and 11 gained: significant when paired (an unpaired test says 0.08)."""
    (row,) = case.add("arc", *flips(220, 160, 28, 11), chance=0.25).compare().tasks
    (score,) = row.compressed
    assert (row.n, row.task, row.metric, row.category, row.tasks) == (220, "arc", "acc", "general", ["arc"])
    assert row.baseline.score == 160 / 220 and score.score == 143 / 220
    assert (score.lost, score.gained) == (28, 11)
    assert score.mcnemar_p == pytest.approx(0.0095, abs=5e-5)
    assert score.recovery.value == 100 * 143 / 160 and score.reason is None
    assert (score.recovery.low, score.recovery.high) == pytest.approx((81.74, 96.86), abs=0.005)
    assert score.difference.value == pytest.approx(-17 / 220) and score.difference.high < 0
    assert score.error_ratio == pytest.approx(77 / 60)


def test_a_model_beside_itself(case, flips):
    (row,) = case.add("arc", *flips(100, 60, 0, 0)).compare().tasks
    (score,) = row.compressed
    assert (score.recovery.value, score.mcnemar_p, score.lost, score.gained) == (100.0, 1.0, 0, 0)


@pytest.mark.parametrize(("right", "n", "chance", "reason"), [(2281, 10_000, 0.25, "chance"), (0, 50, 0.0, "scores 0")])
def test_a_weak_baseline_has_no_recovery_and_blocks(case, flips, right, n, chance, reason, told):
    comparison = case.add("mmlu", *flips(n, right, 0, 19), chance=chance).compare()
    (score,) = comparison.tasks[0].compressed
    assert score.recovery is None and reason in score.reason
    assert reason in told(comparison)["blocker: mmlu"]


def test_repeats_count_flips_by_sample_and_have_no_test(case):
    scores = [[1, 1], [0, 1], [1, 1]] * 4
    fewer = [[1, 0], [0, 0], [1, 1]] * 4
    (row,) = case.add("aime", scores, fewer).compare().tasks
    (score,) = row.compressed
    assert row.n == 12 and row.baseline.score == 10 / 12
    assert (score.lost, score.gained, score.mcnemar_p) == (8, 0, None)


def test_scores_between_have_no_flips(case):
    (row,) = case.add("f1", [0.5, 1.0] * 10, [0.5, 0.75] * 10).compare().tasks
    (score,) = row.compressed
    assert (score.lost, score.gained, score.mcnemar_p) == (None, None, None)
    assert score.recovery.value == pytest.approx(100 * 0.625 / 0.75)


@pytest.mark.parametrize("which", ["item", "prompt"])
def test_other_items_or_prompts_are_refused(case, flips, which):
    case.add("arc", *flips(10, 8, 1, 0))
    samples = case.samples["small"]["arc"]
    samples[3] = samples[3].model_copy(update={f"{which}_hash": "another"})
    with pytest.raises(
        ComparisonRefused, match=f"task arc, item 3, repeat 0: the {which} hash of small is another"
    ) as error:
        case.compare()
    assert error.value.exit_code == 4


def test_items_on_one_side_are_a_blocker_with_counts(case, flips, told):
    case.add("arc", *flips(20, 15, 1, 0))
    del case.verdicts["small"]["arc"][5:8]
    del case.verdicts["base"]["arc"][0]
    comparison = case.compare()
    (score,) = comparison.tasks[0].compressed
    found = told(comparison)
    assert found["blocker: arc, small"].startswith("4 answers are there for one")
    assert found["blocker: arc, base"].startswith("19 of 20 answers")
    assert score.recovery is None and "4 answers" in score.reason
    assert (comparison.tasks[0].n, score.score) == (19, 11 / 17)


def test_verdicts_without_answers_do_not_count(case, flips, told):
    case.add("arc", *flips(20, 15, 0, 0))
    del case.samples["small"]["arc"][0]
    assert "19 of 20" in " ".join(finding.finding for finding in case.compare().health)


def test_a_model_without_answers_is_missing_from_the_row_and_a_blocker(case, flips, told):
    case.slugs = ["base", "small", "tiny"]
    scores = flips(20, 15, 1, 1)
    case.add("arc", *scores, scores[1])
    del case.verdicts["tiny"]
    comparison = case.compare()
    assert [score.model for score in comparison.tasks[0].compressed] == ["small"]
    assert "0 of 20" in told(comparison)["blocker: arc, tiny"]


def test_a_baseline_without_answers_leaves_no_row(case, flips, told):
    case.add("arc", *flips(20, 15, 1, 1))
    case.verdicts["base"] = {}
    comparison = case.compare()
    assert comparison.tasks == [] and comparison.averages == []
    assert "0 of 20" in told(comparison)["blocker: arc, base"]


def test_failed_answers_count_as_wrong_and_block(case, flips, told):
    case.add("arc", *flips(19, 15, 0, 0))
    case.tasks["arc"] = case.tasks["arc"].model_copy(update={"items_selected": 20, "items_total": 20})
    case.answer("base", "arc", 19, 0, 1)
    case.answer("small", "arc", 19, 0, None, outcome="error", finish="error")
    comparison = case.compare()
    assert comparison.tasks[0].compressed[0].score == 15 / 20
    assert "5.0 % (1 of 20) of answers failed" in told(comparison)["blocker: arc, small"]


@pytest.mark.parametrize("value", [None, float("nan")])
def test_a_metric_without_item_scores_is_refused(case, value):
    case.add("ppl", [1, 1], [1, 1])
    case.answer("base", "ppl", 7, 0, value)
    with pytest.raises(ComparisonRefused, match="task ppl, item 7 of base: no value for the metric acc"):
        case.compare()


def test_groups_follow_their_rule(case):
    case.add("a", [1, 1, 1, 0], [1, 1, 0, 0], row=False, chance=0.25)
    case.add("b", [1] * 8, [1] * 6 + [0] * 2, row=False, chance=0.5)
    case.rows = [RowRecord(name=rule, tasks=["a", "b"], rule=rule) for rule in ("size", "mean")]
    by_size, by_task = case.compare().tasks
    assert by_size.baseline.score == 11 / 12 and by_task.baseline.score == 7 / 8
    assert by_size.chance == pytest.approx(5 / 12) and by_task.chance == 0.375
    assert by_size.compressed[0].recovery.value == 100 * 8 / 11
    assert by_task.compressed[0].recovery.value == pytest.approx(100 * (0.5 + 0.75) / (0.75 + 1))
    assert (by_size.compressed[0].lost, by_task.compressed[0].lost) == (3, 3)


def test_a_row_of_both_directions_is_refused(case):
    case.add("acc", [1, 1], [1, 1], row=False).add("ppl", [9, 9], [9, 9], row=False, higher_is_better=False)
    case.rows = [RowRecord(name="both", tasks=["acc", "ppl"], rule="mean")]
    with pytest.raises(ComparisonRefused, match=r"row both .*lower is better \(ppl\)"):
        case.compare()


def test_averages_are_plain_means_and_ratios_of_means(case, flips):
    case.add("small_task", *flips(10, 9, 0, 0)).add("large_task", *flips(100, 50, 10, 0))
    case.add("alone", *flips(10, 9, 0, 0), category="maths")
    (average,) = case.compare().averages
    (score,) = average.compressed
    assert (average.task, average.category, average.n, average.tasks) == (
        "general",
        "general",
        2,
        ["small_task", "large_task"],
    )
    assert average.baseline.score == 0.7 and score.score == 0.65
    assert score.recovery.value == 100 * 0.65 / 0.7
    assert (score.lost, score.gained, score.mcnemar_p) == (None, None, None)


def test_an_average_over_an_undefined_row_is_undefined(case, flips):
    case.add("good", *flips(100, 90, 0, 0)).add("guessed", *flips(100, 25, 0, 5), chance=0.25)
    (average,) = case.compare().averages
    assert average.compressed[0].recovery is None
    assert average.compressed[0].reason == "there is no recovery for guessed"


def test_no_average_over_both_directions(case, flips):
    case.add("acc", *flips(10, 9, 0, 0)).add("ppl", [9.0, 8.0], [9.5, 8.5], higher_is_better=False)
    comparison = case.compare()
    assert comparison.averages == []
    assert comparison.tasks[1].compressed[0].recovery.value == pytest.approx(100 * 17 / 18)


class TestStoppedEarly:
    """What supposes a number of items that was fixed beforehand is left out; the sequence's ends stand instead."""

    EARLY = SequentialRecord(
        row="arc", limit=90.0, confidence=0.9, items=500, used=220, decision="FAIL", low=70.5, high=89.25
    )

    def compare(self, case, flips):
        case.add("arc", *flips(220, 160, 28, 11)).add("words", *flips(90, 60, 1, 0))
        other = self.EARLY.model_copy(update={"row": "words", "decision": None, "high": None})
        run = case.run().model_copy(update={"sequential": [self.EARLY, other]})
        return compare_run(run, case.verdicts, case.samples)

    def test_a_row(self, case, flips):
        comparison = self.compare(case, flips)
        (score,), (other,) = (row.compressed for row in comparison.tasks)
        assert score.sequential == self.EARLY and other.sequential.row == "words"
        assert score.recovery == RecoveryRecord(value=100 * 143 / 160, low=70.5, high=89.25)
        assert other.recovery == RecoveryRecord(value=100 * 59 / 60, low=70.5, high=None)
        assert score.difference == DifferenceRecord(value=-17 / 220)
        assert (score.mcnemar_p, score.paired) == (None, None)
        assert (score.lost, score.gained, score.error_ratio) == (28, 11, pytest.approx(77 / 60))

    def test_no_averages_and_the_confidence_of_the_test(self, case, flips):
        comparison = self.compare(case, flips)
        assert comparison.averages == [] and comparison.overall is None and comparison.confidence == 0.9
        fixed = case.compare()
        assert fixed.averages and fixed.confidence == 0.95
        assert fixed.tasks[0].compressed[0].paired is not None

    def test_without_a_recovery_there_are_no_ends(self, case, flips):
        case.add("arc", *flips(220, 160, 28, 11), chance=0.8)
        run = case.run().model_copy(update={"sequential": [self.EARLY]})
        (score,) = compare_run(run, case.verdicts, case.samples).tasks[0].compressed
        assert score.recovery is None and "chance" in score.reason and score.sequential == self.EARLY


def test_a_folder_compares_like_its_parts(case, flips, tmp_path: Path):
    case.slugs = ["base", "small", "tiny"]
    scores = flips(30, 20, 3, 2)
    case.add("arc", *scores, scores[0]).add("lm_eval/odd:name", *scores, scores[1])
    with RunFolder.open(tmp_path, "made-up") as folder:
        folder.write_run(case.run())
        for slug, tasks in case.verdicts.items():
            for task, verdicts in tasks.items():
                folder.write_verdicts(slug, task, verdicts)
                for sample in case.samples[slug][task]:
                    folder.journal(slug, task).append(sample)
        comparison = compare_folder(folder)
        assert comparison == case.compare()
        folder.write_comparison(comparison)
        assert folder.read_comparison() == comparison


def test_nothing_is_no_crash(case):
    comparison = compare_answers(case.run(), {})
    assert comparison.tasks == comparison.averages == comparison.health == []
    assert decode_record(encode_record(comparison), Comparison, "here", "") == comparison


@pytest.mark.parametrize("score", [1e300, -1e51])
def test_scores_that_no_arithmetic_holds_are_refused(case, score):
    case.add("a", [1.0] * 9, [1.0] * 8 + [score])
    with pytest.raises(ComparisonRefused, match=r"task a, item 8 of small: acc \(none\) is .*up to 1e\+50"):
        case.compare()


@pytest.mark.parametrize("score", [1e50, 1e-320, 5e-324])
@pytest.mark.parametrize("higher", [True, False])
def test_odd_scores_are_compared_or_have_a_reason(case, score, higher):
    case.add("a", [1.0] * 20, [score] * 20, higher_is_better=higher).add("b", [score] * 20, [1.0] * 20)
    for row in case.compare().tasks:
        (one,) = row.compressed
        assert one.recovery is not None or one.reason


def test_a_recovery_without_an_interval_says_why(case, told):
    case.add("a", [3.5] * 20, [3.5] * 20, higher_is_better=False)
    found = case.compare()
    (one,) = found.tasks[0].compressed
    assert one.recovery.value == 100 and one.recovery.low is one.recovery.high is None
    assert "no interval: only 0 items score differently" in told(found)["note: a, small"]
