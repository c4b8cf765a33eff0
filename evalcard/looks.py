"""A run that stops early: batches in a seeded random order, a look after each, until the gate is decided.

A look asks every row that is still open for its next items, the baseline first and then the compressed model, grades
them as the task does and puts the items' scores to the row's test. Both models may be open at once; the baseline's is
opened only where one of its answers is not stored.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from evalcard.backends.backend import Item
from evalcard.compare.pairing import join_verdicts
from evalcard.errors import UserError
from evalcard.evaluate import Evaluation
from evalcard.gate.spec import GateSpec
from evalcard.progress import Bar, Progress
from evalcard.results.records import ItemId, RunRecord, Sample, SequentialRecord, TaskRecord, Verdict
from evalcard.rowtest import Place, RowTest
from evalcard.tasks.prepare import Prepared, PreparedTask

_SHOWN_ROWS = 3


@dataclass(frozen=True)
class Stopped:
    """A run that has ended."""

    prepared: Prepared
    """Of what was prepared, the items that were used."""
    records: list[SequentialRecord]
    """One a row."""


def stop_early(
    gate: GateSpec, prepared: Prepared, baseline: Evaluation, compressed: Evaluation, seed: int, progress: Progress
) -> Stopped:
    """Answer until every row has passed or one has failed. What ``check_sequential`` refuses must not come here.

    Raises UserError where a score leaves 0 to 1; whatever ends the run, finished answers are on disk.
    """
    tasks = {task.name: task for task in prepared.tasks}
    rows = []
    for record in prepared.rows:
        limit = gate.of_row(record.name).min_recovery
        assert limit, (record.name, limit)
        members = [tasks[name] for name in record.tasks]
        rows.append(RowTest(record, members, limit, gate.confidence, len(prepared.rows), seed))
    items: dict[Place, list[Item]] = defaultdict(list)
    for asked in prepared.items.values():
        for item in asked:
            items[item.task, item.item_id].append(item)
    with progress.step("Until the gate is decided", total=2 * prepared.num_samples, unit="answers") as bar:
        while asking := _to_ask(rows):
            batch = [item for row in asking for place in row.next_places for item in items[place]]
            ours, theirs = (_answered(model, tasks, batch, bar) for model in (baseline, compressed))
            for row in asking:
                row.take(ours, theirs)
            bar.note(", ".join(row.note() for row in asking[:_SHOWN_ROWS]))
    return Stopped(_narrowed(prepared, rows), [row.result() for row in rows])


def _to_ask(rows: Sequence[RowTest]) -> list[RowTest]:
    """Rows whose next items are needed; none where the gate is decided, be it because it cannot judge.

    A baseline that is not fit to be divided by makes a judgement impossible, so after a FAIL the rows where it is not
    as yet are asked on.
    """
    if any(row.is_used_up and not row.is_sound for row in rows):
        return []
    asking = [row for row in rows if row.decision is None and not row.is_used_up]
    has_failed = any(row.decision == "FAIL" for row in rows)
    return [row for row in asking if not row.is_sound] if has_failed else asking


def replay(
    run: RunRecord,
    tasks: Mapping[str, PreparedTask],
    verdicts: Mapping[str, Mapping[str, Sequence[Verdict]]],
    samples: Mapping[str, Mapping[str, Sequence[Sample]]],
) -> list[SequentialRecord]:
    """The tests of a stored run on other verdicts (slug -> task), in the order in which its items were asked.

    ``run`` has its tasks as they were graded now. The tests are valid though other verdicts stopped the run: a
    confidence sequence holds whenever one stops. Raises UserError where the tasks have other items by now, from which
    the order cannot be had.
    """
    facts = {task.name: task for task in run.tasks}
    scores = [
        {
            (name, item): score
            for name, found in verdicts[model.slug].items()
            for item, score in _item_scores(facts[name], model.slug, found, samples[model.slug][name]).items()
        }
        for model in run.models
    ]
    rows = {row.name: row for row in run.rows}
    results = []
    for stored in run.sequential:
        members = [tasks[name] for name in rows[stored.row].tasks]
        row = RowTest(rows[stored.row], members, stored.limit, stored.confidence, len(run.sequential), run.seed)
        while (left := stored.used - len(row.used)) > 0:
            if row.num_items != stored.items or any(place not in scores[0] for place in row.next_places[:left]):
                raise UserError(
                    f"the run {run.name} stopped early, and the task files or data of {stored.row} have other items "
                    "than when it was made, so the order in which they were asked is lost. Restore them, or evaluate "
                    "again with `evalcard run`."
                )
            row.take(scores[0], scores[1], left)
        results.append(row.result())
    return results


def _answered(
    model: Evaluation, tasks: Mapping[str, PreparedTask], batch: Sequence[Item], bar: Bar
) -> dict[Place, Fraction]:
    """Scores of the batch, answered and graded."""
    model.answer(batch, bar)
    by_task: dict[str, list[Item]] = defaultdict(list)
    for item in batch:
        by_task[item.task].append(item)
    scores: dict[Place, Fraction] = {}
    for name, items in by_task.items():
        verdicts = model.grade(tasks[name], items)
        found = _item_scores(tasks[name].record, model.slug, verdicts, model.samples_of(items))
        scores |= {(name, item): score for item, score in found.items()}
    return scores


def _item_scores(
    task: TaskRecord, slug: str, verdicts: Iterable[Verdict], samples: Iterable[Sample]
) -> dict[ItemId, Fraction]:
    """Means over repeats."""
    repeats: dict[ItemId, list[Fraction]] = defaultdict(list)
    for (item, _), answer in join_verdicts(task, slug, verdicts, samples).items():
        if not 0 <= answer.value <= 1:
            raise UserError(
                f"task {task.name}, item {item!r}: {task.metric} of {slug} is {float(answer.value):g}, and the "
                "sequential test takes scores from 0 to 1 only. Give the command without --sequential."
            )
        repeats[item].append(answer.value)
    return {item: sum(values, Fraction(0)) / len(values) for item, values in repeats.items()}


def _narrowed(prepared: Prepared, rows: Sequence[RowTest]) -> Prepared:
    """Only the items that were used, in document order."""
    used = {place for row in rows for place in row.used}
    of_task = {name: row for row in rows for name in row.record.tasks}
    tasks = tuple(_narrowed_task(task, of_task[task.name], used) for task in prepared.tasks)
    items = {name: tuple(one for one in asked if (name, one.item_id) in used) for name, asked in prepared.items.items()}
    return replace(prepared, tasks=tasks, items=items)


def _narrowed_task(task: PreparedTask, row: RowTest, used: set[Place]) -> PreparedTask:
    ids, record = task.task.item_ids, task.record
    positions = [position for position in task.positions if (task.name, ids[position]) in used]
    if len(positions) == len(task.positions):
        return task
    assert record.selection == "all", (record.name, record.selection)
    text = f"seeded order, stopped after {len(row.used)} of {row.num_items}"
    found = {"items_selected": len(positions), "item_ids": [ids[one] for one in positions], "selection": text}
    return replace(task, record=record.model_copy(update=found), positions=positions)
