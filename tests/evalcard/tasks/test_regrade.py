"""A stored run's tasks: which judge each gets, and what is taken from its run.json."""

from typing import Any

import pytest

from evalcard.errors import UserError
from evalcard.results.records import RowRecord, RunRecord, TaskRecord
from evalcard.tasks.regrade import _judges_by_task, _spec_of


def task_record(name: str) -> TaskRecord:
    return TaskRecord(name=name, source="file", version="1", metric="exact_match", filter="none", category="c",
                      chance=0.0, higher_is_better=True, num_fewshot=0, repeats=1, decoding="greedy",
                      chat_template=False, items_total=4, items_selected=4, selection="all")  # fmt: skip


def run_record(**resolved: Any) -> RunRecord:
    rows = [RowRecord(name="group", tasks=["a", "b"], rule="size"), RowRecord(name="c", tasks=["c"], rule="task")]
    return RunRecord(schema=1, name="r-0123abcd", created="2026-01-01", finished=None, asked={}, resolved=resolved,
                     models=[], tasks=[task_record(name) for name in "abc"], rows=rows, progress=[], versions={},
                     hardware={}, seed=1, command=[], git=None)  # fmt: skip


def names(judges: dict[str, str]) -> dict[str, str]:
    return {task: judge.name for task, judge in _judges_by_task(run_record(), judges).items()}


def test_a_row_stands_for_its_tasks_unless_one_is_named_itself():
    assert names({"group": "number"}) == {"a": "number", "b": "number"}
    assert names({"b": "exact", "group": "number", "c": "contains"}) == {"a": "number", "b": "exact", "c": "contains"}
    assert names({}) == {}


def test_unknown_tasks_are_named_beside_the_known():
    with pytest.raises(UserError, match="has no task d. Its tasks are: group, c, a, b"):
        names({"d": "number"})


def test_unknown_judges_are_refused():
    with pytest.raises(UserError, match="number"):
        names({"a": "nmuber"})


def test_a_runs_word_on_trusting_code_is_not_taken():
    """run.json may come from somewhere else: that its run trusted code says nothing about this machine."""
    run = run_record(baseline={"source": "a/b"}, tasks=["x.yaml"], trust_task_code=True, data_root="/there")
    assert not _spec_of(run, None, False).trust_task_code
    assert _spec_of(run, None, True).trust_task_code
    assert (_spec_of(run, None, False).data_root, _spec_of(run, "here", False).data_root) == ("/there", "here")


def test_a_spec_of_another_version_is_said_to_be_the_runs():
    with pytest.raises(UserError, match="run.json of r-0123abcd is not a valid run: .*no_such_key"):
        _spec_of(run_record(baseline={"source": "a/b"}, tasks=["x"], no_such_key=1), None, False)
