"""May this run stop early? What a sequential run cannot do is said before any weights load."""

from collections import Counter
from typing import TYPE_CHECKING

from evalcard.errors import UserError
from evalcard.gate.spec import GateSpec
from evalcard.results.records import RowRecord, TaskRecord
from evalcard.spec import RunSpec

if TYPE_CHECKING:
    from evalcard.tasks.prepare import Prepared

SHARES = frozenset({
    "acc", "acc_norm", "acc_bytes", "acc_mutual_info", "exact_match", "em", "f1", "pass@1", "pass_at_1",
    "prompt_level_strict_acc", "prompt_level_loose_acc", "inst_level_strict_acc", "inst_level_loose_acc",
})  # fmt: skip
"""Metrics that give every item a share from 0 to 1, more being better."""


def check_sequential(spec: RunSpec, gate: GateSpec | None, prepared: "Prepared") -> None:
    """Raise UserError where ``spec`` cannot be run sequentially: what stops it must be one compressed model's recovery
    on rows that have no item in common, each a mean over items of scores from 0 to 1."""
    if len(spec.compressed) != 1:
        raise UserError(
            f"a sequential run judges one compressed model, got {len(spec.compressed)}. Give each its own run with "
            "--sequential: the baseline's answers are reused."
        )
    if gate is None:
        raise UserError(
            "a sequential run stops as soon as its gate is decided, and no limit is given. Give one with "
            "--min-recovery or --gate-file, or leave out --sequential."
        )
    _check_items(spec)
    _check_limits(gate, prepared.rows)
    tasks = {task.name: task.record for task in prepared.tasks}
    _check_shared(prepared.rows)
    for row in prepared.rows:
        _check_row(row, [tasks[name] for name in row.tasks])


def _check_items(spec: RunSpec) -> None:
    """A subset would be taken for the whole: once it is used up the decision would be exact, and say nothing of the
    items that were left out."""
    given = {"--limit": spec.limit, "--limit-per-subtask": spec.limit_per_subtask}
    for flag, number in given.items():
        if number is not None:
            raise UserError(
                f"a sequential run is about the whole task and stops by itself, and {flag} {number:g} would make it "
                f"one of some items only. Leave out {flag}: it is seldom that all items are used; or leave out "
                "--sequential, for an interval that is about the task behind these items."
            )


def _check_limits(gate: GateSpec, rows: tuple[RowRecord, ...]) -> None:
    if gate.decide == "point":
        raise UserError(
            "a sequential run stops once the answer is sure, and the gate decides by the measured value alone "
            "(decide: point). Leave that out of the gate, or leave out --sequential."
        )
    asked = [f"{kind} of {name}" for _, name, kind, _ in gate.limits([row.name for row in rows])
             if kind != "min_recovery"]  # fmt: skip
    averages = [f"the average of {category}" for category, bounds in gate.averages.items() if any(bounds)]
    averages += ["the average over all rows"] if any(gate.overall) else []
    if asked or averages:
        refused = ", ".join(dict.fromkeys([*asked, *averages]))
        raise UserError(
            "a sequential run is stopped by the recovery of rows (min_recovery) only; the gate has limits on "
            f"{refused}. Take these out of the gate, or leave out --sequential."
        )
    without = [row.name for row in rows if not gate.of_row(row.name).min_recovery]
    if without:
        raise UserError(
            "in a sequential run every row needs a limit above 0 that stops it; there is none for "
            f"{', '.join(without)}. Give one with --min-recovery or in the gate file, or leave these tasks out."
        )


def _check_shared(rows: tuple[RowRecord, ...]) -> None:
    counts = Counter(name for row in rows for name in row.tasks)
    shared = [name for name, count in counts.items() if count > 1]
    if shared:
        within = ", ".join(row.name for row in rows if shared[0] in row.tasks)
        raise UserError(
            "in a sequential run every row stops by itself, so no two may share items; "
            f"{shared[0]} is part of {within}. Name one of them only."
        )


def _check_row(row: RowRecord, tasks: list[TaskRecord]) -> None:
    advice = "Leave it out of --tasks, or leave out --sequential."
    if row.rule == "mean":
        raise UserError(
            f"the row {row.name} weighs its tasks alike whatever their sizes, and the sequential test is one of a mean "
            "over items. Name its tasks one by one instead, or leave out --sequential."
        )
    for task in tasks:
        if not task.higher_is_better or (task.judge is None and task.metric not in SHARES):
            raise UserError(
                "the sequential test takes scores from 0 to 1 of which more is better, and "
                f"{task.metric} of {task.name} is not known to be one (known: {', '.join(sorted(SHARES))}). {advice}"
            )
    if not sum(task.items_selected for task in tasks):
        raise UserError(f"the row {row.name} has no items to answer. {advice}")
