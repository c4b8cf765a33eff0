"""A limit on what is not there, or means nothing there, is an error, never a pass."""

from fractions import Fraction
from typing import Any

import pytest

from evalcard.errors import UserError
from evalcard.gate.spec import Bounds, GateSpec
from evalcard.gate.targets import find_targets
from evalcard.results.records import SequentialRecord

ONE = Fraction(1)


def asked(**limits: Any) -> GateSpec:
    return GateSpec(**({"every": Bounds()} | limits))


def test_a_limit_on_an_unknown_task_lists_the_tasks(row: Any, comparison: Any):
    compared = comparison(row("gsm8k", ONE), row("mmlu", ONE))
    with pytest.raises(UserError, match="gsmk8, but the run has no such task. Its tasks are: gsm8k, mmlu") as error:
        find_targets(compared, GateSpec(tasks={"gsmk8": Bounds(98)}))
    assert error.value.exit_code == 2


def test_a_limit_on_an_unknown_category_lists_the_categories(row: Any, comparison: Any):
    compared = comparison(row("t", ONE, "maths"), row("u", ONE, "words"))
    with pytest.raises(UserError, match="average of math, but the run has no such category.*: maths, words"):
        find_targets(compared, asked(averages={"math": Bounds(98)}))


def test_a_category_of_one_row_is_that_row(row: Any, comparison: Any):
    compared = comparison(row("t", ONE, "maths"), row("u", ONE, "words"))
    (target,) = find_targets(compared, asked(averages={"maths": Bounds(98)}))
    assert target.row == compared.tasks[0] and target.touches == {"t"} and not target.is_average


def test_overall_is_the_average_of_the_only_category_or_the_only_row(row: Any, comparison: Any):
    spec = asked(overall=Bounds(98))
    t, u, mean = row("t", ONE), row("u", ONE), row("general", ONE)
    (target,) = find_targets(comparison(t, u, averages=[mean]), spec)
    assert target.row == mean and target.touches == {"t", "u"} and target.is_average
    (target,) = find_targets(comparison(t), spec)
    assert target.row == t and target.touches == {"t"}
    other = row("v", ONE, "words")
    (target,) = find_targets(comparison(t, u, other, averages=[mean], overall=row("overall", ONE)), spec)
    assert target.row is not None and target.row.task == "overall" and target.touches == {"t", "u", "v"}


def test_scores_of_two_directions_have_no_average(compare: Any, counts: Any):
    rows = {"t": counts(50, 40, 1, 1), "u": counts(50, 40, 1, 1)}
    _, compared = compare(rows, {"u": {"higher_is_better": False}})
    for spec in (asked(averages={"general": Bounds(98)}), asked(overall=Bounds(98))):
        with pytest.raises(UserError, match="lower is better on u and higher on the others.*: t, u"):
            find_targets(compared, spec)


def test_a_least_score_needs_a_metric_where_higher_is_better(compare: Any, counts: Any):
    _, compared = compare({"t": counts(50, 40, 1, 1)}, {"t": {"higher_is_better": False}})
    for spec in (asked(every=Bounds(min_score=50)), asked(overall=Bounds(min_score=50))):
        with pytest.raises(UserError, match="min_score 50 is asked of .*lower is better for its metric acc"):
            find_targets(compared, spec)


def test_an_average_misses_the_rows_that_nobody_answered(row: Any, comparison: Any, record: Any):
    run = record({"t": {}, "u": {}, "v": {"category": "words"}}, ["base", "small"])
    compared = comparison(row("t", ONE))
    spec = asked(averages={"general": Bounds(98), "words": Bounds(98)}, overall=Bounds(98))
    general, words, overall = find_targets(compared, spec, run)
    assert general.touches == {"t", "u"} and overall.touches == {"t", "u", "v"}
    assert words.row is None and words.touches == {"v"}


def stopped(compare: Any, counts: Any) -> Any:
    _, compared = compare({"t": counts(50, 40, 1, 1), "u": counts(50, 40, 1, 1)})
    test = SequentialRecord(
        row="t", limit=95, confidence=0.95, items=1319, used=50, decision="PASS", low=95.1, high=110.0
    )
    (score,) = compared.tasks[0].compressed
    early = compared.tasks[0].model_copy(update={"compressed": [score.model_copy(update={"sequential": test})]})
    return compared.model_copy(update={"tasks": [early, compared.tasks[1]]})


@pytest.mark.parametrize(
    ("spec", "got"),
    [(asked(tasks={"t": Bounds(max_drop=1)}), "max_drop of t"), (asked(every=Bounds(min_score=2)), "min_score of t"),
     (asked(averages={"general": Bounds(98)}), "min_recovery of the average of general"),
     (asked(overall=Bounds(max_drop=1)), "max_drop of the overall average"),
     (GateSpec(confidence=0.9), "a confidence of 0.9"), (GateSpec(decide="point"), "the decision by 'point'")],
)  # fmt: skip
def test_what_a_run_that_stopped_early_cannot_be_asked(spec: GateSpec, got: str, compare: Any, counts: Any):
    with pytest.raises(UserError, match="t used 50 of 1319 items") as error:
        find_targets(stopped(compare, counts), spec)
    assert "min_recovery of its rows (t) at a confidence of 0.95 by 'interval' only" in str(error.value)
    assert f"got {got}. " in str(error.value)


def test_its_other_rows_can_be_asked_anything(compare: Any, counts: Any):
    spec = GateSpec(tasks={"u": Bounds(max_drop=3, min_score=50)})
    found = find_targets(stopped(compare, counts), spec)
    assert [(one.name, one.kind) for one in found] == [
        ("t", "min_recovery"), ("u", "min_recovery"), ("u", "max_drop"), ("u", "min_score")
    ]  # fmt: skip
