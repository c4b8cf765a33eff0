"""Task files -> the harness's tasks with their documents, and the rows in which they are scored."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lm_eval.api.group import Group
from lm_eval.api.task import Task

from evalcard.errors import UserError
from evalcard.results.records import RowRecord
from evalcard.tasks.contexts import compiled_templates, quiet, seeded
from evalcard.tasks.data.roots import join_missing
from evalcard.tasks.files.catalog import our_catalog
from evalcard.tasks.files.factory import Factory, Node, require_name
from evalcard.tasks.files.select import Selected, Source
from evalcard.tasks.files.settings import check_settings
from evalcard.tasks.harness import HarnessTask, name_of
from evalcard.tasks.judges.registry import parse_judge


@dataclass(frozen=True)
class Built:
    """Leaf tasks in the order they were asked for, each once, and the rows they make."""

    tasks: tuple[HarnessTask, ...]
    rows: tuple[RowRecord, ...]
    notes: tuple[str, ...]


def build(selected: Sequence[Selected], roots: tuple[Path, ...], trust: bool = False) -> Built:
    """Build what was asked for; a leaf that several rows share is built into one task.

    ``trust``: Python beside task files may run. Raises UserError for task files that do not work or would run such
    code, settings that are none, tasks evalcard does not run, and MissingData for all documents that cannot be had.
    """
    factory = Factory(roots, trust)
    nodes: list[tuple[Selected, Node]] = []
    lacking: list[str] = []
    for one in selected:
        known = len(factory.missing)
        with quiet(), seeded(), compiled_templates():
            nodes.append((one, factory.load(one)))
        lacking += [one.file.name] if len(factory.missing) > known else []
    if factory.missing:
        raise join_missing(factory.missing, lacking)
    ours = {file.path for file in our_catalog().values()}
    tasks: dict[str, HarnessTask] = {}
    rows: dict[str, RowRecord] = {}
    for one, node in nodes:
        leaves = _leaves(node)
        if not leaves:
            raise UserError(
                f"{one.file.kind} {one.file.name} has no tasks. List at least one under 'task:' in {one.file.path}."
            )
        for leaf in leaves:
            source: Source = one.source if one.source != "evalcard" or factory.files.get(leaf) in ours else "lm_eval"
            _add(tasks, _with_settings(HarnessTask(leaf, source, factory.states[leaf])))
        for row in _rows(node, tasks):
            rows.setdefault(row.name, row)
    notes = [_alone(one, factory) for one in selected if one.group]
    notes += [f"{task.name}: {task.settings['note']}" for task in tasks.values() if task.settings.get("note")]
    return Built(tuple(tasks.values()), tuple(rows.values()), (*notes, *_shared(list(rows.values()))))


def _alone(one: Selected, factory: Factory) -> str:
    """That a task of the harness's is not asked as the harness would."""
    assert one.group is not None and one.group.path is not None, one
    stated = {key: value for key, value in factory.stated_by(one.group.path).items() if key != "metadata"}
    shown = ", ".join(f"{key} {value}" for key, value in stated.items())
    return f"{one.file.name}: as in evalcard's group {one.group.name} ({shown}); lm_eval/NAME is the harness's own"


def _with_settings(task: HarnessTask) -> HarnessTask:
    """The task with its judge, once what its file says to evalcard is seen to be right."""
    stated = task.metadata.get("evalcard")
    if stated is None:
        return task
    check_settings(f"task {task.name}", stated)
    if "id_field" in stated:
        _check_ids(task, stated["id_field"])
    if "judge" in stated:
        if task.task.OUTPUT_TYPE != "generate_until":
            raise UserError(
                f"task {task.name}: the judge {stated['judge']} compares generated answers, but its output_type is "
                f"{task.task.OUTPUT_TYPE}. Take 'judge' out, or make it generate_until."
            )
        try:
            task.judge = parse_judge(stated["judge"])
        except UserError as error:
            raise UserError(f"task {task.name}: {error}") from None
    return task


def _check_ids(task: HarnessTask, field: str) -> None:
    """Raise UserError for items without a name, and names that two items have."""
    for position, doc in enumerate(task.docs):
        if field not in doc:
            raise UserError(f"task {task.name} has no column {field!r} (id_field); its columns: {', '.join(doc)}.")
        if not isinstance(doc[field], (str, int)) or isinstance(doc[field], bool):
            raise UserError(
                f"task {task.name}: the document at position {position} has the {field} {doc[field]!r}; an id must be "
                "text or a whole number."
            )
    twice = [name for name, count in Counter(doc[field] for doc in task.docs).items() if count > 1]
    if twice:
        places = [position for position, doc in enumerate(task.docs) if doc[field] == twice[0]]
        raise UserError(
            f"task {task.name}: {len(twice)} ids are given to more than one document, first {twice[0]!r} at positions "
            f"{', '.join(map(str, places))}. Make every {field} its own."
        )


def _leaves(node: Node) -> list[Task]:
    if isinstance(node, Group):
        return node.get_all_tasks()
    return list(node) if isinstance(node, list) else [node]


def _add(tasks: dict[str, HarnessTask], task: HarnessTask) -> None:
    """Add ``task``; one of the same name must be the same task."""
    known = tasks.setdefault(task.name, task)
    if known is not task and _definition(known) != _definition(task):
        raise UserError(
            f"task {task.name} was asked for twice with different definitions (by two groups, or from two files). "
            "Evaluate them in separate runs."
        )


def _definition(task: HarnessTask) -> str:
    config = {key: value for key, value in vars(task.task.config).items() if key != "metadata"}
    named = {key: getattr(value, "__qualname__", value) for key, value in config.items()}
    return repr(named | {"docs": len(task.docs), "settings": task.settings})


def _rows(node: Node, tasks: dict[str, HarnessTask]) -> list[RowRecord]:
    """A group with a rule of its own is one row; one without lists its members, as tags do."""
    if isinstance(node, Task):
        return [RowRecord(name=name_of(node), tasks=[name_of(node)], rule="task")]
    if isinstance(node, Group):
        require_name(node.name, "group")
    if isinstance(node, Group) and node.has_aggregation:
        rule = node.aggregate_metric_list[0]
        for leaf in node.get_all_tasks():
            tasks[name_of(leaf)].preferred = (rule.metric, (rule.filter_list or [None])[0])
        names = list(dict.fromkeys(name_of(leaf) for leaf in node.get_all_tasks()))
        return [RowRecord(name=node.name, tasks=names, rule="size" if rule.weight_by_size else "mean")]
    return [row for child in node for row in _rows(child, tasks)]


def _shared(rows: list[RowRecord]) -> list[str]:
    counts: dict[str, list[str]] = {}
    for row in rows:
        for name in row.tasks:
            counts.setdefault(name, []).append(row.name)
    shared = {name: found for name, found in counts.items() if len(found) > 1}
    if not shared:
        return []
    name, found = next(iter(shared.items()))
    return [f"{len(shared)} tasks are part of several rows ({name}: {', '.join(found)}); their items are answered once"]
