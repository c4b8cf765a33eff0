"""The flipped items of a comparison of stored results, with their questions as far as those can be had."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from evalcard.compare.flips import Flip, flipped
from evalcard.progress import Silent
from evalcard.results.records import ItemId
from evalcard.stored import SideBySide

FlipsByRow = Mapping[tuple[str, str], Sequence[Flip] | None]
"""(slug, row) -> flips, lost first; None where scores are not right or wrong."""


def flips_of(found: SideBySide) -> FlipsByRow:
    """Every flip of every row and compressed model, in the order of the table."""
    return {
        (model.model.slug, row.task): flipped(found.baseline, model, row.task)
        for row in found.comparison.tasks
        for model in found.compressed
    }


def with_questions(
    found: SideBySide,
    flips: FlipsByRow,
    count: int,
    data_root: str | None = None,
    trust_task_code: bool = False,
) -> tuple[FlipsByRow, list[str]]:
    """(the first ``count`` flips of each row with their questions, why some of these are missing).

    Questions that are not stored are read from the task files and documents that the runs were made of.
    """
    from evalcard.tasks.questions import read_questions

    shown = {key: list(of_row[:count]) if of_row is not None else None for key, of_row in flips.items()}
    missing: list[str] = []
    known: dict[str, dict[ItemId, str]] = {}
    for run in {run.name: run for run in found.runs}.values():
        wanted = _wanted(shown, known)
        if not wanted:
            break
        questions, why = read_questions(run, wanted, data_root, trust_task_code, Silent())
        missing += why
        for task, by_item in questions.items():
            known.setdefault(task, {}).update(by_item)
    without = _wanted(shown, known)
    if without and not found.runs:
        missing.append("the files hold none")
    told = {key: [_with(flip, known) for flip in of_row] if of_row else of_row for key, of_row in shown.items()}
    return told, list(dict.fromkeys(missing)) if without else []


def _with(flip: Flip, known: Mapping[str, Mapping[ItemId, str]]) -> Flip:
    if flip.question is not None:
        return flip
    return replace(flip, question=known.get(flip.task, {}).get(flip.item_id))


def _wanted(flips: FlipsByRow, known: Mapping[str, Mapping[ItemId, str]]) -> dict[str, dict[ItemId, str]]:
    """Task -> item -> hash of its document, of all that have no question yet."""
    wanted: dict[str, dict[ItemId, str]] = {}
    for flip in _each(flips):
        if flip.question is None and flip.item_id not in known.get(flip.task, {}):
            wanted.setdefault(flip.task, {})[flip.item_id] = flip.baseline.sample.item_hash
    return wanted


def _each(flips: FlipsByRow) -> Iterator[Flip]:
    return (flip for of_row in flips.values() for flip in of_row or ())
