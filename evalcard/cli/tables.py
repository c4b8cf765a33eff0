"""What a person reads at the end: tables that fit 80 columns."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from evalcard.results.records import (
    ComparedRow,
    Comparison,
    CompressedScore,
    Finding,
    Outcome,
    RunRecord,
    ScoreRecord,
)

if TYPE_CHECKING:
    from evalcard.gate import GateVerdict
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
    console.print(_comparison_table(outcome.run, outcome.comparison))
    for line in _reasons(outcome.comparison):
        console.print(line, style="dim", highlight=False)
    _print_findings(outcome.comparison.health, console)
    console.print(f"Card: {outcome.card}", highlight=False, soft_wrap=True, markup=False)


def _comparison_table(run: RunRecord, comparison: Comparison) -> Table:
    table = Table(header_style="bold", show_edge=False, pad_edge=False)
    table.add_column("Task", overflow="fold")
    table.add_column("Items", justify="right")
    table.add_column("Model", overflow="fold")
    table.add_column("Score", justify="right", no_wrap=True)
    table.add_column("Recovery %", justify="right", no_wrap=True)
    table.add_column("Lost", justify="right")
    table.add_column("Gained", justify="right")
    labels = {model.slug: model.scheme or model.name for model in run.models}
    rows = [*comparison.tasks, *comparison.averages]
    for row in rows:
        is_average = row in comparison.averages
        name = f"{row.category} average" if is_average else row.task
        table.add_row(escape(name), "" if is_average else str(row.n), "baseline", _score(row.baseline), "", "", "")
        for one in row.compressed:
            table.add_row("", "", escape(labels.get(one.model, one.model)), *_cells(one))
        table.add_section()
    return table


def _score(score: ScoreRecord | CompressedScore) -> str:
    """The score, and below it how many answers are neither right nor wrong."""
    error = f" ± {100 * score.stderr:.2f}" if score.stderr else ""
    counts = [(score.outcomes.get(ending, 0), ending.replace("_", " ")) for ending in _ENDINGS]
    return "\n".join([f"{100 * score.score:.2f}{error}", *(f"{count} {word}" for count, word in counts if count)])


def _cells(one: CompressedScore) -> tuple[str, str, str, str]:
    recovery = f"{one.recovery.value:.2f}" if one.recovery else DASH
    flips = ["" if count is None else str(count) for count in (one.lost, one.gained)]
    return _score(one), recovery, flips[0], flips[1]


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
    """Findings that ask for the same thing stand together, so that the advice is read once."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for one in findings:
        groups.setdefault((one.severity, one.advice), []).append(one)
    for (severity, advice), group in groups.items():
        console.print(f"[{_STYLES[severity]}]{severity}:[/] {escape(advice)}", highlight=False)
        for one in group:
            line = Padding(f"{escape(one.where)}: {escape(one.finding)}", (0, 0, 0, 2))
            console.print(line, highlight=False)


def print_verdict(verdict: "GateVerdict", console: Console | None = None) -> None:
    """The gate's word, with the reason of every row."""
    console = console or Console()
    style = {"PASS": "bold green", "FAIL": "bold red"}.get(verdict.outcome, "bold yellow")
    console.print(f"[{style}]{verdict.outcome.replace('_', ' ')}[/]")
    for reason in verdict.reasons:
        console.print(f"  {escape(reason)}", highlight=False)
