"""Are a stored run's answers those the run is made of? Asked before verdicts are made of them anew."""

import json
from collections.abc import Mapping
from pathlib import Path

from evalcard.errors import UserError
from evalcard.results.journal import Address
from evalcard.results.records import RunRecord, Sample, TaskRecord
from evalcard.tasks.prepare import PreparedTask


def check_answers(
    run: RunRecord, record: TaskRecord, task: PreparedTask, journal: Path, samples: Mapping[Address, Sample]
) -> None:
    """Raise UserError, naming the journal, for answers that are none, or none of this run's, and where some are gone.

    A run that is not finished may lack any; of a finished one, verdicts that are backed by no answer would be lost.
    """
    ids = set(record.item_ids if record.item_ids is not None else task.task.item_ids)
    for sample in samples.values():
        fault = _fault(record, task, sample, is_of_run=sample.item_id in ids)
        if fault:
            raise UserError(
                f"{journal}, line {_line_of(journal, sample)}: {fault}. Delete that line; the run's own command "
                f"computes what is missing then: {' '.join(run.command)}"
            )
    expected = record.items_selected * record.repeats
    if run.finished and len(samples) < expected:
        raise UserError(
            f"{journal} holds {len(samples)} of the {expected} answers of the finished run {run.name}; the verdicts "
            f"on the other {expected - len(samples)} would be lost. Nothing was written. Restore the file, or compute "
            f"them again by the run's own command: {' '.join(run.command)}"
        )


def _fault(record: TaskRecord, task: PreparedTask, sample: Sample, is_of_run: bool) -> str | None:
    named = f"the answer to item {sample.item_id}, repeat {sample.repeat}"
    if sample.task != record.name:
        return f"{named} is one to the task {sample.task}, not {record.name}"
    if not is_of_run:
        return f"{named}: that item is not part of the run"
    if not 0 <= sample.repeat < record.repeats:
        return f"{named}: the run has the repeats 0 to {record.repeats - 1}"
    if sample.finish == "error":
        return None
    is_generated = task.task.task.OUTPUT_TYPE == "generate_until"
    if is_generated and (sample.text is None or sample.choices is not None):
        return f"{named} must have a text and no choices; got text {_shown(sample.text)}"
    if not is_generated and not sample.choices:
        return f"{named} must have the scored choices; got none"
    return None


def _shown(text: str | None) -> str:
    return "null" if text is None else json.dumps(text[:60])


def _line_of(journal: Path, sample: Sample) -> int:
    """The last line for that item and repeat, which is the one that counts."""
    found = 0
    with open(journal, "rb") as file:
        for number, line in enumerate(file, start=1):
            stored = json.loads(line) if line.endswith(b"\n") else {}
            if (stored.get("item_id"), stored.get("repeat")) == (sample.item_id, sample.repeat):
                found = number
    return found
