"""Two stored models made into one run: the rows both have, joined item by item, compared by the code of every run."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from evalcard.compare.alike import (
    Samples,
    refuse_incomplete,
    refuse_other_items,
    refuse_other_limits,
    refuse_other_prompts,
    refuse_other_rules,
    refuse_other_settings,
    refuse_other_subsets,
    title,
)
from evalcard.compare.beside import findings_of
from evalcard.compare.comparison import compare_answers
from evalcard.compare.fidelity import fidelities
from evalcard.compare.pairing import Answers, join_verdicts
from evalcard.errors import ComparisonRefused
from evalcard.results.compared import Comparison, FidelityRecord
from evalcard.results.journal import Address
from evalcard.results.records import SCHEMA, ModelRecord, RowRecord, RunRecord, TaskRecord
from evalcard.results.stored import StoredModel

SEVERITIES = ("blocker", "warning", "note")
"""Of findings, in the order in which they are told."""


@dataclass(frozen=True)
class Joined:
    """Both models on the rows that both have."""

    baseline: StoredModel
    compressed: StoredModel
    rows: tuple[RowRecord, ...]
    tasks: tuple[str, ...]
    shared: Mapping[str, Sequence[Address]]
    """By task, what both answered, in the baseline's document order."""
    left_out: Mapping[str, int]
    """By task, answers that only one of the two has; empty where there are none."""
    unanswered: Mapping[str, int]
    """By task, items that were asked of both and that neither has answered, where only common items are compared."""

    @property
    def has_same_prompts(self) -> bool:
        """Whether the hashes of prompts can be compared, and were."""
        return self.baseline.prompts == self.compressed.prompts != "none"


def compare_stored(
    baseline: StoredModel, compressed: StoredModel, common_items: bool = False
) -> tuple[RunRecord, Comparison]:
    """Compare two stored models over the rows that both have; nothing is written.

    common_items: compare what both answered where one answered more, or did not end. The run that is returned holds
    both models in the roles given here, under slugs of their own. Raises ComparisonRefused where the two do not match
    in rows, settings, items or prompts.
    """
    if not common_items:
        refuse_incomplete((baseline, compressed))
    joined = _join(baseline, compressed, common_items)
    run = _run_of(joined)
    answers = {
        model.slug: {task.name: _answers(joined, one, task, model.slug) for task in run.tasks}
        for model, one in zip(run.models, (baseline, compressed), strict=True)
    }
    comparison = compare_answers(run, answers)
    health = sorted([*comparison.health, *findings_of(joined, run)], key=lambda one: SEVERITIES.index(one.severity))
    return run, comparison.model_copy(update={"health": health, "fidelity": _fidelity(joined, run)})


def _join(baseline: StoredModel, compressed: StoredModel, common_items: bool) -> Joined:
    theirs = {row.name: row for row in compressed.rows}
    pairs = [(row, theirs[row.name]) for row in baseline.rows if row.name in theirs]
    if not pairs:
        raise ComparisonRefused(
            f"{title(baseline)} and {title(compressed)} have no row in common: {_names(baseline)} against "
            f"{_names(compressed)}. Evaluate both on the same tasks."
        )
    refuse_other_rules(pairs, common_items)
    tasks = list(dict.fromkeys(name for ours, other in pairs for name in ours.tasks if name in other.tasks))
    refuse_other_settings(tasks, baseline, compressed)
    answered = {task: (_samples(baseline, task), _samples(compressed, task)) for task in tasks}
    _refuse_other_answers(answered, baseline, compressed)
    if not common_items:
        refuse_other_subsets(answered, (title(baseline), title(compressed)))
    shared = {
        task: _shared(ours, others, baseline.tasks[task].repeats if common_items else 1)
        for task, (ours, others) in answered.items()
    }
    left_out = {task: len(ours.keys() | others.keys()) - len(shared[task]) for task, (ours, others) in answered.items()}
    unanswered = {task: _unanswered(task, baseline, compressed, shared[task]) for task in shared if common_items}
    rows = [_row_of(ours, other, shared, baseline) for ours, other in pairs]
    kept = [row for row in rows if row.tasks]
    if not kept:
        raise ComparisonRefused(f"{title(baseline)} and {title(compressed)} have no answered item in common.")
    in_rows = {name for row in kept for name in row.tasks}
    return Joined(
        baseline,
        compressed,
        tuple(kept),
        tuple(task for task in tasks if task in in_rows),
        shared,
        {task: count for task, count in left_out.items() if count},
        {task: count for task, count in unanswered.items() if count},
    )


