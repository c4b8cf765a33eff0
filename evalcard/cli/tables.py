"""What a person reads at the end: tables that fit 80 columns."""

import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.segment import Segment, Segments
from rich.table import Table
from rich.text import Text

from evalcard.card.tables import interval_of, tasks_of
from evalcard.results.compared import ComparedRow, Comparison, CompressedScore, Finding, ScoreRecord
from evalcard.results.records import Outcome, RunRecord

if TYPE_CHECKING:
    from evalcard.gate.judge import GateVerdict
    from evalcard.plan import Plan
    from evalcard.run import Outcome as RunOutcome

DASH = "–"
_ENDINGS: tuple[Outcome, ...] = ("no_answer", "truncated", "error")
"""How answers end that are neither right nor wrong; counted under the score."""
_STYLES = {"note": "dim", "warning": "yellow", "blocker": "bold red"}


def print_plan(plan: "Plan", say: Callable[[str], None]) -> None:
    """The resolved number of items, before any weights load."""
    for line in plan.lines():
        say(line)


def print_outcome(outcome: "RunOutcome", console: Console | None = None) -> None:
    """The comparison, what is wrong with it, and where the card lies."""
    console = console or Console()
    _print_table(_comparison_table(outcome.run, outcome.comparison), console)
    for line in _reasons(outcome.comparison):
        _print_wrapped(Text(line, style="dim"), console)
    _print_findings(outcome.comparison.health, console)
    console.print(f"Card: {outcome.card}", highlight=False, soft_wrap=True, markup=False)


def _comparison_table(run: RunRecord, comparison: Comparison) -> Table:
    table = Table(header_style="bold", box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("Task", overflow="fold")
    table.add_column("Items", justify="right", no_wrap=True)
    table.add_column("Model", overflow="fold")
    table.add_column("Score", justify="right", no_wrap=True)
    interval = escape(f"[{100 * comparison.confidence:g} % interval]")
    table.add_column(f"Recovery %\n{interval}", justify="right", no_wrap=True)
    table.add_column("Lost", justify="right")
    table.add_column("Gained", justify="right")
    labels = {model.slug: model.scheme or model.name for model in run.models}
    rows = [*comparison.tasks, *comparison.averages]
    for row in rows:
        is_average = row in comparison.averages
        name = f"{row.category} average" if is_average else row.task
        items = "" if is_average else _items(run, row)
        table.add_row(escape(name), items, "baseline", _score(row.baseline), "", "", "")
        for one in row.compressed:
            table.add_row("", "", escape(labels.get(one.model, one.model)), *_cells(one))
        table.add_section()
    return table


def _items(run: RunRecord, row: ComparedRow) -> str:
    """``60 x 4`` where each item was answered several times."""
    repeats = sorted({task.repeats for task in tasks_of(run, row)})
    return str(row.n) if repeats in ([], [1]) else f"{row.n} x {'/'.join(map(str, repeats))}"


def _score(score: ScoreRecord | CompressedScore) -> str:
    """The score, and below it pass@k for all samples and how many answers are neither right nor wrong."""
    error = f" ± {100 * score.stderr:.2f}" if score.stderr else ""
    counts = [(score.outcomes.get(ending, 0), ending.replace("_", " ")) for ending in _ENDINGS]
    passes = [f"pass@{len(score.pass_at)} {100 * score.pass_at[-1]:.2f}"] if len(score.pass_at) > 1 else []
    endings = [f"{count} {word}" for count, word in counts if count]
    return "\n".join([f"{100 * score.score:.2f}{error}", *passes, *endings])


def _cells(one: CompressedScore) -> tuple[str, str, str, str]:
    recovery = f"{one.recovery.value:.2f}" if one.recovery else DASH
    interval = interval_of(one)
    flips = ["" if count is None else str(count) for count in (one.lost, one.gained)]
    return _score(one), f"{recovery}\n{interval}" if interval else recovery, flips[0], flips[1]


def _reasons(comparison: Comparison) -> list[str]:
    """Why a recovery is a dash, once for each row and reason, unless a finding says it already."""
    found = " ".join(finding.finding for finding in comparison.health)
    seen: dict[str, None] = {}
    for row in (*comparison.tasks, *comparison.averages):
        for one in row.compressed:
            if one.reason and one.reason not in found:
                seen[f"{DASH} {_row_name(row, comparison)}: {one.reason}"] = None
    return list(seen)


def _row_name(row: ComparedRow, comparison: Comparison) -> str:
    return f"{row.category} average" if row in comparison.averages else row.task


def _print_findings(findings: list[Finding], console: Console) -> None:
    """Findings that ask for the same thing stand together, so that the advice is read once, after them."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for one in findings:
        groups.setdefault((one.severity, one.advice), []).append(one)
    for (severity, advice), group in groups.items():
        for one in group:
            line = Text.assemble((f"{severity}:", _STYLES[severity]), f" {one.where}: {one.finding}")
            _print_wrapped(line, console)
        _print_wrapped(Text(f"  {advice}"), console)


def _print_wrapped(text: Text, console: Console, indent: str = "  ") -> None:
    """Lines after the first are indented, and no line ends in blanks."""
    first, *rest = textwrap.wrap(text.plain, console.width, subsequent_indent=indent, break_on_hyphens=False)
    # Styles count from the start of the text, which the first line keeps.
    console.print(Text(first, text.style, spans=text.spans), highlight=False, soft_wrap=True)
    for line in rest:
        console.print(Text(line, text.style), highlight=False, soft_wrap=True)


def _print_table(table: Table, console: Console) -> None:
    """As rich draws it, without the blanks that fill its last column."""
    for line in console.render_lines(table, pad=False):
        while line and not line[-1].text.strip():
            line.pop()
        if line:
            line[-1] = Segment(line[-1].text.rstrip(), line[-1].style, line[-1].control)
        console.print(Segments([*line, Segment.line()]), end="", soft_wrap=True)


def print_verdict(verdict: "GateVerdict", console: Console | None = None) -> None:
    """The gate's word, with the reason of every row."""
    console = console or Console()
    style = {"PASS": "bold green", "FAIL": "bold red"}.get(verdict.outcome, "bold yellow")
    console.print(f"[{style}]{verdict.outcome.replace('_', ' ')}[/]")
    for reason in verdict.reasons:
        _print_wrapped(Text(f"  {reason}"), console, indent="    ")
