"""The catalog in the form of the harness's index, and what a group's list of members means in it."""

from pathlib import Path
from typing import Any

from lm_eval.tasks._index import Entry, Kind

from evalcard.tasks.files.catalog import Catalog

_KINDS = {"task": Kind.TASK, "class": Kind.PY_TASK, "group": Kind.GROUP, "tag": Kind.TAG}


class Registry(dict[str, Entry]):
    """The catalog as the harness's index; of its 14,000 entries those are made that are asked for."""

    def __init__(self, catalog: Catalog):
        super().__init__()
        self.catalog = catalog

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self.catalog

    def __missing__(self, name: str) -> Entry:
        file = self.catalog[name]
        path = Path(file.path) if file.path else None
        self[name] = Entry(name, _KINDS[file.kind], path, tags=set(file.members))
        return self[name]


def reference_of(member: Any) -> str | None:
    """The task, group or tag that a group lists; None for a group written inside it."""
    name = member.get("task") if isinstance(member, dict) and "group" not in member else member
    return name if isinstance(name, str) else None


def spread(member: dict[str, Any], entry: Entry) -> list[dict[str, Any]]:
    """The members that a reference with values of its own stands for: each task of a tag, or the group itself."""
    if entry.kind is Kind.TAG:
        return [{**member, "task": one} for one in sorted(entry.tags)]
    if entry.kind is Kind.GROUP:
        return [{key: value for key, value in member.items() if key != "task"} | {"group": entry.name}]
    return [member]
