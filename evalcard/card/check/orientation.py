"""Which way round a table stands, and the tables of baseline and compressed in it: benchmarks on rows or on columns."""

from evalcard.card.check.columns import RECOVERY, Triple, role_of, triples_of
from evalcard.card.check.full import are_amounts, triples_by_full
from evalcard.card.check.grid import Cell, Grid, Row
from evalcard.card.check.groups import is_average
from evalcard.card.check.pairs import figure_columns, paired_tables
from evalcard.card.check.problem import Problem, shown
from evalcard.card.check.table import Table, tables_of

_MOST_COLUMNS, _MOST_ROWS = 200, 1000
"""Columns and rows are held against each other: a wrong table must not take minutes."""
_MODELS = ("baseline", "compressed", "quantized")


def read_tables(grid: Grid) -> tuple[list[Table], list[Problem]]:
    """The tables in a grid, and notes of what looks as if it had to follow and cannot be told to.

    It is read with a benchmark on each row, and where that gives nothing with one in each column; the other way round
    where a column is an average.
    """
    if len(grid.header) > _MOST_COLUMNS or len(grid.rows) > _MOST_ROWS:
        what = f"it was not checked: it has {len(grid.rows)} rows of {len(grid.header)} columns"
        return [], [Problem(grid.line, f"table on line {grid.line}", what, "Split it; nobody reads so much.", "note")]
    doubts: list[str] = []
    for way in _ways(grid):
        tables, unclear = _tables_in(way)
        if tables:
            return tables, _notes(grid, unclear)
        doubts = doubts or unclear
    return [], _notes(grid, doubts) or _unread(grid)


def _ways(grid: Grid) -> list[Grid]:
    """The likelier one first."""
    is_first = any(is_average(text) for text in grid.header[1:])
    other = [turned(grid)] if len(grid.rows) < _MOST_COLUMNS else []
    return [*other, grid] if is_first else [grid, *other]


def _tables_in(grid: Grid) -> tuple[list[Table], list[str]]:
    paired = paired_tables(grid) if len(grid.header) > 1 else None
    if paired is not None and paired[0]:
        return paired
    return tables_of(grid, _triples(grid)), paired[1] if paired else []


def _triples(grid: Grid) -> list[Triple]:
    """Rows that were columns are only believed to be benchmarks where a row of the card says what its model is, by a
    name or by a recovery of 100."""
    found = [one for one in triples_of(grid) if not (grid.is_turned and one.is_guess and one.recovery is None)]
    return found or triples_by_full(grid)


def turned(grid: Grid) -> Grid:
    """Rows for columns: a table with a model on each row becomes one with a benchmark on each."""
    figures = figure_columns(grid)
    kept = [at for at in figures if at and role_of(grid.header[at]) != "other"]
    labels = [at for at in range(len(grid.header)) if at not in figures and not are_amounts(grid, at)] or [0]
    rows = [row for row in grid.rows if not row.is_title]
    header = tuple(" ".join(dict.fromkeys(row.cells[at].text for at in labels if row.cells[at].text)) for row in rows)
    body = [Row((Cell(grid.header[at], grid.line), *(row.cells[at] for row in rows)), grid.line) for at in kept]
    return Grid(grid.line, ("", *header), tuple(body), is_turned=True)


def _notes(grid: Grid, doubts: list[str]) -> list[Problem]:
    if not doubts:
        return []
    names = ", ".join(shown(one) for one in dict.fromkeys(doubts))
    what = (
        f"cells under {names} hold two numbers, and the second one cannot be told to be a recovery; it was not checked"
    )
    advice = "Write 'recovery' in the header, or give it a column of its own."
    return [Problem(grid.line, f"table on line {grid.line}", what, advice, "note")]


def _unread(grid: Grid) -> list[Problem]:
    """A table that prints recoveries beside scores, or averages of a model that is called one of the two."""
    figures = figure_columns(grid)
    labels = [cell.text for row in grid.rows for at, cell in enumerate(row.cells) if at not in figures]
    texts = [*grid.header, *labels]
    has_recovery = any(RECOVERY.search(text) and role_of(text) == "recovery" for text in texts)
    has_average = any(is_average(text) for text in texts) and any(role_of(text) in _MODELS for text in texts)
    has_scores = any(role_of(grid.header[at]) not in ("recovery", "other") for at in figures)
    if not has_scores or not (has_recovery or has_average):
        return []
    what = "it was not checked: it does not say which scores are the baseline's and which the compressed model's"
    return [Problem(grid.line, f"table on line {grid.line}", what, "Call them so in the header.", "note")]
