"""Cells that hold a score and its recovery, as ``57.0 (96.0 %)`` or ``57.0 / 96.0%``: split into two columns.

A second number may be anything: a standard error, a difference, another metric. It counts as a recovery where a
header or the cell says so, where most of the column follows as one, or where it alone has a percent sign and lies close
to one.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from evalcard.card.check.cells import read_cell, undecorated
from evalcard.card.check.columns import RECOVERY, Triple, role_of
from evalcard.card.check.digits import ratio_of
from evalcard.card.check.direction import is_lower_better
from evalcard.card.check.grid import Cell, Grid, Row
from evalcard.card.check.groups import lines_of
from evalcard.card.check.overall import with_overall
from evalcard.card.check.table import Table
from evalcard.compare.published import Match, PublishedRow, check_row, read_printed

_WORD = r"(?:recovery|recovered|rec\.?|retention|retained)"
_SECOND = (
    rf"(?P<word>{_WORD}\s*[:=]?\s*)?(?P<second>[0-9]{{1,20}}(?:\.[0-9]{{1,20}})?)\s*(?P<sign>%)?\s*(?P<after>{_WORD})?"
)
_FIRST = r"(?P<first>[0-9]{1,20}(?:\.[0-9]{1,20})?)\s*(?P<first_sign>%)?\s*"
_PAIR = tuple(
    re.compile(_FIRST + rest, re.IGNORECASE) for rest in (rf"[(\[]\s*{_SECOND}\s*[)\]]", rf"[/|;]\s*{_SECOND}")
)
_INTERVAL = re.compile(r"\s*(?:\[[^\[\]()]*,[^\[\]()]*[\])]|\([^()]*,[^()]*\))$")
_ARROW = re.compile(r"[↑↓▲▼⬆⬇🔺🔻]")
_CLOSE = 5
"""Points that a misprinted recovery may be off, where nothing but its percent sign says that it is one."""
_ALIKE = Fraction(1, 10)
_WORTH_A_NOTE = 50
"""A smaller second number without a percent sign is a standard error, or a difference: no recovery that was missed."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two numbers of one cell, as printed."""

    first: str
    second: str
    is_percent: bool
    """Whether the second alone has a percent sign: it is of another unit than the score then."""
    says_recovery: bool


@lru_cache(maxsize=4096)
def read_pair(text: str) -> Pair | None:
    """None where a cell is no such pair; a second number with a sign or an arrow is a difference, and makes none."""
    if len(text) > 200 or _ARROW.search(text):
        return None
    rest = _INTERVAL.sub("", undecorated(text))
    found = next((found for pattern in _PAIR if (found := pattern.fullmatch(rest))), None)
    if found is None:
        return None
    says = bool(found["word"] or found["after"])
    return Pair(found["first"], found["second"], bool(found["sign"]) and not found["first_sign"], says)


def figure_columns(grid: Grid) -> list[int]:
    """Columns of which at least half of what is written are numbers, pairs of them included."""
    found = []
    for at in range(len(grid.header)):
        texts = [row.cells[at].text for row in grid.rows if not row.is_title]
        written = [text for text in texts if read_cell(text).kind != "nothing"]
        figures = sum(read_pair(text) is not None or read_cell(text).kind in ("number", "comma") for text in written)
        if written and 2 * figures >= len(written):
            found.append(at)
    return found


def paired_tables(grid: Grid) -> tuple[list[Table], list[str]] | None:
    """(tables, headers of columns whose second numbers may be recoveries and cannot be told to be); None for a table
    without columns of pairs, or with a column of recoveries beside them."""
    figures = [at for at in figure_columns(grid) if _role(grid, at) != "other"]
    paired = [at for at in figures if _is_paired(grid, at)]
    if not paired or any(RECOVERY.search(grid.header[at]) for at in figures if at not in paired):
        return None
    if _are_shares(grid, figures):
        return None
    baseline = _baseline(grid, figures, paired)
    if baseline is None:
        return [], [grid.header[at] for at in paired if _may_be_recoveries(grid, at)]
    tables, doubts = [], []
    for at in (at for at in figures if at != baseline):
        table = _table(grid, baseline, at, at in paired)
        if at in paired and not _is_clear(grid, baseline, at, table):
            doubts += [grid.header[at]] if _may_be_recoveries(grid, at) else []
            table = _table(grid, baseline, at, is_paired=False)
        tables.append(table)
    return [table for table in tables if table.has_something_to_follow], doubts


def _role(grid: Grid, at: int) -> str:
    return role_of(RECOVERY.sub(" ", grid.header[at]).strip())


def _pairs(grid: Grid, at: int) -> list[Pair]:
    return [pair for row in grid.rows if (pair := read_pair(row.cells[at].text))]


