"""How much do a model's answers depend on the batch? Some items are asked again in another order and graded."""

from collections.abc import Iterator, Mapping, Sequence

from evalcard.backends.backend import Backend, Item, ItemAnswer
from evalcard.progress import Progress
from evalcard.results.journal import Address
from evalcard.results.records import NoiseRecord, Sample, Verdict
from evalcard.samples import make_sample, sample_key
from evalcard.spec import RunSpec
from evalcard.tasks.grade import grade
from evalcard.tasks.prepare import Prepared, PreparedTask
from evalcard.tasks.prompts.tokenizer import Tokenizer


def check_noise(
    spec: RunSpec,
    prepared: Prepared,
    tokenizer: Tokenizer,
    backend: Backend,
    samples: Mapping[str, Sequence[Sample]],
    verdicts: Mapping[str, Sequence[Verdict]],
    progress: Progress,
) -> list[NoiseRecord]:
    """Ask again for the first ``spec.noise_check`` items of every task that were answered; [] where that is None.

    All go to the backend in one call, the last one first; of items that are answered several times the first answer.
    ``samples`` and ``verdicts`` are the model's, by task. Nothing is stored. One record for each task asked.
    """
    chosen = {task.name: _chosen(spec.noise_check, prepared, task, samples) for task in prepared.tasks}
    items = [item for task in chosen.values() for item in task]
    again = _ask(items[::-1], backend, progress) if items else {}
    records = []
    for task in prepared.tasks:
        if chosen[task.name]:
            before = {(one.item_id, one.repeat): one for one in samples[task.name]}
            second = list(_samples(chosen[task.name], task, before, again, backend, tokenizer))
            records.append(_record(task, before, second, verdicts[task.name]))
    return records


def _chosen(
    count: int | None, prepared: Prepared, task: PreparedTask, samples: Mapping[str, Sequence[Sample]]
) -> list[Item]:
    """Items without a request need no model, and a run that stopped early has not answered all."""
    answered = {sample.item_id for sample in samples.get(task.name, ()) if sample.repeat == 0}
    items = (item for item in prepared.items[task.name] if item.repeat == 0 and item.requests)
    return [item for item in items if item.item_id in answered][: count or 0]


def _ask(items: Sequence[Item], backend: Backend, progress: Progress) -> dict[int, ItemAnswer]:
    """Answers by the id() of their items."""
    again: dict[int, ItemAnswer] = {}
    with progress.step("Asking again in another order", total=len(items)) as bar:

        def on_answer(item: Item, answer: ItemAnswer) -> None:
            assert id(item) not in again, ("answered twice", item.task, item.item_id)
            again[id(item)] = answer
            bar.advance()

        backend.answer(items, on_answer)
    assert len(again) == len(items), ("the backend left items unanswered", len(items) - len(again))
    return again


def _samples(
    items: Sequence[Item],
    task: PreparedTask,
    before: Mapping[Address, Sample],
    again: Mapping[int, ItemAnswer],
    backend: Backend,
    tokenizer: Tokenizer,
) -> Iterator[Sample]:
    """The second answers as samples; the key proves that the same model was asked the same question."""
    identity = backend.identity()
    for item in items:
        key = sample_key(item, identity, tokenizer.digest)
        stored = before[item.item_id, item.repeat].key
        assert key == stored, ("asked something else", task.name, item.item_id, stored, key)
        yield make_sample(item, key, task.record.version, again[id(item)])


def _record(
    task: PreparedTask, before: Mapping[Address, Sample], second: Sequence[Sample], verdicts: Sequence[Verdict]
) -> NoiseRecord:
    scores = {(one.item_id, one.repeat): _score(task, one) for one in verdicts}
    graded = grade(task.task, task.scoring, second, task.record.opens_thinking)
    return NoiseRecord(
        task=task.name,
        answers=len(second),
        differing=sum(_said(sample) != _said(before[sample.item_id, sample.repeat]) for sample in second),
        flipped=sum(_score(task, one) != scores[one.item_id, one.repeat] for one in graded),
    )


def _said(sample: Sample) -> tuple[object, ...]:
    """All that a person or a metric could see of an answer."""
    choices = [(one.logprob, one.is_greedy) for one in sample.choices or ()]
    return sample.finish, sample.text, choices


def _score(task: PreparedTask, verdict: Verdict) -> float:
    """The primary metric, as a comparison takes it: 0 for an answer that failed."""
    primary = (task.record.metric, task.record.filter)
    values = [score.value for score in verdict.scores if (score.metric, score.filter) == primary]
    return next((value for value in values if value is not None), 0.0)
