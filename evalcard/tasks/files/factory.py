"""The harness's tasks and groups from task files, with our documents, our checks and our groups' settings."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from lm_eval.api.group import Group
from lm_eval.api.task import ConfigurableTask, Task
from lm_eval.tasks._factory import GROUP_FIELD_NAMES, TaskFactory
from lm_eval.tasks._index import Entry, Kind
from lm_eval.tasks._yaml_loader import load_yaml

from evalcard.errors import UserError
from evalcard.tasks.contexts import blamed_on, seeded
from evalcard.tasks.data.roots import MissingData, RootedData
from evalcard.tasks.files.index import Registry, reference_of, spread
from evalcard.tasks.files.select import Selected
from evalcard.tasks.files.settings import group_settings, merged_metadata
from evalcard.tasks.files.suggest import near
from evalcard.tasks.files.taskcode import FREE_MODULES, is_shipped
from evalcard.tasks.files.templates import NamedFields
from evalcard.tasks.files.yamlfile import check_file, check_included
from evalcard.tasks.own.custom import data_task

Node: TypeAlias = Task | Group | list[Task]

_OWN_DOCUMENTS = {"dataset_path", "custom_dataset", "class", "include"}
"""Keys of which a task written inside a group's list has at least one."""
_HARMLESS = frozenset({
    "task", "task_alias", "group", "group_alias", "tag", "metadata", "num_fewshot", "repeats", "description",
    "target_delimiter", "fewshot_delimiter", "gen_prefix", "generation_kwargs", "should_decontaminate",
})  # fmt: skip
"""What any group may state for a task with code: the task's functions still meet their own documents only."""


@dataclass
class Absent:
    """Stands for a task without documents until all that are missing can be said at once."""

    task_name: str


class Factory(TaskFactory):
    """The harness's factory, except that files are checked, documents come from data roots, and what a group states
    under ``metadata: evalcard:`` holds for its tasks as its other keys do."""

    def __init__(self, roots: tuple[Path, ...], trust: bool):
        super().__init__()
        self._base = _ours(ConfigurableTask, roots)
        self._roots = roots
        self._trust = trust
        self._group_file = Path()
        self._has_foreign_group = False
        """Whether a group that is not shipped leads to what is being built."""
        self.states: dict[Task, Any] = {}
        """State of the random generator when the task was made: prompts continue from there, as in the harness."""
        self.files: dict[Task, str | None] = {}
        self.missing: list[MissingData] = []
        """Documents that cannot be had; the tasks are ``Absent`` then."""

    def load(self, one: Selected) -> Node:
        """The task, group or tag that was asked for. Raises UserError where its files or its documents do not work."""
        if one.data is not None:
            return self._task(data_task(one.data), one.file.path)
        registry = Registry(one.catalog)
        with blamed_on(f"{one.file.name} ({one.file.path})" if one.file.path else one.file.name):
            overrides = self.stated_by(one.group.path) if one.group and one.group.path else None
            return self.build(registry[one.file.name], overrides=overrides, registry=registry)

    def stated_by(self, path: str) -> dict[str, Any]:
        """What a group's file states for its tasks."""
        config = load_yaml(path)
        return _task_keys(config) | group_settings(config)

    def build(self, entry: Entry, *, overrides: dict[str, Any] | None = None, registry: dict[str, Entry]) -> Any:
        before = self._group_file, self._has_foreign_group
        if entry.yaml_path is not None:
            self._group_file = Path(entry.yaml_path)
            self._has_foreign_group |= not is_shipped(self._group_file)
        try:
            return super().build(entry, overrides=overrides, registry=registry)
        finally:
            self._group_file, self._has_foreign_group = before

    def _load_full_config(self, entry: Entry, overrides: dict[str, Any] | None = None) -> dict[str, Any]:
        if entry.yaml_path is not None:
            check_file(Path(entry.yaml_path), self._trust)
        config = super()._load_full_config(entry, None)
        if self._has_foreign_group and not self._trust and entry.yaml_path and is_shipped(Path(entry.yaml_path)):
            _refuse_overriding(entry, config, overrides or {})
        changed = {**config, **(overrides or {})}
        changed["metadata"] = merged_metadata(config["metadata"], (overrides or {}).get("metadata"))
        return changed

    def _build_task(self, entry: Entry, overrides: dict[str, Any] | None) -> Any:
        config = self._load_full_config(entry, overrides)
        for key in ("tag", "group", "task_list"):
            config.pop(key, None)
        if entry.yaml_path is None and entry.cfg is not None:
            config["task"] = entry.name  # an inline task keeps its group's prefix
        require_name(config.get("task"), "task")
        return self._task(config, str(entry.yaml_path) if entry.yaml_path else None)

    def _task(self, config: dict[str, Any], file: str | None) -> Any:
        try:
            with seeded(), blamed_on(f"{config['task']} ({file})" if file else config["task"]):
                task = self._make(config)
                self.states[task] = random.getstate()
        except MissingData as error:
            self.missing.append(error)
            return Absent(config["task"])
        self.files[task] = file
        _refuse(task)
        return task

    def _make(self, config: dict[str, Any]) -> Task:
        kind = config.get("class")
        if kind is None:
            return self._base(config=config)
        name = config["task"]
        kind = _ours(kind, self._roots) if issubclass(kind, ConfigurableTask) else kind
        task = kind(config=config)
        if hasattr(task, "config") and hasattr(task.config, "task"):
            task.config.task = name
        return task

    def _build_group(
        self, group_name: str, raw_cfg: dict[str, Any], overrides: dict[str, Any] | None, registry: dict[str, Entry]
    ) -> Group:
        own = group_settings(raw_cfg)
        given = overrides or {}
        metadata = merged_metadata(own.get("metadata", {}), given.get("metadata"))
        return super()._build_group(
            group_name, raw_cfg, {**given, "metadata": metadata} if metadata else given, registry
        )

    def _build_group_members(
        self,
        member_list: list[Any],
        group_name: str,
        overrides: dict[str, Any] | None,
        registry: dict[str, Entry],
    ) -> list[Any]:
        """Members as the harness reads them rightly: it would give the name of a tag or group with settings of its own
        to every task in it, and take a task's ``include`` as relative to nothing."""
        handed = (overrides or {}).get("metadata")
        members: list[Any] = []
        for member in member_list:
            name = reference_of(member)
            if name is not None and name not in registry:
                self._inline(member, name, group_name, registry)
            if not isinstance(member, dict):
                members.append(member)
                continue
            if handed is not None:
                member = {**member, "metadata": merged_metadata(handed, member.get("metadata"))}
            members += [member] if name is None else spread(member, registry[name])
        return super()._build_group_members(members, group_name, overrides, registry)

    def _inline(self, member: Any, name: str, group_name: str, registry: dict[str, Entry]) -> None:
        """A task written inside a group's file becomes an entry of its own. UserError where it only misspells one."""
        if not isinstance(member, dict) or not _OWN_DOCUMENTS & set(member):
            known = registry.catalog if isinstance(registry, Registry) else registry
            raise UserError(
                f"group {group_name} ({self._group_file}) lists {name!r}, and there is no task, group or tag of that "
                f"name{near(name, known)}. Correct it; 'evalcard list' shows all names."
            )
        config = {**self._included(member), **member}
        config.pop("include", None)
        registry[name] = Entry(f"{group_name}::{name}", Kind.TASK, None, cfg=config)

    def _included(self, member: dict[str, Any]) -> dict[str, Any]:
        includes = member.pop("include", [])
        merged: dict[str, Any] = {}
        for include in includes if isinstance(includes, list) else [includes]:
            # A group's list may itself come from an included file of another folder, so the check of the group's file
            # need not have seen the file that this leads to.
            path = self._group_file.parent / include
            if not is_shipped(self._group_file):
                check_included(path, self._trust)
            merged |= load_yaml(path)
        return merged