def _shared(ours: Samples, theirs: Samples, repeats: int) -> list[Address]:
    """What both answered; items that lack some of their ``repeats`` are left out whole, as all weigh the same."""
    both = [at for at in ours if at in theirs]
    counts = Counter(item for item, _ in both)
    return [at for at in both if counts[at[0]] >= repeats]


def _unanswered(task: str, baseline: StoredModel, compressed: StoredModel, shared: Sequence[Address]) -> int:
    asked = min(model.tasks[task].items_selected for model in (baseline, compressed))
    return max(asked - len({item for item, _ in shared}), 0)


def _refuse_other_answers(
    answered: Mapping[str, tuple[Samples, Samples]], baseline: StoredModel, compressed: StoredModel
) -> None:
    names = (title(baseline), title(compressed))
    for task, (ours, theirs) in answered.items():
        refuse_other_items(task, ours, theirs, names)
        if baseline.prompts == compressed.prompts != "none":
            refuse_other_prompts(task, ours, theirs, names)
            refuse_other_limits(task, ours, theirs, names)


def _samples(model: StoredModel, task: str) -> Samples:
    """Its graded answers, in the order of the verdicts."""
    samples = {(one.item_id, one.repeat): one for one in model.samples.get(task, ())}
    graded = [(one.item_id, one.repeat) for one in model.verdicts.get(task, ())]
    return {at: samples[at] for at in graded if at in samples}


def _row_of(
    ours: RowRecord, theirs: RowRecord, shared: Mapping[str, Sequence[Address]], baseline: StoredModel
) -> RowRecord:
    """The row without tasks that have no answer of both; what it is a part of is kept."""
    tasks = [name for name in ours.tasks if name in theirs.tasks and shared[name]]
    if tasks == ours.tasks:
        return ours
    return ours.model_copy(
        update={"tasks": tasks, "items_total": ours.total(baseline.tasks[name] for name in ours.tasks)}
    )


def _run_of(joined: Joined) -> RunRecord:
    """run.json as it would be, had one run evaluated both; made from the records alone."""
    baseline, compressed = joined.baseline, joined.compressed
    created = max((one.created for one in (baseline, compressed) if one.created), default="")
    return RunRecord(
        schema=SCHEMA,
        name=f"{title(baseline)} against {title(compressed)}",
        created=created,
        finished=created if baseline.is_complete and compressed.is_complete else None,
        asked={},
        resolved={},
        models=_models(baseline.model, compressed.model),
        tasks=[_task_of(joined, name) for name in joined.tasks],
        rows=list(joined.rows),
        progress=[],
        versions={},
        hardware={},
        seed=baseline.seed or 0,
        command=[],
        git=None,
    )


def _models(baseline: ModelRecord, compressed: ModelRecord) -> list[ModelRecord]:
    slug = compressed.slug if compressed.slug != baseline.slug else f"{compressed.slug}-2"
    return [
        baseline.model_copy(update={"role": "baseline"}),
        compressed.model_copy(update={"role": "compressed", "slug": slug}),
    ]


def _task_of(joined: Joined, name: str) -> TaskRecord:
    task = joined.baseline.tasks[name]
    if name not in joined.left_out and name not in joined.unanswered:
        return task
    items = list(dict.fromkeys(item for item, _ in joined.shared[name]))
    return task.model_copy(
        update={"items_selected": len(items), "item_ids": items, "selection": "what both results answered"}
    )


def _answers(joined: Joined, model: StoredModel, task: TaskRecord, slug: str) -> Answers:
    found = join_verdicts(task, slug, model.verdicts.get(task.name, ()), model.samples.get(task.name, ()))
    shared = joined.shared[task.name]
    if joined.has_same_prompts:
        return {at: found[at] for at in shared}
    # Hashes of other things than the same prompts must not be held against each other.
    return {at: replace(found[at], prompt_hash="") for at in shared}


def _fidelity(joined: Joined, run: RunRecord) -> list[FidelityRecord]:
    """Of what both answered."""
    slugs = [model.slug for model in run.models]
    both = dict(zip(slugs, (joined.baseline, joined.compressed), strict=True))
    shared = {task: set(joined.shared[task]) for task in joined.tasks}
    verdicts = {
        task: [one for one in joined.baseline.verdicts.get(task, ()) if (one.item_id, one.repeat) in shared[task]]
        for task in joined.tasks
    }
    return fidelities(run, {slugs[0]: verdicts}, {slug: model.samples for slug, model in both.items()})


def _names(model: StoredModel) -> str:
    return ", ".join(row.name for row in model.rows) or "none"
