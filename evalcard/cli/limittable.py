"""The table of limits on a terminal: no figure and no outcome is ever cut, and names wrap where they may be parted."""

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.text import Text

from evalcard.card.limits import LimitView, limit_view
from evalcard.cli.layout import name_parts, plain_table, print_table, wrap_name
from evalcard.cli.lines import visible
from evalcard.gate.verdict import GateVerdict, Outcome

OUTCOME_STYLES: dict[Outcome, str] = {
    "PASS": "bold green", "FAIL": "bold red", "INCONCLUSIVE": "bold yellow", "CANNOT_JUDGE": "bold red"
}  # fmt: skip
_MOST_LIMIT_WIDTH = 20
"""Up to here a limit stays on one line, and names of rows and models give way."""
_MOST_PART_WIDTH = 24
"""Up to here a name wraps at its hyphens, underscores and blanks only; a longer part is broken anywhere."""
_HEADS = ("Row", "Model", "Limit")
_GAP = 2
"""Blanks between two columns."""


def print_limits(verdict: GateVerdict, labels: Mapping[str, str], console: Console) -> None:
    """A line for each model and limit. ``labels``: what a model is called, by slug."""
    judged = [(model.model, limit) for model in verdict.models for limit in model.limits]
    views = [limit_view(limit) for _, limit in judged]
    rows = [harmless(view.place) for view in views]
    models = [harmless(labels.get(slug, slug)) for slug, _ in judged]
    limits = [harmless(view.wanted) for view in views]
    measured = [_measured(view) for view in views]
    measured_head = f"Measured\n[{100 * verdict.confidence:g} % interval]"
    outcomes = [view.outcome for view in views]
    fixed = [_width([measured_head, *measured]), _width(["Outcome", *outcomes])]
    widths = [*_widths([rows, models, limits], console.width - sum(fixed) - 4 * _GAP - 1), *fixed]
    table = plain_table()
    table.width = sum(widths) + 4 * _GAP + 1
    for head, width in zip(_HEADS, widths, strict=False):
        table.add_column(head, width=width, overflow="fold")
    table.add_column(Text(measured_head), justify="right", no_wrap=True, width=widths[3])
    table.add_column("Outcome", no_wrap=True, width=widths[4])
    for number, (slug, limit) in enumerate(judged):
        if number and slug != judged[number - 1][0]:
            table.add_section()
        names = [Text(wrap_name(one[number], width)) for one, width in zip((rows, models), widths, strict=False)]
        outcome = Text(outcomes[number], style=OUTCOME_STYLES[limit.outcome])
        table.add_row(*names, Text(limits[number]), Text(measured[number]), outcome)
    print_table(table, console)


def harmless(text: str) -> str:
    """On one line, without what a terminal would obey."""
    return visible(" ".join(text.split()))


def _widths(columns: Sequence[Sequence[str]], room: int) -> list[int]:
    """Of names and limits: as they are where there is room, else the widest gives way, but no further than its parts
    allow: on so narrow a terminal the table is wider than that."""
    widths = [max(len(head), _width(cells)) for head, cells in zip(_HEADS, columns, strict=True)]
    parts = [max(map(_longest_part, cells)) for cells in columns[:2]]
    least = [max(len(head), min(part, _MOST_PART_WIDTH)) for head, part in zip(_HEADS, parts, strict=False)]
    least.append(min(widths[2], _MOST_LIMIT_WIDTH))
    while sum(widths) > room and widths > least:
        wider = [place for place in range(3) if widths[place] > least[place]]
        widths[max(wider, key=lambda place: widths[place])] -= 1
    return widths


def _width(cells: Sequence[str]) -> int:
    return max(Text(line).cell_len for cell in cells for line in cell.split("\n"))


def _longest_part(name: str) -> int:
    return max((len(part) for part in name_parts(name)), default=0)


def _measured(view: LimitView) -> str:
    return f"{view.measured}\n{view.interval}" if view.interval else view.measured