class Documents(RootedData):
    """Documents from data roots or the Hub; a task without any is the user's to know about."""

    @property
    def eval_docs(self) -> Any:
        docs = super().eval_docs
        if len(docs) == 0:
            raise UserError(
                f"task {self.config.task} has no documents: its split is empty, or its process_docs leaves none."
            )
        return docs


def _ours(kind: type, roots: tuple[Path, ...]) -> type:
    parts = (NamedFields, Documents, kind)
    return type(kind.__name__, parts, {"data_roots": roots, "__module__": kind.__module__})


def _task_keys(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in GROUP_FIELD_NAMES}


def require_name(name: Any, key: str) -> None:
    """YAML reads some names as something else: no is false, 5 is a number."""
    if not isinstance(name, str) or not name:
        raise UserError(f"a {key}'s name must be text, but '{key}:' is {name!r}. Put it in quotes in the {key}'s file.")


def _refuse_overriding(entry: Entry, config: Mapping[str, Any], overrides: Mapping[str, Any]) -> None:
    """UserError where a user's group hands a shipped task's functions something other than their own documents."""
    changed = sorted(set(overrides) - _HARMLESS)
    if changed and ("unsafe_code" in config or _has_functions(config)):
        raise UserError(
            f"a group states {', '.join(changed)} for the task {entry.name} ({entry.yaml_path}), which runs Python "
            "that is meant for its own documents only. Take these keys out of the group, or read that code and give "
            "--trust-task-code."
        )


def _has_functions(value: Any) -> bool:
    if isinstance(value, (dict, list)):
        return any(_has_functions(one) for one in (value.values() if isinstance(value, dict) else value))
    return callable(value) and getattr(value, "__module__", None) not in FREE_MODULES


def _refuse(task: Task) -> None:
    name = task.config.task
    if getattr(task, "UNSAFE_CODE", False):
        raise UserError(f"task {name} runs code that the model wrote; evalcard does not. Use lm_eval itself for it.")
    if getattr(task, "MULTIMODAL", False):
        raise UserError(f"task {name} needs images or audio; evalcard evaluates text only.")
