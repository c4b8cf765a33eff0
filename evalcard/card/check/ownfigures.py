"""Figures that evalcard's own page prints twice: the overall average of its tables, and the recoveries of its headline.

Only what stands between evalcard's marks is looked at, as only there the layout is known.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evalcard.card.check.columns import triples_of
from evalcard.card.check.digits import about_mean, fixed, mean_of, places_of
from evalcard.card.check.grid import Grid, plain
from evalcard.card.check.groups import Line
from evalcard.card.check.problem import Problem, shown
from evalcard.card.check.table import Table, tables_of
from evalcard.compare.published import PublishedRow, check_average

_ALL = re.compile(r"Average of all (\d+) tasks")
_HEADLINE = "this model's recovery is "
_STATED = re.compile(
    r"\*\*(?P<recovery>[^*]+)\*\*(?P<interval> \[[^\])]*[\])])? on "
    r"(?:(?P<tick>`+)(?P<task>.+?)(?<!`)(?P=tick)(?!`)|(?P<category>.+?) \(average of \d+ tasks\))"
)
_AGAIN = "Make the card again with `evalcard card`."


@dataclass(frozen=True, slots=True)
class _Stated:
    """A recovery in a table of ours, as it is printed with its interval."""

    label: str
    """A task's name with its settings in brackets behind; a category's name, empty for the only one."""
    is_average: bool
    text: str

    def is_of(self, name: str, is_average: bool) -> bool:
        """Whether it is the recovery of this task, or of this category's average."""
        if is_average:
            return self.is_average and self.label in (name, "")
        return not self.is_average and (self.label == name or self.label.startswith(f"{name} ("))


def check_figures(grids: Sequence[Grid], prose: Sequence[str], own: range) -> list[Problem]:
    """grids: all tables of the card; prose: its lines without code and comments; own: lines that evalcard wrote."""
    tables = [table for grid in grids if grid.line in own for table in tables_of(grid, triples_of(grid))]
    ours = [table for table in tables if table.grid.header[0] == "Task" and table.triple.recovery is not None]
    return [*_overall(tables, ours), *_headline(ours, prose, own)]


def _overall(tables: Sequence[Table], ours: Sequence[Table]) -> Iterator[Problem]:
    """The average of all tasks against the rows of all tables."""
    rows = [row for table in ours for line in table.lines if line.kind == "item" and (row := table.row(line))]
    for table in tables:
        for line in table.lines:
            found = _ALL.fullmatch(line.label)
            average = table.row(line) if found else None
            if found and average is not None:
                yield from _held(table, line, average, rows, int(found[1]))


def _held(
    table: Table, line: Line, average: PublishedRow, rows: Sequence[PublishedRow], stated: int
) -> Iterator[Problem]:
    where = f"table on line {table.grid.line}, row {shown(line.label, 90)}"
    if len(rows) != stated:
        what = f"it is over {stated} tasks, and the tables of this card have scores of {len(rows)}"
        yield Problem(line.row.line, where, what, _AGAIN, "error")
        return
    told = check_average(rows, average)
    for is_mean, which, at in (
        (told.baseline_is_mean, "baseline", table.triple.baseline),
        (told.compressed_is_mean, "compressed", table.triple.compressed),
    ):
        if not is_mean:
            printed: str = getattr(average, which)
            mean = fixed(mean_of([getattr(row, which) for row in rows]), places_of(printed))
            what = f"prints an average of {printed} under {shown(table.grid.header[at])}; the mean of all {stated} "
            yield Problem(
                line.row.line,
                where,
                f"{what}tasks of this card is {mean}",
                about_mean(rows, average) or _AGAIN,
                "error",
            )


def _headline(ours: Sequence[Table], prose: Sequence[str], own: range) -> Iterator[Problem]:
    """Every recovery that the sentence above the tables states, against the row that it is of."""
    stated = [one for table in ours for one in _stated_in(table, prose, is_only=len(ours) == 1)]
    for number in own if stated else ():
        line = prose[number - 1] if number <= len(prose) else ""
        _, _, said = line.partition(_HEADLINE)
        for found in _STATED.finditer(said):
            yield from _against(stated, found, number)


def _against(stated: Sequence[_Stated], found: re.Match[str], number: int) -> Iterator[Problem]:
    is_average = found["category"] is not None
    name = plain(found["category"] if is_average else f"{found['tick']}{found['task']}{found['tick']}")
    said = plain(f"{found['recovery']}{found['interval'] or ''}")
    rows = [one.text for one in stated if one.is_of(name, is_average)]
    what = f"states a recovery of {said} on {shown(name)}; "
    if not rows:
        yield Problem(number, "headline", f"{what}no table of this card has such a row", _AGAIN, "error")
    elif said not in rows:
        yield Problem(number, "headline", f"{what}its table says {rows[0]}", _AGAIN, "error")


def _stated_in(table: Table, prose: Sequence[str], is_only: bool) -> Iterator[_Stated]:
    assert table.triple.recovery is not None
    category = "" if is_only else _title_above(prose, table.grid.line)
    for line in table.scored:
        is_average = line.kind == "average"
        text = line.row.cells[table.triple.recovery].text
        yield _Stated(category if is_average else line.label, is_average, text)


def _title_above(prose: Sequence[str], line: int) -> str:
    titles = (text for text in reversed(prose[: line - 1]) if text.startswith("### "))
    return plain(next(titles, "").removeprefix("### "))
