"""A row of recoveries that says 100 of one model: this one is the baseline, whatever the models are called."""

import re
from fractions import Fraction

from evalcard.card.check.cells import read_cell
from evalcard.card.check.columns import RECOVERY, Triple, is_part, numeric_columns, role_of
from evalcard.card.check.grid import Grid, Row
from evalcard.compare.published import read_printed

_FULL = (Fraction(100), Fraction(1))
_AMOUNT = re.compile(r"[~≈<]?\s*[0-9]+(?:[.,][0-9]+)?\s*(?:[kmgt]i?b|ms|s|tokens?/s|tok/s)\.?", re.I)


def triples_by_full(grid: Grid) -> list[Triple]:
    """Each other model with the baseline; empty where no or more than one model has 100, and its name does not go on
    in all the others'."""
    rows = [row for row in grid.rows if any(_names_recovery(cell.text) for cell in row.cells)]
    models = [at for at in numeric_columns(grid) if role_of(grid.header[at]) not in ("recovery", "other")]
    if not rows or len(models) < 2 or any(read_cell(grid.header[at]).is_number for at in models):
        return []  # a number, such as a sparsity, names no model
    full = [at for at in models if all(_is_full(row, at) for row in rows)]
    if len(full) > 1:
        full = [at for at in full if all(is_part(grid.header[at], grid.header[one]) for one in models if one != at)]
    return [Triple(full[0], at, None) for at in models if at != full[0]] if len(full) == 1 else []


def _names_recovery(text: str) -> bool:
    return bool(RECOVERY.search(text)) and role_of(text) == "recovery"


def _is_full(row: Row, at: int) -> bool:
    told = read_cell(row.cells[at].text)
    return told.is_number and read_printed(told.number).value in _FULL


def are_amounts(grid: Grid, at: int) -> bool:
    """Whether a column holds sizes or times with their units, which are no part of a model's name."""
    texts = [row.cells[at].text for row in grid.rows if row.cells[at].text and not row.is_title]
    return bool(texts) and 2 * sum(_AMOUNT.fullmatch(text) is not None for text in texts) > len(texts)
