"""The rows of a table: benchmarks, names of categories, averages with what they are over, recoveries at the foot."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from evalcard.card.check.cells import read_cell
from evalcard.card.check.columns import Triple, numeric_columns, role_of
from evalcard.card.check.direction import direction_of
from evalcard.card.check.grid import Cell, Grid, Row

Kind = Literal["item", "average", "recovery", "title"]

_AVERAGE = re.compile(
    r"(?:(?P<before>.*?)[\s:,–-]+)?(?:average|avg\.?|mean)(?:\s+(?:score|accuracy|acc\.?|result|performance))?s?"
    r"(?:\s*\([^()]*\))?(?:\s*[:,–-]?\s*(?:of|over|across|on)\s+(?P<of>.+))?",
    re.I,
)
_FOOT = re.compile(r"(?:(?:average|avg\.?|mean|overall)\s+)?recovery(?:\s*\(?%\)?)?(?:\s+(?:of|on|over)\s.*)?", re.I)
_RECOVERY_OF = re.compile(r"(.*?[a-z0-9)\]])[\s,:–-]+\(?(?:recovery|retention)\)?(?:\s*\(?%\)?)?", re.I)
_MOST_LABEL = 200
"""Characters of a label that names another row."""
_MEASURE = re.compile(r"[\s,:–-]+(?:score|accuracy|acc\.?|value)$", re.I)
_PLAIN_WORDS = re.compile(r"(?:overall|total|category|group|unweighted|arithmetic|plain|simple|macro)?", re.I)
_ALL = re.compile(r"(?:overall|total)|all\b.*", re.I)
_COUNT = re.compile(r"(?:all )?(\d+) (?:tasks|benchmarks|rows|evaluations|evals|scores)", re.I)
_CATEGORY = re.compile(r"\bcategory\b|\bgroup\b|\bsuite\b|\bcapability\b|\bdomain\b", re.I)


@dataclass(frozen=True, slots=True)
class Line:
    """One row, understood."""

    row: Row
    kind: Kind
    label: str
    category: str
    """Of the column of categories or of the title above; empty for none."""
    raw: str
    """Everything that is written in the row's labels, for what is told by arrows and remarks."""

    over: tuple["Line", ...] = ()
    """Of an average whose label does not say what it is over: the rows that the figures tell."""

    @property
    def lower_is_better(self) -> bool:
        """Whether its label says so, or names a cost."""
        return direction_of(self.raw) in ("lower", "either")


@dataclass(frozen=True, slots=True)
class Averaged:
    """An average and the rows it is over; None where that cannot be told, and then its mean is not judged."""

    average: Line
    items: tuple[Line, ...] | None
    wider: tuple[Line, ...] = ()
    """All benchmarks since the average before: a benchmark without any number looks like the name of a category."""


def is_average(text: str) -> bool:
    """Whether a header or a label is that of an average, and of nothing else."""
    found = _AVERAGE.fullmatch(text.strip())
    return found is not None and bool(_PLAIN_WORDS.fullmatch((found["before"] or "").strip()))


def lines_of(grid: Grid, triples: Sequence[Triple]) -> list[Line]:
    """Every row of a table but repeated headers."""
    used = {at for triple in triples for at in (triple.baseline, triple.compressed, triple.recovery) if at is not None}
    numeric = numeric_columns(grid)
    labels = [at for at in range(len(grid.header)) if at not in used and at not in numeric]
    labels = [at for at in labels if role_of(grid.header[at]) != "other"] or [0]
    by_column = _category_column(grid, labels)
    found: list[Line] = []
    title = category = ""
    names = _categories(grid, by_column)
    for row in grid.rows:
        texts = _texts([row.cells[at] for at in labels if at != by_column or len(labels) == 1])
        scores = [read_cell(row.cells[at].text).kind for at in used if at not in labels]
        if by_column is not None:
            category = row.cells[by_column].text or category
        if row.is_title and not any(kind in ("number", "comma") for kind in scores):
            title = next(cell.text for cell in row.cells if cell.text)
            found.append(Line(row, "title", title, title, title))
            continue
        if scores and all(kind == "other" for kind in scores):
            continue  # the header once more, for another model
        raw = " ".join(cell.text for cell in dict.fromkeys(row.cells[at] for at in labels))
        label = ", ".join(texts) or raw
        kind = _kind_of(texts, raw, names)
        found.append(Line(row, kind, label, category if by_column is not None else title, raw))
    return _with_recoveries(found)


