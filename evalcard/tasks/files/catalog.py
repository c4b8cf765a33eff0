"""The names of task files, without the harness's own index, which parses every file of its 14,000 (7 to 10 s).

A scan reads only the lines that name things (``task``, ``group``, ``tag``, ``class``, ``include``) and is kept in the
user's cache folder, one file for each version of the harness. Light: no torch, no lm_eval.
"""

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from evalcard.errors import UserError
from evalcard.resources import task_files

Kind = Literal["task", "class", "group", "tag", "data"]

_SCAN_FORMAT = 1
_TOP_KEY = re.compile(
    r"""^["']?(task|group|tag|class|include)["']?[ \t]*:[ \t]*(.*(?:\n(?:[ \t-].*)?)*)""", re.MULTILINE
)
_ITEM = re.compile(r"^[ \t]*-[ \t]+(.+)$", re.MULTILINE)
_SKIPPED_FOLDERS = {"__pycache__", ".ipynb_checkpoints"}
_TEMPLATE = "template.yaml"
"""A task file to copy and change: it works by its path, but is no benchmark to be offered by name."""


@dataclass(frozen=True, slots=True)
class TaskFile:
    """What one name stands for. A tag has no file of its own, only ``members``."""

    name: str
    kind: Kind
    path: str | None
    members: tuple[str, ...] = ()


Catalog = Mapping[str, TaskFile]


def our_catalog() -> Catalog:
    """Names of the task files that ship with evalcard."""
    found = scan_folder(task_files())
    return {name: file for name, file in found.items() if not file.path or Path(file.path).name != _TEMPLATE}


def our_group_of(name: str, ours: Catalog, harness: Catalog) -> TaskFile | None:
    """The first group of ours that lists this name of the harness's, itself or by its tag."""
    for group in ours.values():
        if group.kind != "group" or group.path is None:
            continue
        listed = top_keys(Path(group.path)).get("task", [])
        if name in listed or any(one in harness and name in harness[one].members for one in listed):
            return group
    return None


def harness_version() -> str:
    """Version of the installed harness."""
    return importlib.metadata.version("lm_eval")


def harness_tasks_folder() -> Path:
    """The installed harness's task files, found without importing it."""
    spec = importlib.util.find_spec("lm_eval")
    if spec is None or not spec.submodule_search_locations:
        raise UserError("lm_eval is not installed, but tasks come from it. Install it: pip install lm_eval")
    return Path(next(iter(spec.submodule_search_locations))) / "tasks"


def harness_catalog() -> Catalog:
    """Names of the harness's task files; scanned once for each version and place, then read from the cache."""
    folder = harness_tasks_folder()
    stamp = f"{_SCAN_FORMAT} {harness_version()} {folder} {folder.stat().st_mtime_ns}"
    cache = _cache_folder() / f"tasks-{harness_version()}-{hashlib.sha256(stamp.encode()).hexdigest()[:12]}.json"
    catalog = _read_catalog(cache)
    if catalog is None:
        catalog = scan_folder(folder)
        _write_catalog(cache, catalog)
    return catalog


def scan_folder(folder: Path, recursive: bool = True) -> dict[str, TaskFile]:
    """Names in ``folder``'s YAML files, in the order of their paths; of two files with one name the first wins."""
    texts: dict[Path, str] = {}
    catalog: dict[str, TaskFile] = {}
    tags: dict[str, set[str]] = {}
    for path in _yaml_files(folder.resolve(), recursive):
        keys = top_keys(path, texts)
        kind: Kind | None = next((k for k in ("class", "group", "task") if k in keys), None)
        names = keys.get("group" if kind == "group" else "task", [])
        if kind is None or len(names) != 1 or names[0] in catalog:
            continue
        catalog[names[0]] = TaskFile(names[0], kind, str(path))
        for tag in keys.get("tag", []) if kind != "group" else []:
            tags.setdefault(tag, set()).add(names[0])
    for tag, members in tags.items():
        catalog.setdefault(tag, TaskFile(tag, "tag", None, tuple(sorted(members))))
    return catalog


def _yaml_files(folder: Path, recursive: bool) -> list[Path]:
    pattern = "**/*.yaml" if recursive else "*.y*ml"
    found = [path for path in folder.glob(pattern) if not _SKIPPED_FOLDERS & set(path.parts)]
    return sorted(found, key=lambda path: path.as_posix())


def top_keys(
    path: Path, texts: dict[Path, str] | None = None, seen: frozenset[Path] = frozenset()
) -> dict[str, list[str]]:
    """The naming keys of a file with those of its includes; the file's own win. ``texts`` are files already read."""
    texts = {} if texts is None else texts
    if path in seen:
        return {}
    if path not in texts:
        try:
            texts[path] = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            texts[path] = ""
    own = {key: _values(value) for key, value in _TOP_KEY.findall(texts[path])}
    merged: dict[str, list[str]] = {}
    for include in own.pop("include", []):
        merged |= top_keys((path.parent / include).resolve(), texts, seen | {path})
    return merged | own


def _values(text: str) -> list[str]:
    """A scalar as one value, a list (block or flow) as its items; quotes and comments are taken off."""
    first = text.split("\n", 1)[0].strip()
    if first.startswith("["):
        items = text[text.index("[") + 1 : text.rfind("]")].split(",")
    elif first and not first.startswith("#"):
        items = [first]
    else:
        items = _ITEM.findall(text)
    return [plain for item in items if (plain := _plain(item))]


def _plain(text: str) -> str:
    text = text.strip()
    if text[:1] in {'"', "'"} and text.find(text[0], 1) > 0:
        return text[1 : text.index(text[0], 1)]
    return text.split(" #", 1)[0].strip()


def _cache_folder() -> Path:
    """The platform's folder for what can be made again."""
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given) / "evalcard"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "evalcard"
    if sys.platform == "win32" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local) / "evalcard" / "Cache"
    return Path.home() / ".cache" / "evalcard"


def _read_catalog(cache: Path) -> Catalog | None:
    """None where there is no cache, or none that can be read: it is only a shortcut."""
    try:
        rows = json.loads(cache.read_text(encoding="utf-8"))
        return {row[0]: TaskFile(row[0], row[1], row[2], tuple(row[3])) for row in rows}
    except (OSError, ValueError, TypeError, IndexError, KeyError):
        return None


def _write_catalog(cache: Path, catalog: Catalog) -> None:
    rows = [list(asdict(file).values()) for file in catalog.values()]
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=cache.parent, prefix=cache.name)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(rows, file)
        os.replace(name, cache)
    except OSError:
        return  # a read-only home costs the next command two seconds, nothing else
