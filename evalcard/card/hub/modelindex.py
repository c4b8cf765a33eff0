"""Our results among those that a card has already: a result is set again where it is ours, and nothing else is touched.

A card has one entry: readers of the Hub's metadata put several together under the last one's name. Ours is the one
with our name, else the only one there is, which keeps its own name. A metric is known again by its data set (type,
configuration, split, revision), its type and its name; one that somebody verified is never touched.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

import yaml

from evalcard.card.hub.edits import Edit, append_items, dumped, end_of, same, set_value
from evalcard.errors import UserError

Results = list[dict[str, Any]]


def index_edits(node: yaml.Node, there: Any, ours: Sequence[Mapping[str, Any]], text: str, first: int) -> list[Edit]:
    """What puts the results of ``ours``, a list of one entry, into the ``model-index`` that is ``there``.

    ``node``: of its value; ``first``: the line of the README that ``text`` begins with. Raises UserError where what is
    there is no model-index, as it would have to be thrown away.
    """
    (entry,) = ours
    if there is None or there == []:
        return [set_value(node, list(ours), text)]
    _check_index(node, there, first)
    assert isinstance(node, yaml.SequenceNode), node
    names = [one["name"] for one in there]
    if len(there) > 1 and entry["name"] not in names:
        return [append_items(node, list(ours), text)]
    at = names.index(entry["name"]) if entry["name"] in names else 0
    return list(_result_edits(_value(node.value[at], "results"), there[at]["results"], entry["results"], text))


def _check_index(node: yaml.Node, there: Any, first: int) -> None:
    fault = next(_faults(there), None)
    if fault is not None:
        raise UserError(
            f"the model-index of the README on the Hub (line {node.start_mark.line + first}) cannot be read: {fault}. "
            "Nothing of it was changed. Correct it there, or remove it, then publish again."
        )


def _faults(there: Any) -> Iterator[str]:
    if not isinstance(there, list):
        yield "it is not a list of entries"
        return
    for number, entry in enumerate(there):
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str) or not entry["name"]:
            yield f"model-index[{number}] has no name"
        elif not isinstance(entry.get("results"), list):
            yield f"model-index[{number}].results is not a list"
        else:
            for index, result in enumerate(entry["results"]):
                yield from (f"model-index[{number}].results[{index}] {said}" for said in _result_faults(result))


def _result_faults(result: Any) -> Iterator[str]:
    if not isinstance(result, dict):
        yield "is not a mapping"
        return
    for key in ("task", "dataset"):
        if not isinstance(result.get(key), dict):
            yield f"has no {key}"
    metrics = result.get("metrics")
    if not isinstance(metrics, list) or not all(isinstance(metric, dict) for metric in metrics):
        yield "has no list of metrics"


def _value(node: yaml.Node, key: str) -> yaml.Node:
    """The node of a key's value, which is there."""
    assert isinstance(node, yaml.MappingNode), node
    return next(value for name, value in node.value if name.value == key)


def _identity(result: Mapping[str, Any]) -> tuple[Any, ...]:
    dataset = result["dataset"]
    keys = ("type", "config", "split", "revision")
    return (result["task"].get("type"), *(None if dataset.get(key) is None else str(dataset[key]) for key in keys))


def _is_verified(metric: Mapping[str, Any]) -> bool:
    return bool(metric.get("verified") or metric.get("verifyToken"))


def _result_edits(node: yaml.Node, there: Results, ours: Results, text: str) -> Iterator[Edit]:
    if not there:
        yield set_value(node, ours, text)
        return
    assert isinstance(node, yaml.SequenceNode), node
    new: Results = []
    for result in ours:
        found = [n for n, one in enumerate(there) if _identity(one) == _identity(result)]
        whole = next((n for n in found if _is_wholly_ours(there[n], result)), None)
        shared = [(there[n]["metrics"], _value(node.value[n], "metrics")) for n in found if n != whole]
        left = yield from _metric_edits(shared, result["metrics"], text)
        mine = {**result, "metrics": left}
        if left and whole is not None:
            yield from _replaced(node.value[whole], there[whole], mine, text)
        elif left:
            # A result of somebody else may have a source or a name of its own; ours is put beside it.
            new.append(mine)
    if new:
        yield append_items(node, new, text)


def _is_wholly_ours(there: Mapping[str, Any], ours: Mapping[str, Any]) -> bool:
    """Whether it has no metric but ones we set."""
    known = list(map(_name, ours["metrics"]))
    return bool(there["metrics"]) and all(
        _name(metric) in known and not _is_verified(metric) for metric in there["metrics"]
    )


def _replaced(node: yaml.Node, there: Mapping[str, Any], ours: Mapping[str, Any], text: str) -> Iterator[Edit]:
    """Our result in the place of the one we put there before."""
    if same(there, dict(ours)):
        return
    start, end = node.start_mark.index, end_of(node, text)
    if isinstance(node, yaml.MappingNode) and node.flow_style:
        yield set_value(node, dict(ours), text)
        return
    yield Edit(start, end, dumped(dict(ours), node.start_mark.column).strip())


def _metric_edits(places: list[tuple[Results, yaml.Node]], ours: Results, text: str) -> Generator[Edit, None, Results]:
    """Sets the values of our metrics in results that hold others' as well; returns the metrics that are in none."""
    left = []
    for metric in ours:
        found = [
            (one, node.value[n])
            for metrics, node in places
            if isinstance(node, yaml.SequenceNode)
            for n, one in enumerate(metrics)
            if _name(one) == _name(metric) and not _is_verified(one)
        ]
        if not found or "value" not in found[0][0]:
            left.append(metric)
        elif not same(found[0][0]["value"], metric["value"]):
            yield set_value(_value(found[0][1], "value"), metric["value"], text)
    return left


def is_kept(before: Any, after: Any, ours: Sequence[Mapping[str, Any]]) -> bool:
    """Whether ``after`` has every metric of ``before`` that is not ours just as it was, and every one of ours."""
    mine = {(_identity(result), *_name(metric)) for _, result, metric in _metrics(ours)}
    theirs = [
        (entry, _identity(result), metric)
        for entry, result, metric in _metrics(before or ())
        if _is_verified(metric) or (_identity(result), *_name(metric)) not in mine
    ]
    found = [(entry, _identity(result), metric) for entry, result, metric in _metrics(after)]
    wanted = [(_identity(result), metric["value"], _name(metric)) for _, result, metric in _metrics(ours)]
    there = [(place, metric.get("value"), _name(metric)) for _, place, metric in found if not _is_verified(metric)]
    return all(one in found for one in theirs) and all(one in there for one in wanted)


def _metrics(index: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any], dict[str, Any]]]:
    """(name of the entry, result, metric)."""
    for entry in index:
        for result in entry["results"]:
            yield from ((entry["name"], result, metric) for metric in result["metrics"])


def _name(metric: Mapping[str, Any]) -> tuple[Any, Any]:
    return metric.get("type"), metric.get("name")
