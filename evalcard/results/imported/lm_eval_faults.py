"""Which value of lm-eval's samples keeps a score from being the mean of its items' values."""

from collections.abc import Iterator, Sequence

from evalcard.results.imported.answers import number
from evalcard.results.imported.lm_eval_items import Item, Told
from evalcard.results.imported.lm_eval_rows import Measure, measures_in

_IGNORED = "bypass"
"""No score."""


def fault_in(told: Told, items: Sequence[Item]) -> str:
    """The end of a sentence that names the first such value and its line; empty where no single one is at fault."""
    for measure in measures_in(told.figures):
        if measure[0] == _IGNORED:
            continue
        for item, what in (*_no_numbers(measure, items), *_too_far(told, measure, items)):
            place = item.places[measure[1]].rstrip(",")
            return f", as {measure[0]} of item {item.doc_id} {what}: {place}"
    return ""


def _no_numbers(measure: Measure, items: Sequence[Item]) -> Iterator[tuple[Item, str]]:
    return ((item, f"is {item.odd[measure]}, which is no number") for item in items if measure in item.odd)


def _too_far(told: Told, measure: Measure, items: Sequence[Item]) -> Iterator[tuple[Item, str]]:
    """A share, by its printed score and by most of its items, has no value below 0 or above 1."""
    printed = number(told.figures.get(",".join(measure)))
    outside = [
        (item, value) for item in items if (value := item.values.get(measure)) is not None and not 0 <= value <= 1
    ]
    if printed is None or not 0 <= printed <= 1 or 2 * len(outside) >= len(items):
        return iter(())
    return (
        (item, f"is {value:g}, which is not from 0 to 1 as the score and most others are") for item, value in outside
    )
