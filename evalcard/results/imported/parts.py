"""Between one harness's files and stored models: a log with its header read, and what it holds of some tasks."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evalcard.results.imported.answers import Answer, sample_of, verdict_of
from evalcard.results.records import ItemId, ModelRecord, RowRecord, Sample, TaskRecord, Verdict
from evalcard.results.stored import LeftOut


@dataclass(frozen=True)
class Log:
    """One results file: its header is read, its answers are not."""

    path: Path
    writer: str
    """The harness with its version."""
    model: ModelRecord
    """Its slug is not unique yet."""
    names: tuple[str, ...]
    """What else a person may call the model."""
    identity: str
    """Equal for logs of one model that was loaded with the same arguments."""
    created: str | None
    """ISO 8601, UTC, so that text order is the order in time."""
    tasks: tuple[str, ...]
    header: Mapping[str, Any]
    is_complete: bool = True
    seed: int | None = None

    @property
    def date(self) -> str:
        return (self.created or "no date")[:19]


def model_record(
    name: str,
    hub_id: str | None,
    told: Mapping[str, Any],
    revision: object = None,
    template_digest: str | None = None,
) -> ModelRecord:
    """A model as another harness tells of it; ``told`` stands for the engine's numerics.

    Its weights and its tokenizer are not known by what they hold: an empty digest equals none.
    """
    return ModelRecord(
        slug="model",
        role="baseline",
        name=name,
        hub_id=hub_id,
        revision=str(revision) if revision and hub_id else None,
        scheme=None,
        weights_digest=None,
        tokenizer_digest="",
        template_digest=template_digest,
        numerics=json.dumps(told, sort_keys=True, default=str),
    )


@dataclass(frozen=True)
class Part:
    """What one log holds of the tasks that are wanted of it."""

    rows: list[RowRecord] = field(default_factory=list)
    tasks: dict[str, TaskRecord] = field(default_factory=dict)
    samples: dict[str, tuple[Sample, ...]] = field(default_factory=dict)
    verdicts: dict[str, tuple[Verdict, ...]] = field(default_factory=dict)
    questions: dict[str, dict[ItemId, str]] = field(default_factory=dict)
    left_out: dict[str, LeftOut] = field(default_factory=dict)
    """Tasks that cannot be compared item by item."""

    @property
    def notes(self) -> list[str]:
        """For a person."""
        return [f"{task} is left out: {one.why}" for task, one in self.left_out.items()]

    def add(self, task: TaskRecord, model: str, answers: Sequence[Answer]) -> None:
        """One task with its answers."""
        assert task.name not in self.tasks, task.name
        self.tasks[task.name] = task
        self.samples[task.name] = tuple(sample_of(task, model, one) for one in answers)
        self.verdicts[task.name] = tuple(verdict_of(task, one) for one in answers)
        self.questions[task.name] = {one.item_id: one.question for one in answers}


def single_rows(tasks: Iterable[str]) -> list[RowRecord]:
    """A row for each task."""
    return [RowRecord(name=task, tasks=[task], rule="task") for task in tasks]
