"""HTML tables of a card, which published cards use for cells that span rows."""

import re
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser

from evalcard.card.check.grid import Cell, Grid, make_grid, plain

_OPEN = re.compile(r"<table\b", re.IGNORECASE)
_EDGE = re.compile(r"<(/?)table\b[^>]*>", re.IGNORECASE)
_MOST_COLUMNS, _MOST_ROWS = 200, 2000
"""That a table or a span may have: a wrong one must not fill the memory."""
_WITHOUT_TEXT = {"sup", "sub", "del", "s", "strike"}
_Attributes = list[tuple[str, str | None]]


def html_tables(lines: Sequence[str]) -> list[Grid]:
    """All tables of a card's prose, in their order; one in a cell of another, which is for layout then, is a table of
    its own and no text of that cell. Lines count from 1."""
    text = "\n".join(lines)
    grids: list[Grid] = []
    for start, end in _extents(text):
        reader = _Reader(text.count("\n", 0, start) + 1)
        reader.feed(text[start:end])
        reader.close()
        grids += sorted(reader.grids(), key=lambda grid: grid.line)
    return grids


def _extents(text: str) -> Iterator[tuple[int, int]]:
    at = 0
    while found := _OPEN.search(text, at):
        depth, at = 0, len(text)
        for edge in _EDGE.finditer(text, found.start()):
            depth += -1 if edge[1] else 1
            if depth == 0:
                at = edge.end()
                break
        yield found.start(), at


class _Reader(HTMLParser):
    """Hands every tag to the innermost table that is open."""

    def __init__(self, first_line: int) -> None:
        super().__init__(convert_charrefs=True)
        self._first_line = first_line
        self._open: list[_Table] = []
        self._read: list[_Table] = []

    def handle_starttag(self, tag: str, attrs: _Attributes) -> None:
        line = self.getpos()[0] + self._first_line - 1
        if tag == "table":
            self._open.append(_Table(line))
            self._read.append(self._open[-1])
        elif self._open:
            self._open[-1].start(tag, attrs, line)

    def handle_endtag(self, tag: str) -> None:
        if tag == "table" and self._open:
            self._open.pop()
        elif self._open:
            self._open[-1].end(tag)

    def handle_data(self, data: str) -> None:
        if self._open:
            self._open[-1].write(data)

    def grids(self) -> Iterator[Grid]:
        """The tables, once all was read."""
        for table in self._read:
            grid = table.grid()
            if grid is not None:
                yield grid


class _Table:
    """Rows of (cell, rowspan, colspan), as tags open them; closing tags may be left out, as HTML allows."""

    def __init__(self, line: int) -> None:
        self._line = line
        self._silent = 0
        self._in_head = False
        self._cell: tuple[int, int, int, bool] | None = None
        self._text = ""
        self._rows: list[list[tuple[Cell, int, int]]] = []
        self._heads: list[bool] = []
        self._all_th = True

    def start(self, tag: str, attrs: _Attributes, line: int) -> None:
        """A tag that opens on this line."""
        if tag == "thead":
            self._in_head = True
        elif tag in ("tbody", "tfoot"):
            self._end_row()
            self._in_head = False
        elif tag == "tr":
            self._end_row()
            self._rows.append([])
            self._all_th = True
        elif tag in ("td", "th"):
            self._end_cell()
            spans = dict(attrs)
            self._cell = (line, _span(spans.get("rowspan")), _span(spans.get("colspan")), tag == "th")
        elif tag == "br":
            self._text += " "
        elif tag in _WITHOUT_TEXT:
            self._silent += 1

    def end(self, tag: str) -> None:
        """A tag that closes."""
        if tag in ("td", "th"):
            self._end_cell()
        elif tag == "tr":
            self._end_row()
        elif tag == "thead":
            self._end_row()
            self._in_head = False
        elif tag in _WITHOUT_TEXT:
            self._silent = max(0, self._silent - 1)

    def write(self, data: str) -> None:
        """Text, which counts in a cell."""
        if self._cell is not None and not self._silent:
            self._text += data

    def _end_cell(self) -> None:
        if self._cell is not None:
            line, down, right, is_th = self._cell
            if not self._rows:
                self._rows.append([])
            self._rows[-1].append((Cell(plain(self._text), line), down, right))
            self._all_th = self._all_th and is_th
        self._cell, self._text, self._silent = None, "", 0

    def _end_row(self) -> None:
        self._end_cell()
        if len(self._heads) < len(self._rows):
            self._heads.append(self._in_head or (self._all_th and bool(self._rows[-1])))

    def grid(self) -> Grid | None:
        """The table, once all of it was read. Without a marked header its first row is one."""
        self._end_row()
        rows = _filled(self._rows)
        pairs = [(row, is_head) for row, is_head in zip(rows, self._heads, strict=False) if row]
        count = next((at for at, (_, is_head) in enumerate(pairs) if not is_head), len(pairs)) or 1
        return make_grid(self._line, [row for row, _ in pairs[:count]], [row for row, _ in pairs[count:]])


def _span(text: str | None) -> int:
    return min(max(int(text), 1), _MOST_ROWS) if text and re.fullmatch(r"\s*[0-9]{1,9}\s*", text) else 1


def _filled(rows: Sequence[Sequence[tuple[Cell, int, int]]]) -> list[list[Cell]]:
    """Every place that a cell spans holds it."""
    rows = rows[:_MOST_ROWS]
    places: list[dict[int, Cell]] = [{} for _ in rows]
    for number, row in enumerate(rows):
        at = 0
        for cell, down, right in row:
            while at in places[number]:
                at += 1
            end = min(at + right, _MOST_COLUMNS)
            for below in range(number, min(number + down, len(rows))):
                for column in range(at, end):
                    places[below].setdefault(column, cell)
            at = end
    return [[place[at] if at in place else Cell("", _line_of(place)) for at in range(max(place, default=-1) + 1)]
            for place in places]  # fmt: skip


def _line_of(place: dict[int, Cell]) -> int:
    return min(cell.line for cell in place.values())
