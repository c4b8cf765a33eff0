"""The tasks of a stored run, ready to grade its answers again: by another judge, on the documents they were given."""

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path

from evalcard.errors import UserError
from evalcard.progress import Progress
from evalcard.results.records import ItemId, RunRecord, Sample
from evalcard.spec import RunSpec, make_spec
from evalcard.tasks.judges.judge import Judge
from evalcard.tasks.judges.registry import parse_judge
from evalcard.tasks.prepare import PreparedTask, prepare_tasks
from evalcard.tasks.prompts.encode import hash_document
from evalcard.tasks.scoring import judge_of, scoring_of

_FILE = re.compile(r"(.+?\.(?:ya?ml|jsonl?|csv|tsv|parquet))(?::.*)?", re.DOTALL | re.IGNORECASE)
"""A task that was asked for by its file, with or without a judge behind it."""
_SHOWN = 5
"""Items that a message names."""


def prepare_stored(
    run: RunRecord, judges: Mapping[str, str], data_root: str | None, trust_task_code: bool, bars: Progress
) -> dict[str, PreparedTask]:
    """The run's tasks by name; each is graded as it is defined now, or by the judge that was asked for it.

    judges: row or task -> name of a judge. Raises UserError for an unknown task or judge, a task without texts to
    judge, and all that ``prepare_tasks`` refuses.
    """
    if not run.models:
        raise UserError(f"the run {run.name} has no model whose answers are complete. Give its `evalcard run` command.")
    by_task = _judges_by_task(run, judges)
    spec = _spec_of(run, data_root, trust_task_code)
    _refuse_moved(run, spec)
    found, _, notes = prepare_tasks(spec, bars)
    for note in notes:
        bars.say(note)
    tasks = {task.name: task for task in found}
    missing = [record.name for record in run.tasks if record.name not in tasks]
    if missing:
        raise UserError(
            f"the run {run.name} answered {', '.join(missing)}, which its task files no longer define. Restore the "
            "task files, or evaluate again with `evalcard run`."
        )
    return tasks | {name: _with_judge(tasks[name], judge) for name, judge in by_task.items()}


def _spec_of(run: RunRecord, data_root: str | None, trust_task_code: bool) -> RunSpec:
    """The run's spec; whether to trust code is asked anew, as the run may have come from another machine."""
    if run.sources:
        raise UserError(
            f"the run {run.name} was put together from stored results, so that no task file is known of it. Its "
            "answers are graded as they were where they were measured; rescore that run, or compare its results anew."
        )
    resolved = dict(run.resolved) | {"trust_task_code": trust_task_code}
    if data_root is not None:
        resolved["data_root"] = data_root
    return make_spec(resolved, origin=f"run.json of {run.name}")


def _refuse_moved(run: RunRecord, spec: RunSpec) -> None:
    """A file's name is stored as it was given, so from another folder it leads elsewhere."""
    for name in spec.tasks:
        match = _FILE.fullmatch(name)
        path = Path(match[1]).expanduser() if match else None
        if path is not None and not path.exists() and not Path(name).expanduser().exists():
            raise UserError(
                f"the run {run.name} was made with the file {path}, which is not there any more; it was looked for at "
                f"{path.absolute()}. Put it back, or give the command in the folder where the run was made."
            )


def _judges_by_task(run: RunRecord, judges: Mapping[str, str]) -> dict[str, Judge]:
    """A row's judge is that of all its tasks, unless one of them is named itself."""
    members = {row.name: row.tasks for row in run.rows}
    leaves = {task.name: [task.name] for task in run.tasks}
    unknown = [name for name in judges if name not in members and name not in leaves]
    if unknown:
        raise UserError(
            f"--judge {unknown[0]}={judges[unknown[0]]}: the run {run.name} has no task {unknown[0]}. Its tasks are: "
            f"{', '.join(dict.fromkeys([*members, *leaves]))}."
        )
    rows_first = sorted(judges, key=lambda name: name in leaves)
    return {task: parse_judge(judges[name]) for name in rows_first for task in (leaves.get(name) or members[name])}


def _with_judge(task: PreparedTask, judge: Judge) -> PreparedTask:
    task.task.judge = judge
    if judge_of(task.task) is None:
        raise UserError(
            f"--judge {task.name}={judge.name}: {task.name} is scored by log-probabilities, so there is no text that a "
            "judge could read. Leave it out, or evaluate a task that generates its answers."
        )
    return replace(task, scoring=scoring_of(task.task, task.positions))


def check_stored(task: PreparedTask, samples: Iterable[Sample], accept_changed: bool = False) -> list[ItemId]:
    """Raise UserError where answers were given to other documents, or no answer could be right by the judge.

    With accept_changed a document may say something else than when it was answered; returns the items it holds for.
    """
    answered = {(sample.item_id, sample.item_hash) for sample in samples}
    changed = _changed(task, answered, accept_changed)
    judge = judge_of(task.task)
    if judge is not None:
        _refuse_golds(task, judge, sorted({task.task.position(item_id) for item_id, _ in answered}))
    return changed


def _changed(task: PreparedTask, answered: Set[tuple[ItemId, str]], accept: bool) -> list[ItemId]:
    """Items whose documents changed; an old answer must not be held against another question, unless one says so."""
    now = dict(zip(task.task.item_ids, task.task.docs, strict=True))
    hashes = {item_id: hash_document(now[item_id]) for item_id, _ in answered if item_id in now}
    changed = {item_id for item_id, stored in answered if hashes.get(item_id) != stored}
    if not changed:
        return []
    of_all = f"task {task.name}: {len(changed)} of the {len({item_id for item_id, _ in answered})} items that were"
    other_data = "Give the data the run was made with (--data-root), or evaluate again with `evalcard run`."
    listed = _listed(sorted(changed, key=str))
    # What is gone, or stands at another item's place now, is no corrected answer.
    unchanged = hashes.keys() - changed
    others = {hash_document(doc) for item_id, doc in now.items() if item_id not in unchanged}
    gone = {item_id for item_id, stored in answered if item_id in changed and (item_id not in now or stored in others)}
    if gone:
        raise UserError(
            f"{of_all} answered have changed since or are not there any more: {listed}. {other_data} "
            "--accept-changed-items takes documents that were corrected in their place, not those that were moved or "
            f"removed, such as {_listed(sorted(gone, key=str))}."
        )
    if not accept:
        raise UserError(
            f"{of_all} answered have changed since: {listed}. {other_data} Where only right answers were corrected, "
            "--accept-changed-items grades by what the documents say now."
        )
    return [item_id for item_id in task.task.item_ids if item_id in changed]


def _refuse_golds(task: PreparedTask, judge: Judge, positions: Sequence[int]) -> None:
    """A judge must be able to find at least one of an item's golds right."""
    faults: dict[ItemId, str] = {}
    for position in positions:
        found = [judge.check_gold(gold) for gold in task.task.golds(position)]
        if all(found):
            faults[task.task.item_ids[position]] = "; ".join(map(str, found)) or "it has no right answer"
    if faults:
        first, why = next(iter(faults.items()))
        raise UserError(
            f"task {task.name}: by the judge {judge.name} no answer could be right on {len(faults)} of "
            f"{len(positions)} items: {_listed(list(faults))}. On item {first}: {why}. Choose another judge."
        )


def _listed(items: Sequence[ItemId]) -> str:
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return ", ".join(map(str, items[:_SHOWN])) + more
