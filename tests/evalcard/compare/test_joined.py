"""Two stored models as one run: the same numbers as a run of both, and what is said of where they do not meet."""

from dataclasses import replace
from typing import Any

import pytest

from evalcard.compare.joined import compare_stored
from evalcard.errors import ComparisonRefused
from evalcard.results.records import RowRecord
from evalcard.results.stored import LeftOut


def narrowed(model: Any, task: str, items: range) -> Any:
    """The model without its other answers to the task, as if a subset had been evaluated."""
    samples = tuple(one for one in model.samples[task] if one.item_id in items)
    verdicts = tuple(one for one in model.verdicts[task] if one.item_id in items)
    update = {"items_selected": len(items), "item_ids": list(items), "selection": f"first {len(items)}"}
    record = model.tasks[task].model_copy(update=update)
    return replace(
        model,
        tasks={**model.tasks, task: record},
        samples={**model.samples, task: samples},
        verdicts={**model.verdicts, task: verdicts},
    )


def said(comparison: Any, severity: str) -> str:
    return " / ".join(f"{one.where}: {one.finding}" for one in comparison.health if one.severity == severity)


def test_the_numbers_are_those_of_one_run(case: Any, stored: Any, flips: Any):
    case.add("a", *flips(60, 40, 6, 3)).add("b", [[1, 0]] * 9, [[1, 1]] * 9, category="reasoning")
    run, found = compare_stored(*stored())
    expected = case.compare()
    assert (found.tasks, found.averages, found.overall) == (expected.tasks, expected.averages, expected.overall)
    assert found.health == expected.health
    assert [(model.slug, model.role) for model in run.models] == [("base", "baseline"), ("small", "compressed")]
    assert run.name == "run of base against run of small" and run.finished == "2026-01-01T00:00:00+00:00"


def test_a_model_against_itself(case: Any, stored: Any, flips: Any):
    case.add("a", *flips(100, 50, 0, 0))
    ours, _ = stored()
    run, found = compare_stored(ours, ours)
    assert [model.slug for model in run.models] == ["base", "base-2"]
    (one,) = found.tasks[0].compressed
    assert (one.recovery.value, one.mcnemar_p, one.lost, one.gained) == (100.0, 1.0, 0, 0)
    assert one.recovery.low < 95 and one.recovery.high > 105, "half of them right leaves room for much"
    assert "compared with itself" in said(found, "note")


def test_paired_p_value_where_an_unpaired_test_sees_nothing(case: Any, stored: Any, flips: Any):
    case.add("a", *flips(220, 160, 28, 11))
    _, found = compare_stored(*stored())
    (one,) = found.tasks[0].compressed
    assert (one.score, found.tasks[0].baseline.score) == (143 / 220, 160 / 220)
    assert one.mcnemar_p == pytest.approx(0.0095, abs=5e-5)


def test_roles_follow_the_order_that_is_asked_for(case: Any, stored: Any):
    case.add("a", [1, 1, 0, 1, 1, 1], [1, 0, 0, 1, 1, 1])
    ours, theirs = stored()
    run, found = compare_stored(theirs, ours)
    assert [(model.slug, model.role) for model in run.models] == [("small", "baseline"), ("base", "compressed")]
    assert (found.tasks[0].compressed[0].lost, found.tasks[0].compressed[0].gained) == (0, 1)


def test_rows_that_one_has_are_named_and_left_out(case: Any, stored: Any):
    case.add("a", [1] * 9, [1] * 9).add("b", [1] * 9, [1] * 9)
    ours, theirs = stored()
    only = replace(theirs, rows=(theirs.rows[0],))
    run, found = compare_stored(ours, only)
    assert [row.task for row in found.tasks] == ["a"] and [task.name for task in run.tasks] == ["a"]
    assert "Left out: b; run of small has no answers" in said(found, "warning")
    _, found = compare_stored(replace(ours, rows=(ours.rows[1],)), theirs)
    assert "Left out: a; run of base" in said(found, "note") and "Left out" not in said(found, "warning")


