"""The gate's word on a terminal: a line for each model and limit, then what the table does not say."""

from collections import Counter

from rich.console import Console
from rich.text import Text

from evalcard.card.limits import LimitView, limit_view, reasons_beside_figures, spelled
from evalcard.cli.layout import plain_table, print_table, print_wrapped
from evalcard.cli.lines import visible
from evalcard.gate.verdict import OUTCOMES_WORST_FIRST, GateVerdict, Outcome

_STYLES: dict[Outcome, str] = {
    "PASS": "bold green", "FAIL": "bold red", "INCONCLUSIVE": "bold yellow", "CANNOT_JUDGE": "bold red"
}  # fmt: skip
_MOST_LIMIT_WIDTH = 20
"""Up to here a limit stays on one line, and names of rows and models give way."""


def print_verdict(verdict: GateVerdict, console: Console | None = None) -> None:
    """The outcome, the table of limits, the reasons that it does not show, and the notes."""
    console = console or Console()
    print_wrapped(_first_line(verdict), console)
    if any(model.limits for model in verdict.models):
        _print_limits(verdict, console)
    for reason in reasons_beside_figures(verdict):
        print_wrapped(Text(f"  {_harmless(reason)}"), console, indent="    ")
    for note in verdict.notes:
        print_wrapped(Text(f"  note: {_harmless(note)}", style="dim"), console, indent="    ")


def _first_line(verdict: GateVerdict) -> Text:
    """``FAIL: 4 limits, 3 PASS, 1 FAIL; decided by intervals at 95 % confidence``."""
    outcome = (spelled(verdict.outcome), _STYLES[verdict.outcome])
    counts = Counter(limit.outcome for model in verdict.models for limit in model.limits)
    if not counts:
        return Text.assemble(outcome)
    parts = [f"{counts[one]} {spelled(one)}" for one in reversed(OUTCOMES_WORST_FIRST) if counts[one]]
    total = f"{counts.total()} limit{'s' if counts.total() > 1 else ''}"
    how = f"intervals at {100 * verdict.confidence:g} % confidence" if verdict.decide == "interval" else "point values"
    return Text.assemble(outcome, f": {total}, {', '.join(parts)}; decided by {how}")


def _print_limits(verdict: GateVerdict, console: Console) -> None:
    views = [(model.model, limit.outcome, limit_view(limit)) for model in verdict.models for limit in model.limits]
    width = min(_MOST_LIMIT_WIDTH, max(len(view.wanted) for _, _, view in views))
    table = plain_table()
    table.add_column("Row", overflow="fold")
    table.add_column("Model", overflow="fold")
    table.add_column("Limit", overflow="fold", min_width=width)
    table.add_column(Text(f"Measured\n[{100 * verdict.confidence:g} % interval]"), justify="right", no_wrap=True)
    table.add_column("Outcome", no_wrap=True)
    for number, (slug, outcome, view) in enumerate(views):
        if number and slug != views[number - 1][0]:
            table.add_section()
        cells = [Text(_harmless(cell)) for cell in (view.place, slug, view.wanted)]
        table.add_row(*cells, Text(_measured(view)), Text(view.outcome, style=_STYLES[outcome]))
    print_table(table, console)


def _measured(view: LimitView) -> str:
    return f"{view.measured}\n{view.interval}" if view.interval else view.measured


def _harmless(text: str) -> str:
    """On one line, without what a terminal would obey."""
    return visible(" ".join(text.split()))
