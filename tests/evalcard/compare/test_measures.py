"""What rows tell beside their scores: outcomes, pass@k, other measures."""

from typing import Any

import pytest

from evalcard.compare.changes import changes_of
from evalcard.results.records import ItemScore, RowRecord, Verdict

OUTCOMES = ["correct", "wrong", "no_answer", "truncated", "error"]


def with_other(case: Any, slug: str, task: str, metric: str, filter_name: str, values: list[float | None]) -> None:
    """Give every verdict one more score."""
    case.verdicts[slug][task] = [
        verdict.model_copy(
            update={"scores": [*verdict.scores, ItemScore(metric=metric, filter=filter_name, value=value)]}
        )
        for verdict, value in zip(case.verdicts[slug][task], values, strict=True)
    ]


def test_five_counts_that_sum_to_the_samples(case, flips):
    case.add("gsm8k", *flips(20, 10, 2, 1))
    for index, outcome in enumerate(["no_answer", "no_answer", "truncated", "error"]):
        place = 19 - index
        verdict = case.verdicts["small"]["gsm8k"][place]
        case.verdicts["small"]["gsm8k"][place] = verdict.model_copy(update={"outcome": outcome})
    (row,) = case.compare().tasks
    assert row.baseline.outcomes == {"correct": 10, "wrong": 10, "no_answer": 0, "truncated": 0, "error": 0}
    assert row.compressed[0].outcomes == {"correct": 9, "wrong": 7, "no_answer": 2, "truncated": 1, "error": 1}
    assert list(row.baseline.outcomes) == OUTCOMES


def test_groups_pool_their_tasks_and_averages_have_none(case, flips):
    case.add("a", *flips(30, 20, 2, 1), row=False).add("b", *flips(10, 8, 0, 0), row=False).add("c", *flips(9, 6, 0, 0))
    case.rows.append(RowRecord(name="both", tasks=["a", "b"], rule="size"))
    comparison = case.compare()
    both = next(row for row in comparison.tasks if row.task == "both")
    assert sum(both.baseline.outcomes.values()) == 40 and both.compressed[0].outcomes["correct"] == 27
    (average,) = comparison.averages
    assert average.baseline.outcomes == {} and average.compressed[0].outcomes == {}


def test_pass_at_k(case):
    scores = [[1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]]
    (row,) = case.add("aime", scores, [[0, 0, 1, 1]] * 3).compare().tasks
    assert row.baseline.pass_at == pytest.approx([5 / 12, 1 / 2, 7 / 12, 2 / 3])
    assert row.baseline.pass_at[0] == row.baseline.score
    assert row.compressed[0].pass_at == pytest.approx([1 / 2, 5 / 6, 1, 1])
    assert sum(row.baseline.outcomes.values()) == 12 and row.n == 3


def test_no_pass_at_k_without_repeats_or_where_lower_is_better(case, flips):
    case.add("once", *flips(9, 6, 1, 0)).add("errors", [[0, 1]] * 3, [[1, 1]] * 3, higher_is_better=False)
    once, errors = case.compare().tasks
    assert once.baseline.pass_at == once.compressed[0].pass_at == errors.baseline.pass_at == []


def test_other_filters_and_metrics_of_the_same_answers(case, flips):
    case.add("gsm8k", *flips(4, 2, 0, 0), filter="strict")
    for slug, found in (("base", [1, 1, 1, 0]), ("small", [1, 1, 0, 0])):
        with_other(case, slug, "gsm8k", "acc", "flexible", found)
        with_other(case, slug, "gsm8k", "ppl", "strict", [None] * 4)
    (row,) = case.compare().tasks
    ((other,),) = [row.baseline.others]
    assert (other.metric, other.filter, other.score) == ("acc", "flexible", 0.75)
    assert [one.score for one in row.compressed[0].others] == [0.5]


def test_a_failed_answer_counts_nothing_in_every_measure(case, flips):
    case.add("gsm8k", *flips(4, 4, 0, 0))
    with_other(case, "base", "gsm8k", "acc_norm", "none", [1, 1, 1, 1])
    first = case.verdicts["base"]["gsm8k"][0]
    case.verdicts["base"]["gsm8k"][0] = first.model_copy(update={"outcome": "error", "scores": []})
    (row,) = case.compare().tasks
    assert (row.baseline.score, row.baseline.others[0].score) == (0.75, 0.75)


def test_a_group_has_the_measures_that_all_its_tasks_have(case, flips):
    case.add("a", *flips(2, 1, 0, 0), row=False).add("b", *flips(6, 3, 0, 0), row=False)
    case.rows.append(RowRecord(name="both", tasks=["a", "b"], rule="mean"))
    with_other(case, "base", "a", "acc_norm", "none", [1, 1])
    with_other(case, "base", "b", "acc_norm", "none", [0, 0, 0, 0, 0, 3])
    with_other(case, "base", "b", "f1", "none", [1] * 6)
    (row,) = case.compare().tasks
    assert [(one.metric, one.score) for one in row.baseline.others] == [("acc_norm", 0.75)]
    assert row.compressed[0].others == []


def verdict(item: int, outcome: str, extracted: str = "x", repeat: int = 0) -> Verdict:
    return Verdict(item_id=item, repeat=repeat, extracted=extracted, target="t", outcome=outcome, scores=[])


def test_changes_are_counted_by_outcome():
    before = [
        verdict(0, "wrong"),
        verdict(1, "wrong"),
        verdict(2, "correct"),
        verdict(3, "correct"),
        verdict(9, "wrong"),
    ]
    now = [verdict(0, "correct"), verdict(1, "correct"), verdict(2, "no_answer"), verdict(3, "correct", "y")]
    found = changes_of("gsm8k", "toy-w8a8", before, [*now, verdict(4, "wrong"), verdict(0, "wrong", repeat=1)])
    assert found.changed == {("wrong", "correct"): 2, ("correct", "no_answer"): 1, ("correct", "correct"): 1}
    assert (found.num_changed, found.answers, found.first_graded) == (4, 6, 2)
    assert found.line() == (
        "gsm8k, toy-w8a8: 3 of 6 outcomes changed (wrong -> correct 2, correct -> no answer 1), "
        "verdicts changed within their outcome: 1, 2 graded for the first time"
    )
    assert found.summary()["moves"][0] == {"before": "wrong", "now": "correct", "count": 2}


def test_equal_verdicts_are_no_change():
    same = [verdict(0, "wrong"), verdict(1, "correct")]
    found = changes_of("t", "m", same, [one.model_copy() for one in same])
    assert (found.num_changed, found.first_graded, found.line()) == (0, 0, "t, m: 0 of 2 outcomes changed")
