"""Does a run.json agree with itself? What a hand edited is told before any command trips over it."""

from collections import Counter
from collections.abc import Iterable, Iterator

from evalcard.errors import UserError
from evalcard.results.records import RunRecord, TaskRecord


def check_run(run: RunRecord, where: str) -> None:
    """Raises UserError naming ``where`` and the first fault: each row needs its tasks, each model its role."""
    fault = next(_faults(run), None)
    if fault is not None:
        raise UserError(
            f"{where} is damaged: {fault}. Restore the file, or give the `evalcard run` command again: stored answers "
            "are kept."
        )


def _faults(run: RunRecord) -> Iterator[str]:
    yield from _of_models(run)
    for kind, names in (("task", [task.name for task in run.tasks]), ("row", [row.name for row in run.rows])):
        yield from (f"it has the {kind} {name!r} twice" for name in _several(names))
    for task in run.tasks:
        yield from _of_task(task)
    yield from _of_rows(run)


def _of_models(run: RunRecord) -> Iterator[str]:
    """An unfinished run may have none yet."""
    if run.finished is not None and not run.models:
        yield "it is finished and names no model"
    yield from (f"it has the model {slug!r} twice" for slug in _several(model.slug for model in run.models))
    for number, model in enumerate(run.models):
        wanted = "compressed" if number else "baseline"
        if model.role != wanted:
            yield (
                f"the baseline comes first and is the only one, but model {number + 1}, {model.slug!r}, has the role "
                f"{model.role!r}, not {wanted!r}"
            )


def _of_task(task: TaskRecord) -> Iterator[str]:
    if not 0 <= task.items_selected <= task.items_total:
        yield f"the task {task.name!r} has {task.items_selected} of {task.items_total} items"
    if task.repeats < 1:
        yield f"the task {task.name!r} has {task.repeats} answers an item, and 1 is the least"
    if not 0 <= task.chance <= 1:
        yield f"the chance level of the task {task.name!r} is {task.chance:g}, not from 0 to 1"


def _of_rows(run: RunRecord) -> Iterator[str]:
    tasks = {task.name: task for task in run.tasks}
    for row in run.rows:
        if not row.tasks:
            yield f"the row {row.name!r} has no tasks"
        yield from (f"the row {row.name!r} is made of the task {name!r}, which it does not describe"
                    for name in row.tasks if name not in tasks)  # fmt: skip
        yield from (f"the row {row.name!r} has the task {name!r} twice" for name in _several(row.tasks))
        if row.rule == "task" and len(row.tasks) > 1:
            yield f"the row {row.name!r} is of one task by its rule, and has {len(row.tasks)}"
    names = {row.name for row in run.rows}
    for early in run.sequential:
        if early.row not in names:
            yield f"it stopped early on the row {early.row!r}, which it does not have"
        if not 0.5 < early.confidence < 1:
            yield f"it stopped early at a confidence of {early.confidence:g}, not between 0.5 and 1"


def _several(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]
