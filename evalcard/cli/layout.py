"""Tables and wrapped lines for a terminal: what every command that prints a report shares."""

import textwrap

from rich import box
from rich.console import Console
from rich.segment import Segment, Segments
from rich.table import Table
from rich.text import Text


def plain_table() -> Table:
    """A table with a line below its heads and none around it."""
    return Table(header_style="bold", box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))


def print_table(table: Table, console: Console) -> None:
    """As rich draws it, without the blanks that fill its last column."""
    for line in console.render_lines(table, pad=False):
        while line and not line[-1].text.strip():
            line.pop()
        if line:
            line[-1] = Segment(line[-1].text.rstrip(), line[-1].style, line[-1].control)
        console.print(Segments([*line, Segment.line()]), end="", soft_wrap=True)


def print_wrapped(text: Text, console: Console, indent: str = "  ") -> None:
    """Lines after the first are indented, and no line ends in blanks; an empty text prints nothing."""
    lines = textwrap.wrap(text.plain, console.width, subsequent_indent=indent, break_on_hyphens=False)
    for number, line in enumerate(lines):
        # Styles count from the start of the text, which the first line keeps.
        spans = text.spans if number == 0 else []
        console.print(Text(line, text.style, spans=spans), highlight=False, soft_wrap=True)
