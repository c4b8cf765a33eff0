"""Both models' samples, side by side: joined on (item, repeat), refused where they do not answer the same prompt."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeGuard

from evalcard.compare.health.repetition import ends_in_a_loop
from evalcard.errors import ComparisonRefused
from evalcard.results.journal import Address
from evalcard.results.records import Finish, Outcome, Sample, TaskRecord, Verdict

MOST_SCORE = 1e50
"""Of either sign. Variances of greater scores, and products of these, leave the range of a float."""
MeasureName = tuple[str, str]
"""(metric, filter)."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What a comparison needs to know of one graded sample."""

    value: Fraction
    """The primary metric, exactly as the task gave it; 0 for an answer that failed."""
    outcome: Outcome
    finish: Finish
    item_hash: str
    prompt_hash: str
    others: Mapping[MeasureName, Fraction] = field(default_factory=dict)
    """Every other measure of the answer that has a value for a single item."""
    shots: int | None = None
    """Worked examples in the prompt where some were left out."""
    is_empty: bool = False
    """Whether a text was asked for and nothing but white space came."""
    is_loop: bool = False
    """Whether the text ends in the same words over and over, and is not a right answer that ended by itself."""
    fault: str | None = None
    """What went wrong, where it failed and the backend found out."""

    def measure(self, name: MeasureName) -> Fraction:
        """Another measure; 0 for an answer that failed."""
        return Fraction(0) if self.outcome == "error" else self.others[name]


Answers = Mapping[Address, Answered]
"""One model's graded samples of one task."""


def join_verdicts(task: TaskRecord, slug: str, verdicts: Iterable[Verdict], samples: Iterable[Sample]) -> Answers:
    """Put each verdict to its sample; what lacks either is left out and shows as incomplete.

    Raises ComparisonRefused where the primary metric has no value for a single item.
    """
    by_address = {(sample.item_id, sample.repeat): sample for sample in samples}
    answers: dict[Address, Answered] = {}
    for verdict in verdicts:
        address = (verdict.item_id, verdict.repeat)
        assert address not in answers, ("two verdicts on one sample", task.name, slug, address)
        sample = by_address.get(address)
        if sample is not None:
            answers[address] = Answered(
                _primary_value(task, slug, verdict),
                verdict.outcome,
                sample.finish,
                sample.item_hash,
                sample.prompt_hash,
                _other_values(task, verdict),
                sample.shots,
                **_how_it_reads(sample, verdict),
                fault=sample.fault,
            )
    return answers


def check_same_prompts(task: str, slug: str, baseline: Answers, compressed: Answers) -> None:
    """Raises ComparisonRefused at the first shared sample whose item or prompt differs."""
    for address, ours in baseline.items():
        theirs = compressed.get(address, ours)
        for which in ("item", "prompt"):
            expected, got = getattr(ours, f"{which}_hash"), getattr(theirs, f"{which}_hash")
            if got != expected:
                item, repeat = address
                raise ComparisonRefused(
                    f"task {task}, item {item!r}, repeat {repeat}: the {which} hash of {slug} is {got[:12]}, but the "
                    f"baseline's is {expected[:12]}. Only answers to the same {which} can be compared; evaluate both "
                    "models with the same task files, tokenizer and chat template."
                )


def _primary_value(task: TaskRecord, slug: str, verdict: Verdict) -> Fraction:
    for score in verdict.scores:
        if (score.metric, score.filter) == (task.metric, task.filter) and _is_number(score.value):
            if abs(score.value) > MOST_SCORE:
                raise ComparisonRefused(
                    f"task {task.name}, item {verdict.item_id!r} of {slug}: {task.metric} ({task.filter}) is "
                    f"{score.value:g}, and scores up to {MOST_SCORE:g} can be compared. If that is what its grading "
                    "gives, leave the task out; else the file is damaged: evaluate again."
                )
            return Fraction(score.value)
    if verdict.outcome == "error":
        return Fraction(0)
    known = sorted({f"{score.metric} ({score.filter})" for score in verdict.scores if _is_number(score.value)})
    raise ComparisonRefused(
        f"task {task.name}, item {verdict.item_id!r} of {slug}: no value for the metric {task.metric} "
        f"({task.filter}), which a comparison by item needs. The item has: {', '.join(known) or 'none'}. "
        "Name one of these as the task's first metric, or leave the task out."
    )


def _how_it_reads(sample: Sample, verdict: Verdict) -> dict[str, bool]:
    """Of a generated answer that did not fail.

    A right answer that came to its end by itself is none that lost its way, however it repeats itself: 0.333..., a
    refrain, equal rows of a table. Where its end is not told it counts as one of these.
    """
    if sample.text is None or sample.finish == "error":
        return {}
    came_to_its_end = sample.finish != "length" and verdict.outcome == "correct"
    return {"is_empty": not sample.text.strip(), "is_loop": not came_to_its_end and ends_in_a_loop(sample.text)}


def _other_values(task: TaskRecord, verdict: Verdict) -> dict[MeasureName, Fraction]:
    values = {(score.metric, score.filter): score.value for score in verdict.scores}
    values.pop((task.metric, task.filter), None)
    return {name: Fraction(value) for name, value in values.items() if _is_number(value) and abs(value) <= MOST_SCORE}


def _is_number(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)
