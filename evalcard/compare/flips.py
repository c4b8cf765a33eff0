"""The items behind the counts of lost and gained: what was asked, what is right, and what both models said."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from evalcard.results.journal import Address
from evalcard.results.records import ItemId, RowRecord, Sample, TaskRecord, Verdict
from evalcard.results.stored import StoredModel

Direction = Literal["lost", "gained"]

_BINARY = frozenset((0.0, 1.0))


@dataclass(frozen=True, slots=True)
class Reply:
    """One model's answer and what the task says of it."""

    sample: Sample
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Flip:
    """An answer whose score changed between 0 and 1."""

    row: str
    task: str
    item_id: ItemId
    repeat: int
    direction: Direction
    """lost: the baseline is right, the compressed model is not."""
    question: str | None
    """In words, as far as it is stored."""
    gold: str
    baseline: Reply
    compressed: Reply
    repeats: int = 1
    """Answers that the task asks of each item."""

    def summary(self) -> dict[str, Any]:
        """For a program."""
        facts = ("row", "task", "item_id", "repeat", "direction", "question", "gold")
        return {name: getattr(self, name) for name in facts} | {
            "baseline": _told(self.baseline),
            "compressed": _told(self.compressed),
        }


def flipped(baseline: StoredModel, compressed: StoredModel, row: str) -> list[Flip] | None:
    """Every flip of a row that ``baseline`` has: lost first, then gained, each in the baseline's document order.

    Over answers that both models have, by the baseline's metric, as ``paired.count_flips`` counts them. None where
    any of their scores is neither 0 nor 1: then nothing flips, scores only grow and shrink.
    """
    record = next(one for one in baseline.rows if one.name == row)
    found: list[Flip] = []
    for name in record.tasks:
        of_task = _of_task(record, baseline.tasks[name], baseline, compressed)
        if of_task is None:
            return None
        found += of_task
    return sorted(found, key=lambda flip: flip.direction != "lost")


def _of_task(row: RowRecord, task: TaskRecord, baseline: StoredModel, compressed: StoredModel) -> list[Flip] | None:
    ours, theirs = _replies(baseline, task.name), _replies(compressed, task.name)
    questions = {**compressed.questions.get(task.name, {}), **baseline.questions.get(task.name, {})}
    found = []
    for address, before in ours.items():
        after = theirs.get(address)
        if after is None:
            continue
        scores = (_score(task, before), _score(task, after))
        if not _BINARY.issuperset(scores):
            return None
        if scores[0] != scores[1]:
            item_id, repeat = address
            is_lost = (scores[0] > scores[1]) == task.higher_is_better
            found.append(
                Flip(
                    row=row.name,
                    task=task.name,
                    item_id=item_id,
                    repeat=repeat,
                    direction="lost" if is_lost else "gained",
                    question=questions.get(item_id),
                    gold=before.verdict.target,
                    baseline=before,
                    compressed=after,
                    repeats=task.repeats,
                )
            )
    return found


def _replies(model: StoredModel, task: str) -> Mapping[Address, Reply]:
    """In the order of the verdicts, which is that of the documents."""
    samples = {(one.item_id, one.repeat): one for one in model.samples.get(task, ())}
    graded = ((one.item_id, one.repeat, one) for one in model.verdicts.get(task, ()))
    return {
        (item_id, repeat): Reply(samples[item_id, repeat], verdict)
        for item_id, repeat, verdict in graded
        if (item_id, repeat) in samples
    }


def _score(task: TaskRecord, reply: Reply) -> float:
    """The primary metric; 0 for an answer that failed."""
    for score in reply.verdict.scores:
        if (score.metric, score.filter) == (task.metric, task.filter) and score.value is not None:
            return score.value
    return 0.0


def has_token_count(sample: Sample) -> bool:
    """False for a text of no tokens, of which other programs' files hold no count."""
    return sample.output_tokens > 0 or not sample.text


def _told(reply: Reply) -> dict[str, Any]:
    sample, verdict = reply.sample, reply.verdict
    choices = None if sample.choices is None else [one.model_dump() for one in sample.choices]
    return {
        "text": sample.text,
        "choices": choices,
        "extracted": verdict.extracted,
        "outcome": verdict.outcome,
        "finish": None if sample.finish == "not_told" else sample.finish,
        "output_tokens": sample.output_tokens if has_token_count(sample) else None,
    }