def _with_recoveries(lines: Sequence[Line]) -> list[Line]:
    """What is called the recovery of another row, as ``MMLU Recovery`` beside ``MMLU``, is no benchmark."""
    names = {_key(line.label) for line in lines}
    return [replace(line, kind="recovery") if line.kind == "item" and named_in(line) in names else line
            for line in lines]  # fmt: skip


def named_in(line: Line) -> str | None:
    """What a row of recoveries says it is of, as ``is_called`` compares it; None where it names nothing."""
    found = _RECOVERY_OF.fullmatch(line.label) if len(line.label) <= _MOST_LABEL else None
    return _key(found[1]) if found else None


def is_called(line: Line, name: str) -> bool:
    """Whether ``name``, as ``named_in`` tells it, is the row's."""
    return _key(line.label) == name


def _key(label: str) -> str:
    label = _MEASURE.sub("", label)
    return re.sub(r"[^a-z0-9@]+", "", label.lower())


def _texts(cells: Sequence[Cell]) -> list[str]:
    return [cell.text for cell in dict.fromkeys(cells) if cell.text]


def _category_column(grid: Grid, labels: Sequence[int]) -> int | None:
    """The column of categories: called so, or with cells that span several rows."""
    if len(labels) < 2 or labels[0] != 0:
        return None
    cells = grid.column(0)
    spans = any(one is other for one, other in zip(cells, cells[1:], strict=False))
    return 0 if spans or _CATEGORY.search(grid.header[0]) else None


def _categories(grid: Grid, by_column: int | None) -> set[str]:
    titles = {cell.text.lower() for row in grid.rows if row.is_title for cell in row.cells if cell.text}
    column = {cell.text.lower() for cell in grid.column(by_column)} if by_column is not None else set()
    return (titles | column) - {""}


def _kind_of(texts: Sequence[str], raw: str, categories: set[str]) -> Kind:
    if any(_FOOT.fullmatch(text) for text in texts or [raw]):
        return "recovery"
    for text in texts or [raw]:
        found = _AVERAGE.fullmatch(text)
        before = (found["before"] or "").strip().lower() if found else ""
        # What is called the average of one benchmark is a benchmark.
        if found and (_PLAIN_WORDS.fullmatch(before) or before in categories):
            return "average"
    return "item"


def averages_of(lines: Sequence[Line]) -> list[Averaged]:
    """Each average with the rows that it is over, as far as the table shows that."""
    averages = [line for line in lines if line.kind == "average"]
    return [Averaged(one, _items_of(one, lines, len(averages)), _wider(one, lines)) for one in averages]


def _wider(average: Line, lines: Sequence[Line]) -> tuple[Line, ...]:
    above = lines[: lines.index(average)]
    start = max((at for at, line in enumerate(above) if line.kind == "average"), default=-1) + 1
    return tuple(line for line in above[start:] if line.kind == "item")


def _items_of(average: Line, lines: Sequence[Line], num_averages: int) -> tuple[Line, ...] | None:
    if average.over:
        return average.over
    items = [line for line in lines if line.kind == "item"]
    text = next((part for part in average.label.split(", ") if _AVERAGE.fullmatch(part)), average.label)
    found = _AVERAGE.fullmatch(text)
    before, of = ((found["before"] or "").strip(), (found["of"] or "").strip()) if found else ("", "")
    if _ALL.fullmatch(before) or _ALL.fullmatch(of):
        chosen = items
    elif of and not _COUNT.fullmatch(of):
        chosen = [line for line in items if line.category and line.category.lower() in of.lower()]
    elif before and not _PLAIN_WORDS.fullmatch(before):
        chosen = [line for line in items if line.category.lower() == before.lower()]
    elif average.category:
        chosen = [line for line in items if line.category == average.category]
    else:
        chosen = _block(average, lines, num_averages)
    counted = _COUNT.fullmatch(of)
    return tuple(chosen) if chosen and (counted is None or int(counted[1]) == len(chosen)) else None


def _block(average: Line, lines: Sequence[Line], num_averages: int) -> list[Line]:
    """The benchmarks above it, up to another average or a title; those below where it is first of all. Perplexities
    and accuracies have no average in common."""
    at = lines.index(average)
    above = [line for line in _until_edge(reversed(lines[:at])) if line.lower_is_better == average.lower_is_better]
    if above or num_averages > 1:
        return above[::-1]
    return [line for line in _until_edge(lines[at + 1 :]) if line.lower_is_better == average.lower_is_better]


def _until_edge(lines: Iterable[Line]) -> list[Line]:
    """Recoveries of single benchmarks stand between these."""
    found = []
    for line in lines:
        if line.kind == "item":
            found.append(line)
        elif line.kind != "recovery":
            break
    return found
