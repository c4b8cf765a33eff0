"""What a sequential run cannot do is said before any weights load."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evalcard.early import check_sequential
from evalcard.errors import UserError
from evalcard.gate.spec import Bounds, GateSpec
from evalcard.tasks.prepare import Prepared, prepare

GATE = GateSpec(every=Bounds(min_recovery=95))


@pytest.fixture(scope="module")
def spec(toys: Any, tokenizer_folder: Path) -> Any:
    from evalcard.spec import make_spec

    source = str(tokenizer_folder)
    return make_spec({"baseline": source, "compressed": [f"{source}:w8a8"], "data_root": str(toys.data_root),
                      "tasks": [toys.path("toy_mc"), toys.path("toy_sums")], "sequential": True})  # fmt: skip


@pytest.fixture(scope="module")
def prepared(spec: Any) -> Prepared:
    return prepare(spec)


@pytest.fixture
def refused(spec: Any, prepared: Prepared) -> Callable[..., str]:
    def check(gate: GateSpec | None = GATE, **changes: Any) -> str:
        rows, tasks = changes.pop("rows", prepared.rows), changes.pop("tasks", prepared.tasks)
        with pytest.raises(UserError) as error:
            check_sequential(spec.model_copy(update=changes), gate, replace(prepared, rows=rows, tasks=tasks))
        return str(error.value)

    return check


def changed(prepared: Prepared, name: str, **facts: Any) -> tuple[Any, ...]:
    return tuple(
        replace(task, record=task.record.model_copy(update=facts)) if task.name == name else task
        for task in prepared.tasks
    )


def test_rows_of_shares_with_a_limit_each_may_stop_early(spec: Any, prepared: Prepared):
    check_sequential(spec, GATE, prepared)
    own = GateSpec(every=Bounds(), tasks={"toy_mc": Bounds(min_recovery=90), "toy_sums": Bounds(min_recovery=99)})
    check_sequential(spec, own, prepared)
    judged = changed(prepared, "toy_sums", metric="anything", judge="number")
    check_sequential(spec, GATE, replace(prepared, tasks=judged))


@pytest.mark.parametrize("number", [0, 2])
def test_one_compressed_model(refused: Callable[..., str], spec: Any, number: int):
    said = refused(compressed=spec.compressed * number)
    assert f"judges one compressed model, got {number}. Give each its own run" in said


@pytest.mark.parametrize(
    ("given", "flag"),
    [({"limit": 3.0}, "--limit 3 "), ({"limit": 0.5}, "--limit 0.5 "), ({"limit": 10.0**6}, "--limit 1e+06 "),
     ({"limit_per_subtask": 3}, "--limit-per-subtask 3 ")],
)  # fmt: skip
def test_a_subset_is_not_the_task(refused: Callable[..., str], given: dict[str, float], flag: str):
    """Used up, it would end in an interval without width that says nothing of the items left out."""
    said = refused(**given)
    assert "is about the whole task and stops by itself" in said and flag in said
    assert f"Leave out {flag.split()[0]}: " in said and "or leave out --sequential" in said


LIMITS = {
    "none": (None, "no limit is given. Give one with --min-recovery or --gate-file"),
    "point": (replace(GATE, decide="point"), "decide: point"),
    "drop": (replace(GATE, tasks={"toy_mc": Bounds(max_drop=1)}), "limits on max_drop of toy_mc"),
    "score": (
        replace(GATE, every=Bounds(min_recovery=95, min_score=50)),
        "limits on min_score of toy_mc, min_score of",
    ),
    "average": (replace(GATE, averages={"Other": Bounds(min_recovery=95)}), "limits on the average of Other"),
    "overall": (replace(GATE, overall=Bounds(min_recovery=95)), "limits on the average over all rows"),
    "zero": (GateSpec(every=Bounds(min_recovery=0)), "there is none for toy_mc, toy_sums"),
    "one row without": (
        GateSpec(every=Bounds(), tasks={"toy_mc": Bounds(min_recovery=95)}),
        "a limit above 0 that stops it; there is none for toy_sums",
    ),
}


@pytest.mark.parametrize("case", list(LIMITS))
def test_limits(refused: Callable[..., str], case: str):
    gate, says = LIMITS[case]
    assert says in refused(gate)


def test_rows_that_share_a_task(refused: Callable[..., str], prepared: Prepared):
    alone = replace_row(prepared, "toy_sums", name="toy_shapes", tasks=["toy_shapes"])
    assert "no two may share items; toy_shapes is part of toy_mc, toy_shapes" in refused(rows=alone)


def test_rows_that_weigh_tasks_alike(refused: Callable[..., str], prepared: Prepared):
    said = refused(rows=replace_row(prepared, "toy_mc", rule="mean"))
    assert "toy_mc weighs its tasks alike" in said and "one by one" in said


@pytest.mark.parametrize("facts", [{"metric": "bleu"}, {"higher_is_better": False}, {"metric": "brier_score"}])
def test_scores_that_are_no_shares(refused: Callable[..., str], prepared: Prepared, facts: dict[str, Any]):
    said = refused(tasks=changed(prepared, "toy_colours", **facts))
    assert f"{facts.get('metric', 'acc')} of toy_colours is not known to be one (known: acc, " in said


def test_a_row_without_items(refused: Callable[..., str], prepared: Prepared):
    assert "toy_sums has no items" in refused(tasks=changed(prepared, "toy_sums", items_selected=0))


def replace_row(prepared: Prepared, which: str, **facts: Any) -> tuple[Any, ...]:
    return tuple(row.model_copy(update=facts) if row.name == which else row for row in prepared.rows)
