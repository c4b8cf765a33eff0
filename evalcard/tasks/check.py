"""What would fail when answers are graded, found before the first answer is paid for."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from evalcard.errors import UserError

if TYPE_CHECKING:
    from evalcard.tasks.grade import Scoring
    from evalcard.tasks.harness import HarnessTask

_DRY_ITEMS = 3
"""Items that are graded with made-up answers."""
_DRY_TEXTS = ("", "1", "A")


def check_documents(task: "HarnessTask", item_ids: Sequence[int]) -> None:
    """Raise UserError for metrics and filters that cannot be used, and documents without choices or right answer."""
    if not task.metrics:
        raise UserError(f"task {task.name} has no metric. Add one under 'metric_list'.")
    if task.unknown_metrics:
        raise UserError(
            f"task {task.name}: there is no metric {' or '.join(task.unknown_metrics)} in lm_eval or the evaluate "
            "library. Correct 'metric_list', or give a function of your own (metric: !function FILE.NAME)."
        )
    if not task.filters:
        raise UserError(
            f"task {task.name}: all its filters ({', '.join(task.skipped_filters)}) need several answers at once, and "
            "evalcard grades each answer by itself. Add a filter that works on one answer under 'filter_list'."
        )
    assert task.repeats >= 1, (task.name, task.repeats)
    for item_id in item_ids:
        if task.is_multiple_choice:
            _check_choices(task, item_id)
        if task.target(item_id) is None and not task.has_own_grading:
            raise UserError(
                f"task {task.name}, item {item_id}: its right answer (doc_to_target) is null. Correct that document, "
                "or leave it out of the data file."
            )


def _check_choices(task: "HarnessTask", item_id: int) -> None:
    wrong = [choice for choice in task.choices(item_id) if not isinstance(choice, str)]
    if wrong:
        raise UserError(
            f"task {task.name}, item {item_id}: its choices (doc_to_choice) must be texts, not {wrong[0]!r}. Put them "
            "in quotes in the data file, or turn them into text in the task's file."
        )


def check_grading(task: "HarnessTask", scoring: "Scoring", item_ids: Sequence[int]) -> None:
    """Grade made-up answers to the first items: raise UserError where none can be graded, or the metric is missing."""
    known: set[str] = set()
    graded = [item_id for item_id in item_ids if not task.is_multiple_choice or task.choices(item_id)][:_DRY_ITEMS]
    for item_id in graded:
        known |= set(_dry_values(task, scoring, item_id))
    # A grading function of the task's own may leave single items out; the harness's own leaves none.
    if graded and scoring.metric not in known and (known or not task.has_own_grading):
        raise UserError(
            f"task {task.name}: its grading gives {', '.join(sorted(known)) or 'nothing'}, but not the metric "
            f"{scoring.metric} that its 'metric_list' states. Name one of those there, or return it from "
            "process_results."
        )


def _dry_values(task: "HarnessTask", scoring: "Scoring", item_id: int) -> dict[str, Any]:
    """Values of the first made-up answer that can be graded; that none can is the task's fault."""
    first: UserError | None = None
    for responses in _made_up(task, item_id):
        try:
            return task.grade([(item_id, responses)])[0][scoring.filter][1]
        except UserError as error:
            first = first or error
    if first is not None:
        raise first
    return {}


def _made_up(task: "HarnessTask", item_id: int) -> Iterator[list[Any]]:
    """Answers as a model might give them, one response for each request; none for kinds evalcard refuses later."""
    kind = task.task.OUTPUT_TYPE
    if task.is_multiple_choice:
        asked_twice = any(metric.name == "acc_mutual_info" for metric in task.metrics)
        yield [(-1.0, False)] * (len(task.choices(item_id)) * (2 if asked_twice else 1))
    elif kind == "loglikelihood":
        yield [(-1.0, False)]
    elif kind == "loglikelihood_rolling":
        yield [-1.0]
    elif kind == "generate_until":
        yield from ([text] for text in (*_DRY_TEXTS, str(task.target(item_id))))
