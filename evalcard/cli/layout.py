"""Tables and wrapped lines for a terminal: what every command that prints a report shares."""

import re
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
    # A table with a width of its own is not cut where the terminal is narrower.
    options = console.options.update(width=max(console.width, table.width or 0))
    for line in console.render_lines(table, options, pad=False):
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


def name_parts(name: str, breaks: str = "-_ ") -> list[str]:
    """A name's parts, each with the one of ``breaks`` (hyphen, underscore, blank) after which it may be broken."""
    ends = re.escape(breaks)
    return re.findall(f"[^{ends}]*[{ends}]|[^{ends}]+", name)


def wrap_name(name: str, width: int, breaks: str = "-_ ") -> str:
    """Lines of whole parts, as many a line as fit; a part that is longer has a line of its own."""
    lines = [""]
    for part in name_parts(name, breaks):
        if lines[-1] and len(lines[-1]) + len(part.rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(line.rstrip() for line in lines)
