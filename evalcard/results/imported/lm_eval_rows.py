"""lm-eval's groups as rows: which tasks each pools, by which rule, and by which measure."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from evalcard.results.imported.answers import number
from evalcard.results.imported.parts import single_rows
from evalcard.results.records import RowRecord, TaskRecord

_CLOSE = 1e-9
Measure = tuple[str, str]
"""(metric, filter)."""


def measures_in(figures: Mapping[str, Any]) -> list[Measure]:
    """The measures of one entry of ``results``, in its order; its keys are "metric,filter" and their errors."""
    pairs = [key.rpartition(",")[::2] for key, value in figures.items() if "," in key and number(value) is not None]
    return [(metric, name) for metric, name in pairs if metric and not metric.endswith("_stderr")]


def preferences(header: Mapping[str, Any]) -> dict[str, list[Measure]]:
    """Leaf task -> measures of the outermost group in whose row it is pooled; the group's first metric only."""
    wishes: dict[str, list[Measure]] = {}
    for name in _outermost(header):
        measures = measures_in(_figures(header, name))
        first = [one for one in measures if one[0] == measures[0][0]]
        for leaf in _leaves(header, name):
            wishes.setdefault(leaf, first)
    return wishes


def rows_of(header: Mapping[str, Any], tasks: Mapping[str, TaskRecord]) -> list[RowRecord]:
    """A row for each outermost group with a score of its own, and for each task outside of these.

    The rule that weighs a group's tasks is not stored: it is the one that gives the score which lm-eval printed. A
    group of which tasks are missing, or that no rule explains, is listed by its tasks.
    """
    rows: list[RowRecord] = []
    pooled: set[str] = set()
    for name in _outermost(header):
        leaves = list(dict.fromkeys(_leaves(header, name)))
        rule = _rule(header, name, [tasks[leaf] for leaf in leaves]) if all(leaf in tasks for leaf in leaves) else None
        if rule is not None:
            rows.append(RowRecord(name=name, tasks=leaves, rule=rule))
            pooled.update(leaves)
    return rows + single_rows(name for name in tasks if name not in pooled)


def _rule(header: Mapping[str, Any], group: str, leaves: Sequence[TaskRecord]) -> Literal["size", "mean"] | None:
    """The rule that gives every score of the group from its tasks'; by size where both do, as that is the default."""
    printed = _figures(header, group)
    if len({(task.metric, task.filter) for task in leaves}) != 1 or _key(leaves[0]) not in printed:
        return None
    sizes = [task.items_selected for task in leaves]
    by_size = by_task = True
    for key in (f"{metric},{name}" for metric, name in measures_in(printed)):
        scores = [number(_figures(header, task.name).get(key)) for task in leaves]
        known = [score for score in scores if score is not None]
        if len(known) == len(leaves):
            weighed = math.fsum(score * size for score, size in zip(known, sizes, strict=True)) / sum(sizes)
            by_size &= math.isclose(weighed, printed[key], rel_tol=_CLOSE, abs_tol=_CLOSE)
            by_task &= math.isclose(math.fsum(known) / len(known), printed[key], rel_tol=_CLOSE, abs_tol=_CLOSE)
    return "size" if by_size else "mean" if by_task else None


def _key(task: TaskRecord) -> str:
    return f"{task.metric},{task.filter}"


def _outermost(header: Mapping[str, Any]) -> list[str]:
    """Groups with scores of their own that no other such group holds."""
    children = _children(header)
    inner = {name for names in children.values() for name in names}
    found: list[str] = []

    def visit(name: str, above: tuple[str, ...]) -> None:
        if name in above or not children.get(name):
            return
        if measures_in(_figures(header, name)):
            found.append(name)
        else:
            for child in children[name]:
                visit(child, (*above, name))

    for root in children:
        if root not in inner:
            visit(root, ())
    return list(dict.fromkeys(found))


def _leaves(header: Mapping[str, Any], group: str, above: tuple[str, ...] = ()) -> Iterator[str]:
    for child in _children(header).get(group, ()):
        if child in header["configs"]:
            yield child
        elif child not in above:
            yield from _leaves(header, child, (*above, group))


def _children(header: Mapping[str, Any]) -> dict[str, list[str]]:
    """Group -> members; older versions list single tasks here, too, without any."""
    stored = header.get("group_subtasks")
    listed = stored.items() if isinstance(stored, dict) else ()
    return {name: list(map(str, members)) for name, members in listed if isinstance(members, list)}


def _figures(header: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = header["results"].get(name)
    return found if isinstance(found, dict) else {}
