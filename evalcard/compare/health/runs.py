"""The run as a whole: which items were used, which prompts, which models."""

from collections.abc import Iterator, Mapping

from evalcard.compare.health.finding import share
from evalcard.compare.pairing import Answers
from evalcard.results.compared import Finding
from evalcard.results.records import RunRecord, SequentialRecord


def about_prompts(run: RunRecord, answers: Mapping[str, Mapping[str, Answers]]) -> Iterator[Finding]:
    """Worked examples that were left out; every model read the same prompts."""
    given = answers.get(run.models[0].slug, {})
    rows = {name: record.name for record in run.rows for name in record.tasks}
    for task in run.tasks:
        kept = {item: answer.shots for (item, _), answer in given.get(task.name, {}).items()}
        fewer = [shots for shots in kept.values() if shots is not None]
        if fewer:
            counts = str(min(fewer)) if len(set(fewer)) == 1 else f"{min(fewer)} to {max(fewer)}"
            text = f"{share(len(fewer), len(kept))} of prompts hold {counts} of {task.num_fewshot} worked examples."
            yield Finding(
                finding=text, severity="note", where=task.name, advice=_SHOTS, row=rows.get(task.name, task.name)
            )


def about_run(run: RunRecord) -> Iterator[Finding]:
    """Subsets, runs that stopped early, documents that changed since, and a model compared with itself."""
    early = {record.row: record for record in run.sequential}
    for record in early.values():
        yield _of_sequential(record)
    yield from _subsets(run, early)
    yield from _changed_documents(run)
    baseline = run.models[0]
    for model in run.models[1:]:
        same = (model.weights_digest, model.scheme) == (baseline.weights_digest, baseline.scheme)
        if same and model.weights_digest is not None:
            text = "The weights are those of the baseline: a model is compared with itself."
            yield Finding(finding=text, severity="note", where=model.slug, advice=_ITSELF, model=model.slug)


def _of_sequential(record: SequentialRecord) -> Finding:
    used = f"{record.used} of {record.items} items were used, in a seeded order"
    if record.used < record.items:
        text = f"Stopped early: {used}; the interval is of this full set and stays valid whenever one looks."
    else:
        text = f"The run was to stop early and did not: {used}; the recovery of this full set is exact."
    return Finding(finding=text, severity="note", where=record.row, advice=_SEQUENTIAL, row=record.row)


def _subsets(run: RunRecord, early: Mapping[str, SequentialRecord]) -> Iterator[Finding]:
    tasks = {task.name: task for task in run.tasks}
    for record in run.rows:
        selected = sum(tasks[name].items_selected for name in record.tasks)
        total = record.total(tasks[name] for name in record.tasks)
        if selected < total and record.name not in early:
            how = " / ".join(dict.fromkeys(tasks[name].selection for name in record.tasks))
            text = f"A subset of {selected} of {total} items was evaluated ({how})."
            yield Finding(finding=text, severity="note", where=record.name, advice=_SUBSET, row=record.name)


def _changed_documents(run: RunRecord) -> Iterator[Finding]:
    tasks = {task.name: task for task in run.tasks}
    rows = {name: record.name for record in run.rows for name in record.tasks}
    for name, changed in (run.rescored.changed_items if run.rescored else {}).items():
        part = f"{len(changed)} of {tasks[name].items_selected}"
        text = f"The documents of {part} items changed after they were answered; what they say now is what counts."
        yield Finding(finding=text, severity="note", where=name, advice=_CHANGED, row=rows.get(name, name))


_SHOTS = "The others would not have fitted; scores with all examples are other scores."
_SUBSET = "Do not set it beside scores of the full task."
_SEQUENTIAL = "It answers the gate's question; for a score to publish, run without --sequential."
_CHANGED = "Make sure that only right answers were corrected: what was said to another question proves nothing."
_ITSELF = "Check that the compressed model is the one you meant."
