"""Rows and notes of the card's tables."""

import pytest

from evalcard.card.settings import row_settings
from evalcard.card.tables import row_view, table_view
from evalcard.results.compared import RecoveryRecord
from evalcard.results.records import RowRecord


def test_a_row(make_case):
    run, comparison = make_case()
    view = row_view(run, comparison.tasks[0], "toy-1b-w8a8")
    assert (view.task, view.detail, view.items) == ("arc", "0-shot, acc", "200")
    assert (view.baseline, view.compressed, view.recovery) == ("75.00 ± 3.07", "72.50 ± 3.17", "96.67 %")
    assert (view.lost, view.gained, view.p_value, view.mark) == ("9", "4", "0.27", "")


def test_a_subset_and_a_filter_are_said(make_case):
    run, comparison = make_case()
    view = row_view(run, comparison.tasks[2], "toy-1b-w8a8")
    assert (view.detail, view.items) == ("5-shot, exact_match, strict-match", "40 of 500")


def test_a_row_that_tasks_left_stays_a_part_of_the_whole(make_case):
    run, comparison = make_case()
    rows = [row.model_copy(update={"items_total": 14042}) if row.name == "arc" else row for row in run.rows]
    run = run.model_copy(update={"rows": rows})
    assert row_view(run, comparison.tasks[0], "toy-1b-w8a8").items == "200 of 14042"
    assert row_settings(run, comparison.tasks[0]).selection == "200 of 14042 (seeded)"
    assert row_view(run, comparison.tasks[2], "toy-1b-w8a8").items == "40 of 500"


def test_repeats_are_said(make_case):
    run, comparison = make_case()
    tasks = [run.tasks[0].model_copy(update={"repeats": 64}), *run.tasks[1:]]
    assert row_view(run.model_copy(update={"tasks": tasks}), comparison.tasks[0], "toy-1b-w8a8").items == "200 × 64"


def test_a_group_names_what_its_tasks_share_and_what_not(make_case):
    rows = [RowRecord(name="both", tasks=["arc", "facts"], rule="size")]
    run, comparison = make_case(rows=rows)
    tasks = [run.tasks[0].model_copy(update={"num_fewshot": 25}), *run.tasks[1:]]
    view = row_view(run.model_copy(update={"tasks": tasks}), comparison.tasks[0], "toy-1b-w8a8")
    assert (view.detail, view.items) == ("25-shot / 0-shot, acc", "320")


def test_lower_is_better_is_said_and_not_in_percent(make_case):
    run, comparison = make_case()
    row = comparison.tasks[0]
    score = row.compressed[0].model_copy(update={"score": 12.5, "recovery": RecoveryRecord(value=80.0)})
    baseline = row.baseline.model_copy(update={"score": 10.0, "stderr": 0.25})
    row = row.model_copy(update={"baseline": baseline, "compressed": [score]})
    tasks = [run.tasks[0].model_copy(update={"higher_is_better": False, "metric": "ppl"}), *run.tasks[1:]]
    view = row_view(run.model_copy(update={"tasks": tasks}), row, "toy-1b-w8a8")
    assert view.detail == "0-shot, ppl, lower is better"
    assert (view.baseline, view.recovery) == ("10.00 ± 0.25", "80.00 %")


def test_a_recovery_that_contradicts_its_scores_is_never_printed(make_case):
    run, comparison = make_case()
    score = comparison.tasks[0].compressed[0].model_copy(update={"recovery": RecoveryRecord(value=99.0)})
    with pytest.raises(AssertionError):
        row_view(run, comparison.tasks[0].model_copy(update={"compressed": [score]}), "toy-1b-w8a8")


def test_an_average_names_its_rows(make_case):
    run, comparison = make_case()
    table = table_view(run, comparison, "knowledge", "toy-1b-w8a8")
    assert table.average_of == ("arc", "facts") and table.notes == ()
    assert (table.average.baseline, table.average.compressed, table.average.recovery) == (
        "62.50 ± 2.76", "61.25 ± 2.79", "98.00 %",
    )  # fmt: skip
    assert (table.average.detail, table.average.items, table.average.lost) == ("", "", "–")


def test_one_row_has_no_average(make_case):
    run, comparison = make_case()
    assert table_view(run, comparison, "maths", "toy-1b-w8a8").average is None


def test_a_dash_points_to_its_reason(make_case):
    run, comparison = make_case()
    table = table_view(run, comparison, "riddles", "toy-1b-w8a8")
    assert (table.rows[0].recovery, table.rows[0].mark) == ("–", "a")
    ((mark, reason),) = table.notes
    assert mark == "a" and "chance 25.00 %" in reason


def test_a_model_without_a_score_has_dashes(make_case):
    run, comparison = make_case()
    table = table_view(run, comparison, "maths", "someone else")
    assert (table.rows[0].compressed, table.rows[0].recovery, table.rows[0].p_value) == ("–", "–", "–")
    assert table.notes == (("a", "the model has no answers here"),)