def _is_paired(grid: Grid, at: int) -> bool:
    written = [row for row in grid.rows if not row.is_title and read_cell(row.cells[at].text).kind != "nothing"]
    return bool(written) and 2 * len(_pairs(grid, at)) >= len(written)


def _are_shares(grid: Grid, figures: Sequence[int]) -> bool:
    """Whether the pairs are counts with their share of a sum, as ``247 (98.8 %)`` beside ``3 (1.2 %)``: of their row's,
    or of their column's in a table that was turned."""
    rows = [[row.cells[at].text.strip() for at in figures] for row in grid.rows if not row.is_title]
    return any(_add_up(lines) for lines in (rows, list(zip(*rows, strict=True))))


def _add_up(lines: Sequence[Sequence[str]]) -> bool:
    num_pairs = 0
    for texts in lines:
        pairs = [pair for text in texts if (pair := read_pair(text))]
        counts = [*(pair.first for pair in pairs), *(text for text in texts if text.isdecimal() and len(text) <= 20)]
        if not all(count.isdecimal() for count in counts):
            return False
        total = max(1, sum(map(int, counts)))
        if any(abs(Fraction(100 * int(pair.first), total) - _value(pair.second)) >= 1 for pair in pairs):
            return False
        num_pairs += len(pairs)
    return num_pairs > 1


def _is_full(grid: Grid, at: int) -> bool:
    """Whether every recovery in it is 100: it is the baseline's."""
    seconds = {read_printed(pair.second).value for pair in _pairs(grid, at)}
    return bool(seconds) and seconds <= {Fraction(100), Fraction(1)}


def _baseline(grid: Grid, figures: Sequence[int], paired: Sequence[int]) -> int | None:
    plain = [at for at in figures if at not in paired]
    said = [at for at in figures if _role(grid, at) == "baseline"]
    for found in ([at for at in paired if _is_full(grid, at)], said, plain):
        if len(found) == 1:
            return found[0]
    return None


def _table(grid: Grid, baseline: int, at: int, is_paired: bool) -> Table:
    """With the columns of the pairs split, and the second numbers in a column of their own behind all others."""
    width = len(grid.header)
    header = (*grid.header, *((f"{grid.header[at]} recovery",) if is_paired else ()))
    rows = tuple(Row(tuple(_split(row, (baseline, at), at if is_paired else None)), row.line) for row in grid.rows)
    split = Grid(grid.line, header, rows, grid.is_turned)
    triple = Triple(baseline, at, width if is_paired else None)
    return Table(split, triple, tuple(with_overall(lines_of(split, [triple]), [triple])))


def _split(row: Row, scores: Sequence[int], at: int | None) -> list[Cell]:
    """A pair without a percent sign behind a slash may be two scores: left as it is where ``at`` is None."""
    cells = list(row.cells)
    for number in scores:
        pair = read_pair(cells[number].text)
        if pair is not None and (at is not None or read_cell(cells[number].text).is_number):
            cells[number] = Cell(pair.first, cells[number].line)
    if at is not None:
        pair, one = read_pair(row.cells[at].text), row.cells[at]
        label = " ".join(cell.text for cell in row.cells)
        # A ratio of perplexities may be meant either way.
        is_open = pair is None or (is_lower_better(label) and not pair.says_recovery)
        cells.append(cells[at] if row.is_title else Cell("" if pair is None or is_open else pair.second, one.line))
    return cells


def _is_clear(grid: Grid, baseline: int, at: int, table: Table) -> bool:
    pairs = _pairs(grid, at)
    if RECOVERY.search(grid.header[at]) or all(pair.says_recovery for pair in pairs):
        return True
    if _is_paired(grid, baseline):
        return _is_full(grid, baseline)
    # The score once more, as a percentage.
    again = sum(abs(_value(pair.second) - 100 * _value(pair.first)) < _ALIKE for pair in pairs)
    if 2 * again >= len(pairs):
        return False
    rows = [row for line in table.scored if (row := table.row(line)) is not None and row.recovery is not None]
    matches = sum(isinstance(check_row(row), Match) for row in rows)
    if matches >= 2 and 2 * matches > len(rows):
        return True
    return bool(rows) and all(pair.is_percent for pair in pairs) and all(map(_is_close, rows))


def _is_close(row: PublishedRow) -> bool:
    ratio = ratio_of(row)
    return ratio is not None and row.recovery is not None and abs(ratio - _value(row.recovery)) <= _CLOSE


def _value(number: str) -> Fraction:
    return read_printed(number).value


def _may_be_recoveries(grid: Grid, at: int) -> bool:
    pairs = _pairs(grid, at)
    return any(pair.is_percent or pair.says_recovery or _value(pair.second) >= _WORTH_A_NOTE for pair in pairs)
