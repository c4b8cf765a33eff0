"""The last row of a table that is an average by its figures: ``Overall``, or the average of a suite."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from evalcard.card.check.cells import read_cell
from evalcard.card.check.columns import Triple
from evalcard.card.check.digits import mean_of
from evalcard.card.check.groups import Line
from evalcard.compare.published import read_printed

_CALLED = re.compile(
    r"(?:overall|total|aggregate|.*\b(?:average|avg\.?|mean))(?:\s+(?:score|accuracy|acc\.?|result|performance))?s?"
    r"(?:\s*\([^()]*\))?",
    re.I,
)
_NO_PLAIN_MEAN = re.compile(r"\bweighted\b|\bmicro\b|\bgeometric\b|\bharmonic\b|\bnormali[sz]ed\b|\bmedian\b|@", re.I)


def with_overall(lines: Sequence[Line], triples: Sequence[Triple]) -> list[Line]:
    """Its last row is an average where it is called like one and at least one column is the mean of the rows above:
    then the others have to be. Any other name leaves it a benchmark, as does a mean of another kind."""
    scored = [line for line in lines if line.kind in ("item", "average")]
    if not scored or scored[-1].kind != "item" or not _is_called_so(scored[-1].label):
        return list(lines)
    foot = scored[-1]
    columns = sorted({at for triple in triples for at in (triple.baseline, triple.compressed)})
    above = lines[: lines.index(foot)]
    over = next((rows for rows in _choices(foot, above) if any(_is_mean(foot, rows, at) for at in columns)), None)
    if over is None:
        return list(lines)
    return [replace(line, kind="average", over=over) if line is foot else line for line in lines]


def _is_called_so(label: str) -> bool:
    texts = label.split(", ")
    return any(_CALLED.fullmatch(text) for text in texts) and not _NO_PLAIN_MEAN.search(label)


def _choices(foot: Line, above: Sequence[Line]) -> Iterator[tuple[Line, ...]]:
    """All benchmarks that are better the same way, all there are, those since the last average or title."""
    items = [line for line in above if line.kind == "item"]
    start = max((at for at, line in enumerate(above) if line.kind in ("average", "title")), default=-1) + 1
    yield tuple(line for line in items if line.lower_is_better == foot.lower_is_better)
    yield tuple(items)
    yield tuple(line for line in above[start:] if line.kind == "item")


def _is_mean(foot: Line, rows: Sequence[Line], at: int) -> bool:
    """Exactly, as it is printed: what only rounding allows is too weak to tell what a row is."""
    printed, cells = read_cell(foot.row.cells[at].text), [read_cell(line.row.cells[at].text) for line in rows]
    numbers = [cell.number for cell in cells if cell.is_number]
    if not printed.is_number or len(numbers) < 2 or any(cell.kind in ("comma", "other") for cell in cells):
        return False
    told = read_printed(printed.number)
    return abs(mean_of(numbers) - told.value) <= told.half
