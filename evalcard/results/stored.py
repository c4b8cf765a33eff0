"""One model's graded answers as they lie on disk, whoever made them: a run of evalcard's, or another harness."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from evalcard.results.records import ItemId, ModelRecord, RowRecord, Sample, SourceRecord, TaskRecord, Verdict


class LeftOut(NamedTuple):
    """A task whose results are there and cannot be compared item by item."""

    why: str
    """In the middle of a sentence."""
    is_by_design: bool = False
    """Whether the task has no score for a single item, as a perplexity over a whole text; else something is amiss."""


@dataclass(frozen=True)
class StoredModel:
    """All that comparing it with another model needs."""

    origin: str
    """For a person: which run, or which files of which harness."""
    model: ModelRecord
    rows: tuple[RowRecord, ...]
    tasks: Mapping[str, TaskRecord]
    """The leaf tasks of the rows, by name."""
    samples: Mapping[str, tuple[Sample, ...]]
    """By task."""
    verdicts: Mapping[str, tuple[Verdict, ...]]
    """By task; each is of one sample."""
    prompts: Literal["ids", "text", "none"]
    """What ``Sample.prompt_hash`` is the hash of: token ids, the prompt's text, or nothing that can be compared."""
    questions: Mapping[str, Mapping[ItemId, str]] = field(default_factory=dict)
    """By task and item, what was asked, in words, as far as it is stored."""
    seed: int | None = None
    created: str | None = None
    """ISO 8601."""
    is_complete: bool = True
    left_out: Mapping[str, LeftOut] = field(default_factory=dict)
    """By task or file, what of its results is in none of the rows."""
    source: SourceRecord | None = None
    """The same as ``origin`` for a program, without what was passed over."""
