"""A table as a reader sees it: every place filled, whatever spans rows or columns, each cell with its line."""

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass

_GONE = re.compile(r"<(sup|sub|del|s|strike)\b[^>]*>.*?</\1\s*>", re.IGNORECASE | re.DOTALL)
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")
_FOOTNOTE = re.compile(r"\[\^[^\]]*\]")
_STRUCK = re.compile(r"~~.*?~~")
_MARKS = re.compile(r"\*+|`+|(?<!\w)_+(?=\S)|(?<=\S)_+(?!\w)")
_MOST = 2000
"""Characters of a cell that are read; one that says something has fewer."""


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """One cell; a cell that spans several places is the same object in all of them."""

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of one row, as many as the table has columns."""

    cells: tuple[Cell, ...]
    line: int

    @property
    def is_title(self) -> bool:
        """One cell over the whole width, or one alone with nothing beside it: the name of what follows."""
        filled = {id(cell) for cell in self.cells if cell.text}
        return len(filled) == 1 and len(self.cells) > 1


@dataclass(frozen=True, slots=True)
class Grid:
    """A table with its header; several rows of it are joined."""

    line: int
    header: tuple[str, ...]
    rows: tuple[Row, ...]
    is_turned: bool = False
    """Whether its rows are columns on the card: ``orientation.turned`` made it."""

    def column(self, number: int) -> list[Cell]:
        """Its cells below the header."""
        return [row.cells[number] for row in self.rows]


def make_grid(line: int, head: Sequence[Sequence[Cell]], body: Sequence[Sequence[Cell]]) -> Grid | None:
    """Rows of any length become a grid as wide as the widest; None where there is no header or nothing below it."""
    width = max((len(cells) for cells in (*head, *body)), default=0)
    if not head or not body or width < 2:
        return None
    header = tuple(
        " ".join(dict.fromkeys(cells[at].text for cells in head if at < len(cells) and cells[at].text))
        for at in range(width)
    )
    return Grid(line, header, tuple(_row(cells, width, line) for cells in body))


def _row(cells: Sequence[Cell], width: int, line: int) -> Row:
    at = cells[0].line if cells else line
    return Row((*cells, *(Cell("", at) for _ in range(width - len(cells)))), at)


def plain(text: str) -> str:
    """The words of a cell: without mark-up, footnotes and what is struck out."""
    text = _BREAK.sub(" ", _GONE.sub("", text[:_MOST]))
    text = html.unescape(_TAG.sub("", text)).replace("\u00a0", " ").replace("\u202f", " ")
    text = _STRUCK.sub("", _FOOTNOTE.sub("", _LINK.sub(r"\1", text)))
    return " ".join(re.sub(r"\\([-\\`*_{}\[\]()#+.!|<>~])", r"\1", _MARKS.sub("", text)).split())
