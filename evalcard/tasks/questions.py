"""What stored answers were asked, in words: the documents' own questions, without worked examples or chat turns."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from evalcard.errors import UserError
from evalcard.progress import Progress
from evalcard.results.records import ItemId, RunRecord

if TYPE_CHECKING:
    from evalcard.tasks.harness import HarnessTask

Wanted = Mapping[str, Mapping[ItemId, str]]
"""Task -> item -> hash of the document that was answered."""


def read_questions(
    run: RunRecord, wanted: Wanted, data_root: str | None, trust_task_code: bool, bars: Progress
) -> tuple[dict[str, dict[ItemId, str]], list[str]]:
    """(questions by task and item, why some are missing), from the task files and documents that ``run`` was made of.

    A document that changed since it was answered is not shown: the answer was to another question.
    """
    from evalcard.tasks.regrade import prepare_stored

    try:
        tasks = prepare_stored(run, {}, data_root, trust_task_code, bars)
    except UserError as error:
        return {}, [str(error)]
    found: dict[str, dict[ItemId, str]] = {}
    missing: list[str] = []
    for name, items in wanted.items():
        if name in tasks:
            found[name], changed = _of_task(tasks[name].task, items)
            missing += [f"the documents of {changed} items of {name} changed since"] if changed else []
    return found, missing


def _of_task(task: "HarnessTask", items: Mapping[ItemId, str]) -> tuple[dict[ItemId, str], int]:
    """(questions, documents that are not those that were answered)."""
    from evalcard.tasks.prompts.encode import hash_document

    found: dict[ItemId, str] = {}
    known = dict(zip(task.item_ids, range(len(task.docs)), strict=True))
    for item, stored in items.items():
        position = known.get(item)
        if position is not None and hash_document(task.docs[position]) == stored:
            found[item] = question_of(task, position)
    return found, len(items) - len(found)


def question_of(task: "HarnessTask", position: int) -> str:
    """The document as its task words it. Raises UserError where the task's file fails on it.

    Where the question is what differs between the choices (as in WinoGrande), each is shown with the ending they share.
    """
    from evalcard.tasks.contexts import blamed_on, compiled_templates

    with compiled_templates(), blamed_on(f"{task.name}, item {task.item_ids[position]},", "has no question"):
        asked = task.task.doc_to_text(task.docs[position])
    if isinstance(asked, str):
        return asked.strip()
    return _lines(task.choices(position), str(task.target(position)))


def _lines(beginnings: Sequence[str], ending: str) -> str:
    return "\n".join(f"{one} {ending}".strip() for one in beginnings)