def test_no_row_in_common_is_refused(case: Any, stored: Any):
    case.add("a", [1] * 9, [1] * 9).add("b", [1] * 9, [1] * 9)
    ours, theirs = stored()
    with pytest.raises(ComparisonRefused, match="no row in common: a against b"):
        compare_stored(replace(ours, rows=(ours.rows[0],)), replace(theirs, rows=(theirs.rows[1],)))


def test_subsets_are_compared_on_common_items_alone(case: Any, stored: Any):
    case.add("a", [1, 0, 1, 1, 1, 1, 1, 0], [0, 0, 1, 1, 1, 1, 1, 1])
    ours, theirs = stored()
    part = narrowed(theirs, "a", range(6))
    with pytest.raises(ComparisonRefused, match="a: 8 answers against 6, 6 of them to the same items.*--common-items"):
        compare_stored(ours, part)
    run, found = compare_stored(ours, part, common_items=True)
    assert (found.tasks[0].n, found.tasks[0].baseline.score) == (6, 5 / 6)
    assert (run.tasks[0].items_selected, run.tasks[0].items_total, run.tasks[0].item_ids) == (6, 8, list(range(6)))
    assert "subset of 6 of 8 items (first 6)" in said(found, "warning")
    assert said(found, "blocker") == ""


def test_answers_that_are_missing_of_one_are_counted(case: Any, stored: Any):
    case.add("a", [1] * 9, [1] * 9)
    ours, theirs = stored()
    fewer = replace(theirs, verdicts={"a": theirs.verdicts["a"][:7]}, is_complete=False)
    with pytest.raises(ComparisonRefused, match="run of small is incomplete.*--common-items"):
        compare_stored(ours, fewer)
    run, found = compare_stored(ours, fewer, common_items=True)
    assert found.tasks[0].n == 7 and run.finished is None
    assert "7 answers are compared; 2 that only one of the two results holds are left out" in said(found, "warning")


def test_a_group_loses_the_tasks_that_only_one_answered(case: Any, stored: Any):
    case.add("a", [1] * 9, [1] * 9, row=False).add("b", [1, 0] * 4, [1, 0] * 4, row=False)
    case.rows.append(RowRecord(name="group", tasks=["a", "b"], rule="size"))
    ours, theirs = stored()
    part = replace(theirs, rows=(RowRecord(name="group", tasks=["b"], rule="size"),))
    with pytest.raises(ComparisonRefused, match="the row group is made of other tasks.*only one has: a"):
        compare_stored(ours, part)
    run, found = compare_stored(ours, part, common_items=True)
    assert (found.tasks[0].tasks, found.tasks[0].n) == (["b"], 8)
    assert run.rows[0].total(run.tasks) == 17
    assert any("8 of 17 items" in one.finding for one in found.health)


def test_no_common_item_is_refused(case: Any, stored: Any):
    case.add("a", [1] * 8, [1] * 8)
    ours, theirs = stored()
    with pytest.raises(ComparisonRefused, match="no answered item in common"):
        compare_stored(narrowed(ours, "a", range(4)), narrowed(theirs, "a", range(4, 8)), common_items=True)


@pytest.mark.parametrize(("ours", "theirs"), [("ids", "text"), ("text", "none"), ("none", "none")])
def test_prompts_that_cannot_be_compared_forbid_a_pass(case: Any, stored: Any, ours: str, theirs: str):
    case.add("a", [1, 1, 0, 1, 1, 1], [1, 1, 0, 1, 1, 1])
    one, other = stored()
    _, found = compare_stored(replace(one, prompts=ours), replace(other, prompts=theirs))
    assert "Prompts could not be compared" in said(found, "warning")


def test_prompts_that_were_compared_are_not_mentioned(case: Any, stored: Any):
    case.add("a", [1, 1, 0, 1, 1, 1], [1, 1, 0, 1, 1, 1])
    for kind in ("ids", "text"):
        _, found = compare_stored(*(replace(model, prompts=kind) for model in stored()))
        assert said(found, "warning") == "" and "Prompts" not in said(found, "note")


