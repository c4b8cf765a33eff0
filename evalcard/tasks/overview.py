"""Our own tasks with a line each: read from their files, with no document loaded. Light: no torch, no lm_eval."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from evalcard.tasks.data.readers import count_rows
from evalcard.tasks.data.roots import find_splits
from evalcard.tasks.files.catalog import Catalog, TaskFile, harness_catalog, our_catalog


@dataclass(frozen=True, slots=True)
class Listed:
    """One of our names."""

    name: str
    num_tasks: int
    """Leaf tasks; 1 for a task."""
    shots: str
    """Worked examples in the prompt; a range where the tasks of a group differ."""
    items: int | None
    """Documents; None where those of a task are in no data root."""
    scored: str


PASSED_ON = ("num_fewshot", "metadata", "generation_kwargs", "repeats")
"""What a group of ours states for its tasks."""
ALSO = ("gsm8k",)
"""Tasks of the harness's own that are listed with ours: names to begin with."""


class _Loader(yaml.SafeLoader):
    """Reads ``!function`` as its text: nothing is run for a list."""


_Loader.add_constructor("!function", lambda loader, node: str(node.value))


def list_ours(roots: Sequence[Path]) -> list[Listed]:
    """The tasks and groups that ship with evalcard and the best known one of the harness's, by name."""
    ours = our_catalog()
    both = {**harness_catalog(), **ours}
    return [_listed(both[name], both, roots) for name in sorted({*ours, *(one for one in ALSO if one in both)})]


def _listed(file: TaskFile, catalog: Catalog, roots: Sequence[Path]) -> Listed:
    leaves = leaves_of(file, catalog, {}, frozenset())
    counts = [_count(config, roots) for config in leaves]
    shots = sorted({int(config.get("num_fewshot") or 0) for config in leaves})
    ways = list(dict.fromkeys(_scored(config) for config in leaves))
    return Listed(
        file.name,
        len(leaves),
        "-".join(str(one) for one in dict.fromkeys([*shots[:1], *shots[-1:]])),
        None if None in counts or not counts else sum(count for count in counts if count is not None),
        ", ".join(ways[:2]) + (", ..." if len(ways) > 2 else ""),
    )


def leaves_of(
    file: TaskFile, catalog: Catalog, given: Mapping[str, Any], above: frozenset[str]
) -> list[dict[str, Any]]:
    """The configs of a name's leaf tasks, with what the groups above them state."""
    if file.name in above:
        return []
    if file.kind == "tag" or file.path is None:
        members: list[Any] = list(file.members)
        return [one for member in members for one in member_leaves(member, catalog, given, above | {file.name})]
    config = config_of(Path(file.path))
    if file.kind != "group":
        return [_merged(config, given)]
    stated = {key: value for key, value in config.items() if key in PASSED_ON}
    listed = config.get("task") or []
    members = listed if isinstance(listed, list) else [listed]
    passed = _merged(stated, given)
    return [one for member in members for one in member_leaves(member, catalog, passed, above | {file.name})]


def member_leaves(
    member: Any, catalog: Catalog, given: Mapping[str, Any], above: frozenset[str]
) -> list[dict[str, Any]]:
    if isinstance(member, str):
        return leaves_of(catalog[member], catalog, given, above) if member in catalog else []
    if not isinstance(member, dict):
        return []
    listed, stated = member.get("task"), {key: value for key, value in member.items() if key not in ("task", "group")}
    if isinstance(listed, list):
        return [one for inner in listed for one in member_leaves(inner, catalog, _merged(stated, given), above)]
    if isinstance(listed, str) and listed in catalog:
        return leaves_of(catalog[listed], catalog, _merged(stated, given), above)
    return [_merged(member, given)]


def _merged(config: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """``given`` wins; what is said to evalcard is merged key by key."""
    settings = {**settings_of(config), **settings_of(given)}
    return {**config, **given, "metadata": {**_metadata(config), "evalcard": settings}}


def settings_of(config: Mapping[str, Any]) -> dict[str, Any]:
    return dict(_metadata(config).get("evalcard") or {})


def _metadata(config: Mapping[str, Any]) -> dict[str, Any]:
    metadata = config.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def config_of(path: Path) -> dict[str, Any]:
    """A task file with its includes; its own keys win."""
    found: Any = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506 - a SafeLoader
    own = found if isinstance(found, dict) else {}
    includes = own.pop("include", [])
    merged: dict[str, Any] = {}
    for include in includes if isinstance(includes, list) else [includes]:
        merged |= config_of(path.parent / include)
    return merged | own


def _count(config: Mapping[str, Any], roots: Sequence[Path]) -> int | None:
    dataset, split = config.get("dataset_path"), config.get("test_split") or config.get("validation_split")
    files = find_splits(roots, str(dataset), config.get("dataset_name")).get(str(split), ()) if dataset else ()
    return sum(count_rows(path) for path in files) if files else None


def _scored(config: Mapping[str, Any]) -> str:
    kind = config.get("output_type", "generate_until")
    if kind == "multiple_choice":
        return "likeliest choice"
    if judge := settings_of(config).get("judge"):
        return f"judge {judge}"
    metrics = [one.get("metric") for one in config.get("metric_list") or [] if isinstance(one, dict)]
    filters = [str(one.get("name")) for one in config.get("filter_list") or [] if isinstance(one, dict)]
    return str(metrics[0] if metrics else kind) + (f" ({', '.join(filters)})" if filters else "")
