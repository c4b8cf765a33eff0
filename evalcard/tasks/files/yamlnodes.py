"""A task file's YAML as nodes that know their lines. Light: PyYAML only."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from evalcard.errors import UserError
from evalcard.tasks.files.catalog import Kind

FUNCTION = "!function"
MERGE = "tag:yaml.org,2002:merge"
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_nodes(path: Path) -> yaml.MappingNode:
    """The file's YAML as nodes that know their lines. UserError for what is no YAML, or no mapping of keys."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UserError(f"cannot read the task file {path}: {error.strerror or error}.") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise UserError(f"{path}, line {line}: not UTF-8 ({error.reason}). Save the file as UTF-8.") from None
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path}, line {mark.line + 1}, column {mark.column + 1}" if mark else str(path)
        start = error.context_mark
        began = f" (in what begins in line {start.line + 1})" if start and mark and start.line != mark.line else ""
        raise UserError(f"{where}: this is no YAML: {error.problem or error.context}{began}.") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise UserError(f"{path}: this is no YAML: {str(error) or 'nested too deeply'}.") from None
    if not isinstance(root, yaml.MappingNode):
        found = "nothing" if root is None else "a list" if isinstance(root, yaml.SequenceNode) else "a single value"
        raise UserError(f"{path}, line 1: a task file is a mapping of keys such as task, dataset_path; found {found}.")
    for node in list(walk(root)):
        if isinstance(node, yaml.MappingNode):
            _merge(path, node, ())
    return root


def _merge(path: Path, node: yaml.MappingNode, inside: tuple[int, ...]) -> None:
    """Add what ``<<`` brings in, as the loader does: the mapping's own keys win, then the first merged mapping's.

    The merged mappings stay in their place too, because the loader makes every value of theirs, even one that another
    hides, and a function is imported when it is made. UserError for what the loader cannot merge.
    """
    merges = [value for key, value in node.value if key.tag == MERGE]
    line = node.start_mark.line + 1
    if not merges or getattr(node, "merged", False):
        return
    sources = merges[0].value if isinstance(merges[0], yaml.SequenceNode) else merges
    if len(merges) > 1 or not all(isinstance(one, yaml.MappingNode) for one in sources):
        raise UserError(f"{path}, line {line}: '<<' takes one mapping, or one list of mappings, and stands once.")
    if id(node) in inside:
        raise UserError(f"{path}, line {line}: '<<' leads back to its own mapping. Take it out.")
    for source in sources:
        _merge(path, source, (*inside, id(node)))
        own = {key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)}
        node.value = node.value + [
            pair for pair in source.value if isinstance(pair[0], yaml.ScalarNode) and pair[0].value not in own
        ]
    node.merged = True  # type: ignore[attr-defined]


def own_name(root: yaml.MappingNode) -> tuple[Kind, str] | None:
    """Kind and name of the task or group that the file itself states, if it does."""
    keys: tuple[tuple[str, Kind, str], ...] = (("class", "class", "task"), ("group", "group", "group"), ("task",) * 3)
    for key, kind, naming in keys:
        node = value_of(root, naming) if value_of(root, key) is not None else None
        if isinstance(node, yaml.ScalarNode) and node.value:
            return kind, node.value
    return None


def walk(root: yaml.Node) -> Iterator[yaml.Node]:
    """Every node once, keys too; an alias may lead back to where it stands."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if isinstance(node, yaml.MappingNode):
            waiting += [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            waiting += node.value


def text_of(key: yaml.Node) -> str:
    """A key as text; YAML also lets lists and mappings be keys."""
    return str(key.value) if isinstance(key, yaml.ScalarNode) else f"<{type(key).__name__}>"


def value_of(node: yaml.MappingNode, key: str) -> yaml.Node | None:
    """The value of a key, None without it."""
    return next((value for name, value in node.value if name.value == key), None)


def inline_tasks(root: yaml.MappingNode) -> list[yaml.MappingNode]:
    """Mappings in ``task:`` lists, at any depth."""
    listed = value_of(root, "task")
    members = listed.value if isinstance(listed, yaml.SequenceNode) else []
    found = [one for one in members if isinstance(one, yaml.MappingNode)]
    return found + [deeper for one in found for deeper in inline_tasks(one)]


def includes_of(root: yaml.MappingNode) -> list[tuple[yaml.Node, str]]:
    """Nodes and texts under ``include``, of the file and of the tasks written inside its list."""
    found: list[tuple[yaml.Node, str]] = []
    for holder in [root, *inline_tasks(root)]:
        node = value_of(holder, "include")
        parts = node.value if isinstance(node, yaml.SequenceNode) else [node] if node is not None else []
        found += [(part, part.value) for part in parts if isinstance(part, yaml.ScalarNode)]
    return found
