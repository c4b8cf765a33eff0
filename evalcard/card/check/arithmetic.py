"""Does what a table prints follow from what it prints? Recoveries from scores, averages from rows.

Any card's tables, in the layouts that published cards have; what is not such a table is left alone. The arithmetic is
``compare.published``: a printed number stands for all that round to it, so nothing is called wrong that may be right.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from evalcard.card.check.digits import about_mean, about_recovery, fixed, mean_of, places_of
from evalcard.card.check.feet import base_of, is_mean_recovery
from evalcard.card.check.grid import Grid
from evalcard.card.check.groups import Averaged, Line, named_in
from evalcard.card.check.meanfeet import are_confirmed, mean_feet
from evalcard.card.check.orientation import read_tables
from evalcard.card.check.problem import Level, Problem, shown
from evalcard.card.check.table import Table
from evalcard.compare.published import Inconsistent, Match, PublishedRow, check_average, check_row


@dataclass(slots=True)
class Tally:
    """What was looked at, so that a clean result says how much it rests on."""

    tables: int = 0
    recoveries: int = 0
    averages: int = 0
    problems: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)
    """What was not checked though it looks as if it had to follow."""


def check_tables(grids: Sequence[Grid]) -> Tally:
    """All tables that can be read as one of baseline and compressed; the others count for nothing."""
    tally = Tally()
    for grid in grids:
        tables, notes = read_tables(grid)
        tally.notes += notes
        tally.tables += bool(tables)
        for table in tables:
            tally.problems += _cells(table)
            _check_recoveries(table, tally)
            _check_foot(table, tally)
            _check_averages(table, tally)
        _check_mean_feet(tables, tally)
    return tally


def _check_mean_feet(tables: Sequence[Table], tally: Tally) -> None:
    """Recoveries over all benchmarks of a table without an average."""
    feet = mean_feet(tables)
    if feet and not are_confirmed(feet):
        where = f"table on line {feet[0].table.grid.line}"
        what = f"its recoveries were not checked: too few follow from the {feet[0].num_rows} {feet[0].table.many} shown"
        tally.notes.append(Problem(feet[0].table.grid.line, where, what, "Print the average that they are of.", "note"))
        return
    for foot in feet:
        tally.recoveries += 1
        if isinstance(foot.told, Inconsistent):
            what, _ = about_recovery(foot.means, foot.told, foot.table.places)
            what += f", by the means of the {foot.num_rows} {foot.table.many}"
            advice = "Print that, or the average that it is of."
            tally.problems.append(_problem(foot.table, foot.table.triple.compressed, foot.line, what, advice))


def _problem(table: Table, at: int, line: Line, what: str, advice: str, level: Level = "error") -> Problem:
    """at: the column of the cell in question."""
    return Problem(line.row.cells[at].line, table.place(line, at), what, advice, level)


def _cells(table: Table) -> Iterator[Problem]:
    """What stands where a number should, and is none."""
    triple = table.triple
    for line in table.scored:
        for at in (triple.baseline, triple.compressed, triple.recovery):
            if at is None:
                continue
            cell, kind = line.row.cells[at], table.read(line, at).kind
            if kind == "comma":
                what = f"{shown(cell.text)} has a comma, and readers cannot tell what it parts"
                yield _problem(table, at, line, what, "Write a decimal point, and nothing between thousands.")
            elif kind == "other":
                what = f"{shown(cell.text)} under {shown(table.grid.header[at])} cannot be read as a number"
                yield _problem(table, at, line, what, "Write the number alone, or a dash for none.", "warning")


def _check_recoveries(table: Table, tally: Tally) -> None:
    """Of each row, beside its scores."""
    for line in table.scored:
        row = table.row(line)
        if row is not None and row.recovery is not None and table.triple.recovery is not None:
            _hold(table, tally, table.triple.recovery, line, line, row)


def _check_foot(table: Table, tally: Tally) -> None:
    """Rows of recoveries: of the row that they name, of the average above, or of the only benchmark."""
    feet = [line for line in table.lines if line.kind == "recovery"]
    if table.triple.recovery is not None or table.triple.is_loose:
        return
    is_one_of_several = len(feet) > 1
    for line in feet:
        base = base_of(line, table.lines)
        printed = table.read(line, table.triple.compressed)
        row = table.row(base, printed.number) if base is not None and printed.is_number else None
        if base is not None and row is not None:
            named = line if named_in(line) or not is_one_of_several else replace(line, label=_label(line, base))
            _hold(table, tally, table.triple.compressed, named, base, row)


def _label(line: Line, base: Line) -> str:
    return f"{line.label} of {base.label}"


def _hold(table: Table, tally: Tally, at: int, line: Line, base: Line, row: PublishedRow) -> None:
    """``row``: the scores of ``base`` with the recovery that is printed in ``line``."""
    tally.recoveries += 1
    told = check_row(row)
    is_mean = is_mean_recovery(line)
    if not isinstance(told, Inconsistent) or _follows_from_rows(table, base, row, is_mean):
        return
    turned = table.row(base, row.recovery, is_turned_round=True)
    direction, is_turned = table.direction(base), turned is not None and isinstance(check_row(turned), Match)
    if is_turned and direction == "either":
        return  # of a cost, either ratio is printed
    what, advice = about_recovery(row, told, table.places)
    if is_turned and direction == "unsaid":
        advice = "It is the ratio turned round: say in the row that lower is better, or print the other."
        tally.problems.append(_problem(table, at, line, what, advice, "warning"))
    else:
        tally.problems.append(_problem(table, at, line, what, advice))


def _follows_from_rows(table: Table, base: Line, row: PublishedRow, is_mean: bool) -> bool:
    """The recovery of an average may be the ratio of its rows' means where the printed average is misprinted: the
    average is named then, and its recovery is right. is_mean: what is called an average recovery may be the mean of
    the rows' recoveries instead."""
    averaged = next((one for one in table.averages if one.average is base), None)
    rows = table.rows_of(averaged.items) if averaged is not None else None
    told = check_average(rows, row).recovery if rows else {}
    return isinstance(told.get("ratio of averages"), Match) or (
        is_mean and isinstance(told.get("mean of recoveries"), Match)
    )


def _check_averages(table: Table, tally: Tally) -> None:
    for averaged in table.averages:
        rows, average = table.rows_of(averaged.items), table.row(averaged.average)
        if rows is None or average is None:
            continue
        tally.averages += 1
        told = check_average(rows, average)
        wider = table.rows_of(averaged.wider)
        if wider and len(wider) > len(rows):
            other = check_average(wider, average)
            told = other if other.baseline_is_mean and other.compressed_is_mean else told
        advice = (
            about_mean(rows, average, table.many) if not (told.baseline_is_mean and told.compressed_is_mean) else ""
        )
        if not told.baseline_is_mean:
            tally.problems.append(_no_mean(table, averaged, table.triple.baseline, len(rows), advice))
        if not told.compressed_is_mean:
            tally.problems.append(_no_mean(table, averaged, table.triple.compressed, len(rows), advice))


def _no_mean(table: Table, averaged: Averaged, at: int, num_rows: int, advice: str) -> Problem:
    printed = table.read(averaged.average, at).number
    scores = [table.read(line, at).number for line in averaged.items or () if table.read(line, at).is_number]
    assert len(scores) == num_rows, (scores, num_rows)
    what = f"prints an average of {printed} under {shown(table.grid.header[at])}; the mean of the {num_rows} "
    what += f"{table.many} it is over is {fixed(mean_of(scores), places_of(printed))}"
    return _problem(table, at, averaged.average, what, advice)
