"""Task files -> the harness's tasks with their documents, and the rows in which they are scored."""

import dataclasses
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lm_eval.api.group import Group
from lm_eval.api.task import ConfigurableTask, Task
from lm_eval.tasks._factory import TaskFactory
from lm_eval.tasks._index import Entry, Kind
from lm_eval.tasks._yaml_loader import load_yaml

from evalcard.errors import UserError
from evalcard.results.records import RowRecord
from evalcard.tasks.contexts import blamed_on, quiet, seeded
from evalcard.tasks.data import RootedData
from evalcard.tasks.files import Catalog, Selected, Source, our_catalog
from evalcard.tasks.harness import HarnessTask, name_of

_KINDS = {"task": Kind.TASK, "class": Kind.PY_TASK, "group": Kind.GROUP, "tag": Kind.TAG}


@dataclasses.dataclass(frozen=True)
class Built:
    """Leaf tasks in the order they were asked for, each once, and the rows they make."""

    tasks: tuple[HarnessTask, ...]
    rows: tuple[RowRecord, ...]
    notes: tuple[str, ...]


def build(selected: Sequence[Selected], roots: tuple[Path, ...]) -> Built:
    """Build what was asked for; a leaf that several rows share is built into one task.

    Raises UserError for task files that do not work, tasks evalcard does not run, and documents that are missing.
    """
    ours = {file.path for file in our_catalog().values()}
    tasks: dict[str, HarnessTask] = {}
    rows: dict[str, RowRecord] = {}
    notes: list[str] = []
    for one in selected:
        factory = _Factory(roots)
        with quiet(), seeded():
            node = factory.load(one)
        leaves = _leaves(node)
        if not leaves:
            raise UserError(
                f"{one.file.kind} {one.file.name} has no tasks. List at least one under 'task:' in {one.file.path}."
            )
        for leaf in leaves:
            source: Source = one.source if one.source != "evalcard" or factory.files.get(leaf) in ours else "lm_eval"
            task = HarnessTask(leaf, source, factory.states[leaf])
            notes += _merge(tasks, task)
        for row in _rows(node, tasks):
            rows.setdefault(row.name, row)
    return Built(tuple(tasks.values()), tuple(rows.values()), (*notes, *_shared(list(rows.values()))))


class _Factory(TaskFactory):
    """The harness's factory, except that tasks take their documents from data roots."""

    def __init__(self, roots: tuple[Path, ...]):
        super().__init__()
        self._base = _rooted(ConfigurableTask, roots)
        self._roots = roots
        self._group_folder = Path()
        self.states: dict[Task, Any] = {}
        """State of the random generator when the task was made: prompts continue from there, as in the harness."""
        self.files: dict[Task, str | None] = {}

    def load(self, one: Selected) -> Task | Group | list[Task]:
        """The task, group or tag that was asked for."""
        registry = _entries(one.catalog)
        with blamed_on(f"{one.file.name} ({one.file.path})" if one.file.path else one.file.name):
            return self.build(registry[one.file.name], overrides=None, registry=registry)

    def build(self, entry: Entry, *, overrides: dict[str, Any] | None = None, registry: dict[str, Entry]) -> Any:
        before = self._group_folder
        if entry.yaml_path is not None:
            self._group_folder = Path(entry.yaml_path).parent
        try:
            return super().build(entry, overrides=overrides, registry=registry)
        finally:
            self._group_folder = before

    def _build_task(self, entry: Entry, overrides: dict[str, Any] | None) -> Task:
        config = self._load_full_config(entry, overrides)
        for key in ("tag", "group", "task_list"):
            config.pop(key, None)
        if entry.yaml_path is None and entry.cfg is not None:
            config["task"] = entry.name  # an inline task keeps its group's prefix
        _require_name(config.get("task"), "task")
        with seeded():
            task = self._make(config)
            self.states[task] = random.getstate()
        self.files[task] = str(entry.yaml_path) if entry.yaml_path else None
        _refuse(task)
        return task

    def _make(self, config: dict[str, Any]) -> Task:
        kind = config.get("class")
        if kind is None:
            return self._base(config=config)
        name = config["task"]
        kind = _rooted(kind, self._roots) if issubclass(kind, ConfigurableTask) else kind
        task = kind(config=config)
        if hasattr(task, "config") and hasattr(task.config, "task"):
            task.config.task = name
        return task

    def _build_group_members(
        self,
        member_list: list[Any],
        group_name: str,
        overrides: dict[str, Any] | None,
        registry: dict[str, Entry],
    ) -> list[Any]:
        """Tasks written inside a group's file become entries of their own, with ``include`` relative to that file."""
        for member in member_list:
            name = member.get("task") if isinstance(member, dict) and "group" not in member else None
            if isinstance(name, str) and name not in registry:
                inline = {**self._included(member), **member}
                inline.pop("include", None)
                registry[name] = Entry(f"{group_name}::{name}", Kind.TASK, None, cfg=inline)
        return super()._build_group_members(member_list, group_name, overrides, registry)

    def _included(self, member: dict[str, Any]) -> dict[str, Any]:
        includes = member.pop("include", [])
        merged: dict[str, Any] = {}
        for include in includes if isinstance(includes, list) else [includes]:
            merged |= load_yaml(self._group_folder / include)
        return merged


def _rooted(kind: type, roots: tuple[Path, ...]) -> type:
    return type(kind.__name__, (RootedData, kind), {"data_roots": roots, "__module__": kind.__module__})


def _entries(catalog: Catalog) -> dict[str, Entry]:
    return {
        file.name: Entry(file.name, _KINDS[file.kind], Path(file.path) if file.path else None, tags=set(file.members))
        for file in catalog.values()
    }


def _require_name(name: Any, key: str) -> None:
    """YAML reads some names as something else: no is false, 5 is a number."""
    if not isinstance(name, str) or not name:
        raise UserError(f"a {key}'s name must be text, but '{key}:' is {name!r}. Put it in quotes in the {key}'s file.")


def _refuse(task: Task) -> None:
    name = name_of(task)
    if getattr(task, "UNSAFE_CODE", False):
        raise UserError(f"task {name} runs code that the model wrote; evalcard does not. Use lm_eval itself for it.")
    if getattr(task, "MULTIMODAL", False):
        raise UserError(f"task {name} needs images or audio; evalcard evaluates text only.")


def _leaves(node: Task | Group | list[Task]) -> list[Task]:
    if isinstance(node, Group):
        return node.get_all_tasks()
    return list(node) if isinstance(node, list) else [node]


def _merge(tasks: dict[str, HarnessTask], task: HarnessTask) -> list[str]:
    """Add ``task``; one of the same name must be the same task."""
    known = tasks.setdefault(task.name, task)
    if known is task or _definition(known) == _definition(task):
        return []
    raise UserError(
        f"task {task.name} was asked for twice with different definitions (by two groups, or from two files). "
        "Evaluate them in separate runs."
    )


def _definition(task: HarnessTask) -> str:
    config = {key: value for key, value in vars(task.task.config).items() if key != "metadata"}
    named = {key: getattr(value, "__qualname__", value) for key, value in config.items()}
    return repr(named | {"docs": len(task.docs)})


def _rows(node: Task | Group | list[Task], tasks: dict[str, HarnessTask]) -> list[RowRecord]:
    """A group with a rule of its own is one row; one without lists its members, as tags do."""
    if isinstance(node, Task):
        return [RowRecord(name=name_of(node), tasks=[name_of(node)], rule="task")]
    if isinstance(node, Group):
        _require_name(node.name, "group")
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
