"""lm-eval's lines of samples, put together by document, and what the results file says of their task.

A samples file holds one line for each document and filter. A line without 'filter' (0.4.3, 0.4.4) belongs to the next
filter of the results.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evalcard.results.imported.answers import as_text, number
from evalcard.results.imported.files import damaged
from evalcard.results.imported.lm_eval_rows import Measure, measures_in
from evalcard.results.records import ItemId

_NOTHING_FOUND = ("", "[invalid]", "invalid")


@dataclass(frozen=True)
class Told:
    """What the results file says of one task."""

    name: str
    header: Mapping[str, Any]
    wishes: Sequence[Measure] | None
    """Measures of the group in whose row it is pooled."""
    seed: int | None

    @property
    def config(self) -> Mapping[str, Any]:
        found = self.header["configs"][self.name]
        return found if isinstance(found, dict) else {}

    @property
    def figures(self) -> Mapping[str, Any]:
        return self.header["results"][self.name]

    @property
    def stated(self) -> Mapping[str, Any]:
        """What the task's file says to evalcard alone."""
        metadata = self.config.get("metadata")
        stated = metadata.get("evalcard") if isinstance(metadata, dict) else None
        return stated if isinstance(stated, dict) else {}

    def about(self, table: str, default: Any) -> Any:
        """The task's entry in one of the header's tables."""
        entries = self.header.get(table)
        return entries.get(self.name, default) if isinstance(entries, dict) else default

    @property
    def output_type(self) -> str:
        return str(self.config.get("output_type") or "generate_until")

    @property
    def filters(self) -> list[str]:
        """In the task's own order, as far as they have scores."""
        listed = self.config.get("filter_list")
        scored = list(dict.fromkeys(name for _, name in measures_in(self.figures)))
        stated = [str(one.get("name")) for one in listed or () if isinstance(one, dict)]
        return [name for name in dict.fromkeys([*stated, *scored]) if name in scored]

    def needs_several(self, name: str) -> bool:
        """Whether a filter takes several answers at once (maj@k), which evalcard's own grading leaves out."""
        return any(isinstance(part, dict) and part.get("k", 1) != 1 for part in self._parts(name))

    def fallbacks(self, name: str) -> set[str]:
        """What a filter returns where it finds nothing."""
        stated = {part["fallback"] for part in self._parts(name) if isinstance(part.get("fallback"), str)}
        return stated.union(_NOTHING_FOUND)

    def _parts(self, name: str) -> list[dict[str, Any]]:
        listed = self.config.get("filter_list") or ()
        found = [one for one in listed if isinstance(one, dict) and one.get("name") == name]
        return [part for one in found for part in one.get("filter") or () if isinstance(part, dict)]


@dataclass
class Item:
    """The lines of one document."""

    doc_id: int
    doc: Any
    target: str
    requests: list[list[Any]]
    """Arguments of each request, in order."""
    responses: list[Any]
    """For each request one entry for each repeat."""
    found: dict[str, Any] = field(default_factory=dict)
    """Filter -> filtered response of the first request."""
    values: dict[Measure, float | None] = field(default_factory=dict)
    odd: dict[Measure, str] = field(default_factory=dict)
    """As written, values that are neither a number nor what a metric over all items keeps, a list or an object."""
    places: dict[str, str] = field(default_factory=dict)
    """Filter -> its line, for messages."""


def read_items(told: Told, lines: Iterable[tuple[str, dict[str, Any]]]) -> list[Item]:
    """By document. ``lines`` are (place for messages, line).

    Raises UserError for lines that are damaged or lack what every version writes.
    """
    by_id: dict[int, Item] = {}
    for place, line in lines:
        try:
            doc_id, arguments = line["doc_id"], line["arguments"]
            doc, target, responses, filtered = line["doc"], line["target"], line["resps"], line["filtered_resps"]
            requests = _requests(arguments)
        except (KeyError, TypeError, ValueError) as error:
            raise damaged(place, f"it is no sample of lm_eval's ({type(error).__name__}: {error})") from None
        if type(doc_id) is not int or not isinstance(responses, list) or len(responses) != len(requests):
            raise damaged(place, "its doc_id, arguments and resps do not go together")
        item = by_id.setdefault(doc_id, Item(doc_id, doc, as_text(target), requests, responses))
        name = _filter_of(told, line, item)
        if name is None or name in item.found:
            raise damaged(place, f"item {doc_id} comes once more than it has filters")
        item.found[name] = filtered[0] if isinstance(filtered, list) and filtered else filtered
        metrics = line.get("metrics")
        listed = metrics if isinstance(metrics, list) else [metric for metric, _ in measures_in(told.figures)]
        given = {(metric, name): line[metric] for metric in dict.fromkeys(listed) if metric in line}
        item.values |= {measure: number(value) for measure, value in given.items()}
        item.odd |= {measure: _written(value) for measure, value in given.items() if _is_odd(value)}
        item.places[name] = place
    return [by_id[doc_id] for doc_id in sorted(by_id)]


def _is_odd(value: Any) -> bool:
    return number(value) is None and not isinstance(value, (list, dict))


def _written(value: Any) -> str:
    """As its line has it."""
    return json.dumps(value, ensure_ascii=False)[:40]


def _filter_of(told: Told, line: Mapping[str, Any], item: Item) -> str | None:
    if "filter" in line:
        return str(line["filter"])
    filters = told.filters
    return filters[len(item.found)] if len(item.found) < len(filters) else None


def _requests(arguments: Any) -> list[list[Any]]:
    """``{"gen_args_0": {"arg_0": ..., "arg_1": ...}, ...}``, or a list of lists in older versions."""
    if isinstance(arguments, list):
        return [list(one) for one in arguments]
    return [list(_in_order(one)) for one in _in_order(arguments)]


def _in_order(table: dict[str, Any]) -> list[Any]:
    return [table[key] for key in sorted(table, key=lambda key: int(key.rpartition("_")[2]))]


def item_id(told: Told, item: Item) -> ItemId:
    named = told.stated.get("id_field")
    found = item.doc.get(named) if named and isinstance(item.doc, dict) else None
    return found if isinstance(found, (int, str)) and not isinstance(found, bool) else item.doc_id


def choices_of(told: Told, item: Item) -> list[str]:
    """What a multiple-choice document offers; half of the requests where the other half asks without a context."""
    is_doubled = any(metric == "acc_mutual_info" for metric, _ in measures_in(told.figures))
    asked = item.requests[: len(item.requests) // 2] if is_doubled else item.requests
    delimiter = told.config.get("target_delimiter")
    said = [as_text(request[-1]) if request else "" for request in asked]
    return [text.removeprefix(delimiter) if isinstance(delimiter, str) else text for text in said]
