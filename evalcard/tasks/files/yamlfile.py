"""A task file as it is written: faults with file and line, before the harness's own loader reads it.

That loader takes the last of two equal keys, says no line, and its scan leaves out what it cannot read. Light: PyYAML
only; lm_eval is asked for its keys when a whole file is checked.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from evalcard.errors import UserError
from evalcard.tasks.files.hiddencode import functions, has_code, hidden_code
from evalcard.tasks.files.settings import SETTINGS
from evalcard.tasks.files.shapes import misshapen
from evalcard.tasks.files.suggest import near
from evalcard.tasks.files.taskcode import Reference, fault_of, is_shipped, needs_trust
from evalcard.tasks.files.yamlnodes import (
    FUNCTION,
    MERGE,
    includes_of,
    inline_tasks,
    read_nodes,
    text_of,
    value_of,
    walk,
)

_STRUCTURE = frozenset({"task", "group", "tag", "class", "include", "task_list"})
"""Keys that say what a file is and what it takes from others."""


@dataclass(frozen=True, slots=True)
class Fault:
    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}, line {self.line}: {self.text}"


def check_file(path: Path, trust: bool) -> None:
    """Raise UserError, naming files and lines, for a task file that would not work as it reads.

    Looked for in the file and all it includes: duplicate and unknown keys, includes and functions that do not exist,
    and, without ``trust``, Python other than a few plain functions of evalcard and the harness. Nothing is
    imported or run. Files that ship with either of the two are taken as they are.
    """
    if is_shipped(path):
        return
    faults: list[Fault] = []
    references: list[Reference] = []
    for file, root in _with_includes(path.resolve(), faults, ()):
        found = list(functions(file, root)) + list(hidden_code(file, root))
        faults += [Fault(file, one.line, why) for one in found if (why := fault_of(one))]
        references += found
    if faults:
        raise UserError("the task file does not work: " + "; ".join(str(one) for one in faults))
    code = [] if trust else [one for one in references if needs_trust(one)]
    if code:
        shown = "; ".join(
            f"{'' if one.path == path.resolve() else f'{one.path}, '}line {one.line}: {one.what}" for one in code
        )
        raise UserError(
            f"the task file {path} runs Python that evalcard does not answer for: {shown}. Such code can do "
            "whatever you can on this machine. Read it, and if you trust it give --trust-task-code."
        )


def check_included(path: Path, trust: bool) -> None:
    """``check_file`` for what a user's file takes in: of a shipped file the functions would meet other documents."""
    check_file(path, trust)
    if is_shipped(path) and not trust and has_code(path):
        raise UserError(
            f"a task file includes {path}, whose Python is meant for that file's own documents only. Read it, and if "
            "you trust it with these documents give --trust-task-code."
        )


def _with_includes(path: Path, faults: list[Fault], above: tuple[Path, ...]) -> Iterator[tuple[Path, yaml.MappingNode]]:
    """The file and, in turn, those it includes; their faults of form are added to ``faults``."""
    root = read_nodes(path)
    faults += _form(path, root)
    yield path, root
    for node, text in includes_of(root):
        target = (path.parent / text).expanduser().resolve()
        line = node.start_mark.line + 1
        if target in (*above, path):
            faults.append(Fault(path, line, f"include {text!r} leads back to this file. Take it out of one of the two"))
        elif not target.is_file():
            hint = " The harness's own files cannot be included by name; use its task names under 'task:' instead."
            faults.append(Fault(path, line, f"include {text!r}: there is no file {target}.{hint}"))
        elif not is_shipped(target):
            yield from _with_includes(target, faults, (*above, path))


def _form(path: Path, root: yaml.MappingNode) -> list[Fault]:
    faults = []
    for node in walk(root):
        faults += _duplicates(path, node) if isinstance(node, yaml.MappingNode) else []
        if node.tag != FUNCTION and node.tag not in yaml.SafeLoader.yaml_constructors and node.tag != MERGE:
            faults.append(Fault(path, node.start_mark.line + 1, f"unknown tag {node.tag}; known: !function FILE.NAME"))
        elif node.tag == FUNCTION and not isinstance(node, yaml.ScalarNode):
            faults.append(Fault(path, node.start_mark.line + 1, "!function takes the text FILE.NAME"))
    for holder in [root, *inline_tasks(root)]:
        faults += [Fault(path, line, text) for line, text in misshapen(holder)]
    faults += _unknown_keys(path, root)
    return sorted(dict.fromkeys(faults), key=lambda fault: fault.line)


def _duplicates(path: Path, node: yaml.MappingNode) -> list[Fault]:
    first: dict[str, int] = {}
    faults = []
    for key, _ in node.value:
        name, line = text_of(key), key.start_mark.line + 1
        if name in first and isinstance(key, yaml.ScalarNode) and name != "<<":
            faults.append(Fault(path, line, f"the key {name!r} is already given in line {first[name]}"))
        first.setdefault(name, line)
    return faults


def _unknown_keys(path: Path, root: yaml.MappingNode) -> list[Fault]:
    """Of the file, of the tasks written inside a group's list, and of ``metadata: evalcard:``."""
    faults = []
    for node in [root, *inline_tasks(root)]:
        keys = {text_of(key) for key, _ in node.value}
        known = _task_keys() | (_group_keys() if "group" in keys or "task" not in keys else frozenset())
        if "class" not in keys:  # a class of its own takes what it likes
            faults += _not_among(path, node, known, "")
        metadata = value_of(node, "metadata")
        ours = value_of(metadata, "evalcard") if isinstance(metadata, yaml.MappingNode) else None
        if isinstance(ours, yaml.MappingNode):
            faults += _not_among(path, ours, frozenset(SETTINGS), " under 'metadata: evalcard:'")
    return faults


def _not_among(path: Path, node: yaml.MappingNode, known: frozenset[str], where: str) -> list[Fault]:
    unknown = [(text_of(key), key.start_mark.line + 1) for key, _ in node.value if text_of(key) not in known]
    hint = f"; known: {', '.join(sorted(known))}"
    return [
        Fault(path, line, f"unknown key {name!r}{where}{near(name, known) or hint}")
        for name, line in unknown
        if name != "<<"
    ]


@functools.cache
def _task_keys() -> frozenset[str]:
    from dataclasses import fields

    from lm_eval.config.task import TaskConfig

    return frozenset(field.name for field in fields(TaskConfig)) | _STRUCTURE


@functools.cache
def _group_keys() -> frozenset[str]:
    from dataclasses import fields

    from lm_eval.config.group import GroupConfig

    return frozenset(field.name for field in fields(GroupConfig))
