"""One comparison in the form that is asked for."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from evalcard.card.formats.latex import latex_table
from evalcard.card.formats.spreadsheet import csv_lines
from evalcard.card.formats.table import markdown_table
from evalcard.errors import UserError
from evalcard.results.compared import Comparison
from evalcard.results.files import encode_record
from evalcard.results.records import RunRecord

_WRITERS: Mapping[str, Callable[[RunRecord, Comparison], str]] = MappingProxyType(
    {
        "table": markdown_table,
        "latex": latex_table,
        "csv": csv_lines,
        "json": lambda _, comparison: encode_record(comparison, indent=1).decode() + "\n",
    }
)
KINDS = tuple(_WRITERS)
"""table: a short Markdown table for a pull request. latex: a booktabs table. csv: one line a row and model, unrounded.
json: the comparison as it is stored."""


def format_run(run: RunRecord, comparison: Comparison, kind: str) -> str:
    """A run's comparison as text that ends with a newline; nothing is measured and nothing written.

    Raises UserError for a kind that is none of ``KINDS``.
    """
    if kind not in _WRITERS:
        raise UserError(f"there is no format {kind!r}. The formats are: {', '.join(KINDS)}.")
    return _WRITERS[kind](run, comparison)
