"""What the user asked for under --tasks: names of ours and the harness's, patterns, task files and data files.

Light: no torch, no lm_eval.
"""

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from evalcard.errors import UserError
from evalcard.tasks.files.catalog import (
    Catalog,
    Kind,
    TaskFile,
    harness_catalog,
    our_catalog,
    our_group_of,
    scan_folder,
    top_keys,
)
from evalcard.tasks.files.suggest import near
from evalcard.tasks.files.yamlnodes import own_name, read_nodes
from evalcard.tasks.own.custom import DataFile, parse_data_file

Source = Literal["evalcard", "lm_eval", "file"]
_KINDS: tuple[Kind, ...] = ("class", "group", "task")
"""In the order in which a file's keys tell what it is."""


@dataclass(frozen=True, slots=True)
class Selected:
    """A name the user asked for, found; ``catalog`` is where the names inside its file are looked up."""

    file: TaskFile
    source: Source
    catalog: Catalog
    group: TaskFile | None = None
    """Our group that lists this task of the harness's: what the group states for its tasks holds for it alone too."""
    data: DataFile | None = None
    """The file of questions and answers that is itself the task."""


def select(names: Iterable[str]) -> list[Selected]:
    """Find every asked name: ours first, ``lm_eval/NAME`` the harness's, the path of a YAML or data file, or a pattern
    (mmlu_*).

    Raises UserError for files that cannot be read, and unknown names (all of them in one message, with near matches).
    """
    ours, harness = our_catalog(), harness_catalog()
    both = {**harness, **ours}
    found: list[Selected] = []
    unknown: list[str] = []
    for name in names:
        matches = _select_one(name, ours, harness, both)
        found += matches
        if not matches:
            unknown.append(name)
    if unknown:
        raise UserError(_unknown_message(unknown, {*ours, *harness}))
    return found


def _select_one(name: str, ours: Catalog, harness: Catalog, both: Catalog) -> list[Selected]:
    if data := parse_data_file(name):
        return [Selected(TaskFile(data.path.stem, "data", str(data.path)), "file", both, data=data)]
    if name.endswith((".yaml", ".yml")) or Path(name).is_file():
        return [_select_path(Path(name).expanduser(), both)]
    bare = name.removeprefix("lm_eval/")
    forced = bare != name
    if not forced and bare in ours:
        return [Selected(ours[bare], "evalcard", both)]
    if bare in harness:
        group = None if forced else our_group_of(bare, ours, harness)
        return [Selected(harness[bare], "lm_eval", harness, group)]
    if any(char in bare for char in "*?["):
        names = sorted(fnmatch.filter(harness if forced else both, bare))
        matches = [("lm_eval/" if forced else "") + match for match in names]
        return [one for match in matches for one in _select_one(match, ours, harness, both)]
    return []


def _select_path(path: Path, catalog: Catalog) -> Selected:
    """A file given by its path may name tasks of its own folder."""
    if not path.is_file():
        raise UserError(f"there is no task file {path}. Give the path of a YAML file, or a task's name.")
    root = read_nodes(path)  # the scan sees only lines that look like names; a file that is no YAML must be said
    siblings = scan_folder(path.parent, recursive=False)
    here = next((file for file in siblings.values() if file.path == str(path.resolve())), None)
    if here is None:
        here = _twin(path.resolve(), siblings)
    if here is None:
        named = own_name(root)  # written in a way that has no such lines
        if named is None:
            raise UserError(f"the task file {path} names no task: it needs a top-level 'task:' or 'group:' key.")
        here = TaskFile(named[1], named[0], str(path.resolve()))
    return Selected(here, "file", {**catalog, **siblings, here.name: here})


def _twin(path: Path, siblings: Catalog) -> TaskFile | None:
    """The file where another one of its folder has the same name: the path that was asked for wins.

    Raises UserError for a group that lists its own name, which means the other file there.
    """
    keys = top_keys(path)
    kind: Kind | None = next((kind for kind in _KINDS if kind in keys), None)
    names = keys.get("group" if kind == "group" else "task", [])
    twin = siblings.get(names[0]) if kind is not None and len(names) == 1 else None
    if kind is None or twin is None or twin.path is None:
        return None
    if kind == "group" and twin.name in keys.get("task", []):
        raise UserError(
            f"two task files in one folder have the name {twin.name}: {twin.path} and {path}, a group that lists it. "
            "Rename one of them."
        )
    return TaskFile(twin.name, kind, str(path))


def _unknown_message(unknown: list[str], known: set[str]) -> str:
    lines = [f"unknown task {name!r}{near(name.removeprefix('lm_eval/'), known)}" for name in unknown]
    return f"{'; '.join(lines)}. 'evalcard list' shows all names; a path to a YAML or data file works too."


def list_names() -> list[str]:
    """Every name that may be asked for: ours, then the harness's, each in alphabetical order."""
    ours = our_catalog()
    return [*sorted(ours), *sorted(name for name in harness_catalog() if name not in ours)]
