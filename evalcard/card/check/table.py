"""A table read as one of baseline and compressed: its rows as ``compare.published`` takes them."""

from collections.abc import Iterable
from decimal import Decimal
from functools import cached_property

from evalcard.card.check.cells import Reading, read_cell
from evalcard.card.check.columns import RECOVERY, Triple
from evalcard.card.check.digits import shifted
from evalcard.card.check.direction import Direction, direction_of
from evalcard.card.check.grid import Grid
from evalcard.card.check.groups import Averaged, Line, averages_of, lines_of
from evalcard.card.check.overall import with_overall
from evalcard.card.check.problem import shown
from evalcard.compare.published import Match, PublishedRow, check_row

_FRACTION = 3
"""Recoveries that are all below this are fractions: 0.98 for 98 %."""


class Table:
    """A grid with the columns of one baseline and one compressed model."""

    def __init__(self, grid: Grid, triple: Triple, lines: tuple[Line, ...]) -> None:
        self.grid = grid
        self.triple = triple
        self.lines = lines
        """Of the whole grid, as ``groups.lines_of`` tells them."""

    def place(self, line: Line, at: int | None = None) -> str:
        """For messages: a row as on the card, or a column with its model; at: whose, else the compressed one's."""
        if not self.grid.is_turned:
            return f"table on line {self.grid.line}, row {shown(line.label, 90)}"
        model = self.triple.baseline if at == self.triple.baseline else self.triple.compressed
        return f"table on line {self.grid.line}, column {shown(line.label, 90)}, model {shown(self.grid.header[model])}"

    @property
    def many(self) -> str:
        """What the card has its benchmarks as."""
        return "columns" if self.grid.is_turned else "rows"

    @cached_property
    def scored(self) -> tuple[Line, ...]:
        """Rows with scores of their own."""
        return tuple(line for line in self.lines if line.kind in ("item", "average"))

    @cached_property
    def averages(self) -> tuple[Averaged, ...]:
        """Its averages with what they are over."""
        return tuple(averages_of(self.lines))

    @cached_property
    def places(self) -> int:
        """By how many decimal places recoveries are smaller than percent: 2 where they are fractions."""
        at = self.triple.recovery
        feet = [line for line in self.lines if line.kind == "recovery"]
        if at is None:
            texts = [line.row.cells[self.triple.compressed].text for line in feet]
        else:
            texts = [line.row.cells[at].text for line in self.scored]
        found = [read_cell(text).number for text in texts if read_cell(text).is_number]
        labels = [line.raw for line in feet] if at is None else [self.grid.header[at]]
        is_percent = any("%" in text for text in (*texts, *labels))
        return 0 if is_percent or not found or max(map(Decimal, found)) >= _FRACTION else 2

    def read(self, line: Line, at: int) -> Reading:
        """A cell."""
        return read_cell(line.row.cells[at].text)

    def direction(self, line: Line) -> Direction:
        """Which way a row is better, by its label, its header, and where these say nothing by what it is over."""
        if "↓" in self.grid.header[0]:
            return "lower"
        told = direction_of(line.raw)
        if told == "unsaid" and self.triple.recovery is not None:
            told = direction_of(RECOVERY.sub(" ", self.grid.header[self.triple.recovery]))
        averaged = next((one for one in self.averages if one.average is line), None)
        if told == "unsaid" and averaged is not None and averaged.items:
            among = {direction_of(one.raw) for one in averaged.items}
            return among.pop() if len(among) == 1 else told
        return told

    def row(self, line: Line, recovery: str | None = None, *, is_turned_round: bool = False) -> PublishedRow | None:
        """A row; None where a score is none. recovery: the one that is printed for it in another row.
        is_turned_round: as if it were better the other way."""
        baseline, compressed = (self.read(line, at) for at in (self.triple.baseline, self.triple.compressed))
        if not (baseline.is_number and compressed.is_number):
            return None
        higher = (self.direction(line) in ("higher", "unsaid")) != is_turned_round
        scores = [baseline.number, compressed.number]
        if self.places:
            scores[1 if higher else 0] = shifted(scores[1 if higher else 0], self.places)
        if recovery is None and self.triple.recovery is not None:
            recovery = self.read(line, self.triple.recovery).number or None
        return PublishedRow(line.label, scores[0], scores[1], recovery, higher)

    def rows_of(self, lines: Iterable[Line] | None) -> list[PublishedRow] | None:
        """The rows of an average; None where these cannot be told or one of them lacks a score. A row with neither
        score was not measured."""
        rows = []
        for line in lines or ():
            kinds = {self.read(line, at).kind for at in (self.triple.baseline, self.triple.compressed)}
            row = self.row(line)
            if row is not None:
                rows.append(row)
            elif kinds != {"nothing"}:
                return None
        return rows or None

    @property
    def is_confirmed(self) -> bool:
        """Headers that do not say which column is the baseline need two rows, and most of all, to follow."""
        if not self.triple.is_guess:
            return True
        rows = [row for line in self.scored if (row := self.row(line)) is not None]
        told = [check_row(row) for row in rows if row.recovery is not None]
        matches = sum(isinstance(one, Match) for one in told)
        return matches >= 2 and 2 * matches > len(told)

    @property
    def has_something_to_follow(self) -> bool:
        """Whether it prints a recovery or an average."""
        return self.triple.recovery is not None or any(line.kind in ("average", "recovery") for line in self.lines)


def tables_of(grid: Grid, triples: list[Triple]) -> list[Table]:
    """The grid, once for each compressed model; only what can be read without guessing."""
    lines = tuple(with_overall(lines_of(grid, triples), triples)) if triples else ()
    tables = [Table(grid, triple, lines) for triple in triples]
    return [table for table in tables if table.is_confirmed and table.has_something_to_follow]
