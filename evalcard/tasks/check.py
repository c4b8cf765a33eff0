"""What would fail when answers are graded, found before the first answer is paid for."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from evalcard.errors import UserError
from evalcard.tasks.scoring import judge_of

if TYPE_CHECKING:
    from evalcard.tasks.harness import HarnessTask
    from evalcard.tasks.judges.judge import Judge
    from evalcard.tasks.scoring import Scoring

_DRY_ITEMS = 3
"""Items that are graded with made-up answers."""
_DRY_TEXTS = ("", "1", "A")


def check_documents(task: "HarnessTask", positions: Sequence[int]) -> None:
    """Raise UserError for a task without documents, metrics and filters that cannot be used, documents without choices
    or right answer, and right answers that the task's judge could never find met."""
    if not task.docs:
        raise UserError(f"task {task.name} has no documents. Put at least one in the file or split that it evaluates.")
    if not task.metrics:
        raise UserError(f"task {task.name} has no metric. Add one under 'metric_list'.")
    judge = judge_of(task)
    if judge is None:
        _check_measures(task)
    assert task.repeats >= 1, (task.name, task.repeats)
    for position in positions:
        if task.is_multiple_choice:
            _check_choices(task, position)
        if task.target(position) is None and (judge is not None or not task.has_own_grading):
            raise UserError(
                f"task {task.name}, item {task.item_ids[position]}: its right answer (doc_to_target) is null. Correct "
                "that document, or leave it out of the data file."
            )
    if judge is not None:
        _check_golds(task, judge, positions)


def _check_measures(task: "HarnessTask") -> None:
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


def _check_choices(task: "HarnessTask", position: int) -> None:
    wrong = [choice for choice in task.choices(position) if not isinstance(choice, str)]
    if wrong:
        raise UserError(
            f"task {task.name}, item {task.item_ids[position]}: its choices (doc_to_choice) must be texts, not "
            f"{wrong[0]!r}. Put them in quotes in the data file, or turn them into text in the task's file."
        )


def _check_golds(task: "HarnessTask", judge: "Judge", positions: Sequence[int]) -> None:
    """Each right answer by itself: to meet one of several is enough, but one that nobody can meet is a slip."""
    for position in positions:
        golds = task.golds(position)
        faults = [fault for fault in map(judge.check_gold, golds) if fault]
        if faults or not golds:
            raise UserError(
                f"task {task.name}, item {task.item_ids[position]}: no answer could be right by its judge "
                f"{judge.name}: {faults[0] if faults else 'it has no right answer'}. Correct the document, or the "
                "task's judge."
            )


def check_grading(task: "HarnessTask", scoring: "Scoring", positions: Sequence[int]) -> None:
    """Grade made-up answers to the first items: raise UserError where none can be graded, or the metric is missing.

    A judge never fails on an answer, and its golds are checked already.
    """
    if judge_of(task) is not None:
        return
    known: set[str] = set()
    graded = [one for one in positions if not task.is_multiple_choice or task.choices(one)][:_DRY_ITEMS]
    for position in graded:
        known |= set(_dry_values(task, scoring, position))
    # A grading function of the task's own may leave single items out; the harness's own leaves none.
    if graded and scoring.metric not in known and (known or not task.has_own_grading):
        raise UserError(
            f"task {task.name}: its grading gives {', '.join(sorted(known)) or 'nothing'}, but not the metric "
            f"{scoring.metric} that its 'metric_list' states. Name one of those there, or return it from "
            "process_results."
        )


def _dry_values(task: "HarnessTask", scoring: "Scoring", position: int) -> dict[str, Any]:
    """Values of the first made-up answer that can be graded; that none can is the task's fault."""
    first: UserError | None = None
    for responses in _made_up(task, position):
        try:
            return task.grade([(position, responses)])[0][scoring.filter][1]
        except UserError as error:
            first = first or error
    if first is not None:
        raise first
    return {}


def _made_up(task: "HarnessTask", position: int) -> Iterator[list[Any]]:
    """Answers as a model might give them, one response for each request; none for kinds evalcard refuses later."""
    kind = task.task.OUTPUT_TYPE
    if task.is_multiple_choice:
        asked_twice = any(metric.name == "acc_mutual_info" for metric in task.metrics)
        yield [(-1.0, False)] * (len(task.choices(position)) * (2 if asked_twice else 1))
    elif kind == "loglikelihood":
        yield [(-1.0, False)]
    elif kind == "loglikelihood_rolling":
        yield [-1.0]
    elif kind == "generate_until":
        yield from ([text] for text in (*_DRY_TEXTS, str(task.target(position))))