def test_tokenizers_that_differ_are_said_where_they_are_known(case: Any, stored: Any):
    case.add("a", [1, 1, 0, 1, 1, 1], [1, 1, 0, 1, 1, 1])
    ours, theirs = stored()
    other = replace(theirs, model=theirs.model.model_copy(update={"tokenizer_digest": "u"}))
    _, found = compare_stored(ours, other)
    assert "tokenizers of base and small differ" in said(found, "note"), "the same tokens were read"
    _, found = compare_stored(replace(ours, prompts="text"), replace(other, prompts="text"))
    assert "tokenizers of base and small differ" in said(found, "warning")
    unknown = replace(other, model=theirs.model.model_copy(update={"tokenizer_digest": ""}))
    _, found = compare_stored(ours, unknown)
    assert "tokenizers" not in said(found, "note")


def test_other_seeds_are_a_warning_where_answers_were_sampled(case: Any, stored: Any):
    case.add("a", [1] * 9, [1] * 9, decoding="sampled, temperature 0.6, top-p 0.95, seed 1234")
    ours, theirs = stored()
    record = theirs.tasks["a"].model_copy(update={"decoding": "sampled, temperature 0.6, top-p 0.95, seed 7"})
    _, found = compare_stored(ours, replace(theirs, tasks={"a": record}))
    assert "a, small: Answers were sampled with other seeds (1234 and 7)" in said(found, "warning")
    _, found = compare_stored(ours, theirs)
    assert "seeds" not in said(found, "warning")


def test_other_seeds_of_greedy_answers_say_nothing(case: Any, stored: Any):
    case.add("a", [1] * 9, [1] * 9)
    ours, theirs = stored()
    _, found = compare_stored(ours, replace(theirs, seed=7))
    assert said(found, "warning") == ""


@pytest.mark.parametrize("damaged", ["baseline", "compressed", "both"])
def test_results_that_are_there_and_unusable_forbid_a_pass(case: Any, stored: Any, damaged: str):
    case.add("a", [1] * 9, [1] * 9).add("b", [1] * 9, [0] * 9)
    ours, theirs = stored()
    broken = {"left_out": {"b": LeftOut("acc: no mean over items")}}
    if damaged != "compressed":
        ours = replace(ours, rows=ours.rows[:1], **broken)
    if damaged != "baseline":
        theirs = replace(theirs, rows=theirs.rows[:1], **broken)
    _, found = compare_stored(ours, theirs)
    assert "b: Its results are left out: " in said(found, "warning") and "no mean over items" in said(found, "warning")
    assert said(found, "warning").count("eft out") == 1, "once"


@pytest.mark.parametrize(("other", "severity"), [(True, "note"), (False, "warning")])
def test_what_has_no_item_scores_in_either_is_a_note(case: Any, stored: Any, other: bool, severity: str):
    case.add("a", [1] * 9, [1] * 9)
    one, two = (replace(model, left_out={"text": LeftOut("ppl: no mean over items", by_design)})
                for model, by_design in zip(stored(), (True, other), strict=True))  # fmt: skip
    _, found = compare_stored(one, two)
    assert "text: Its results are left out: ppl: no mean over items" in said(found, severity)


def test_items_that_neither_answered_are_a_warning_on_common_items(case: Any, stored: Any):
    case.add("a", [1] * 55, [1] * 55, items_selected=250, items_total=250)
    ours, theirs = (replace(model, is_complete=False) for model in stored())
    run, found = compare_stored(ours, theirs, common_items=True)
    assert said(found, "blocker") == ""
    expected = "a, small: 55 items are compared; the other 195 of 250 neither result has answered."
    assert expected in said(found, "warning") and found.tasks[0].n == 55
    assert (run.tasks[0].items_selected, run.tasks[0].items_total) == (55, 250)
    _, found = compare_stored(*stored())
    assert "55 of 250 answers are there" in said(found, "blocker"), "not asked to compare less"


def test_items_without_all_their_repeats_are_left_out_whole(case: Any, stored: Any):
    case.add("a", [[1, 1]] * 9, [[1, 0]] * 9)
    ours, theirs = stored()
    fewer = replace(theirs, verdicts={"a": theirs.verdicts["a"][:-1]}, is_complete=False)
    run, found = compare_stored(ours, fewer, common_items=True)
    assert found.tasks[0].n == 8 and said(found, "blocker") == ""
    assert "16 answers are compared; 2 that only one" in said(found, "warning")
