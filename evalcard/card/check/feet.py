"""Rows that are recoveries of other rows: at the foot of a table, or below each benchmark."""

import re
from collections.abc import Sequence

from evalcard.card.check.groups import Line, is_called, named_in

_MEAN_RECOVERY = re.compile(r"(?:average|avg\.?|mean)\s+recovery\b", re.I)


def base_of(line: Line, lines: Sequence[Line]) -> Line | None:
    """The row that a row of recoveries is of; None where the table does not show it.

    The one that it names; the one right above it, where every row of recoveries follows another row; else the average
    above, or the only benchmark.
    """
    named, scored = named_in(line), [one for one in lines if one.kind in ("item", "average")]
    for one in scored:
        if named is not None and is_called(one, named):
            return one
    above = lines[: lines.index(line)]
    feet = [at for at, one in enumerate(lines) if one.kind == "recovery"]
    if len(feet) > 1 and all(at and lines[at - 1] in scored for at in feet):
        return above[-1]
    averages = [one for one in above if one.kind == "average"]
    items = [one for one in scored if one.kind == "item"]
    return averages[-1] if averages else items[0] if len(items) == 1 else None


def is_mean_recovery(line: Line) -> bool:
    """Whether it is called an average of recoveries, which may be of the recoveries or of the scores."""
    return bool(_MEAN_RECOVERY.match(line.label))
