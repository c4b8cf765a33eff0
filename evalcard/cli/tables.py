"""What a person reads at the end: tables that fit 80 columns."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from evalcard.card import numbers
from evalcard.card.findings import FindingGroup, FindingLine, finding_groups
from evalcard.card.labels import model_labels
from evalcard.card.tables import interval_of, ordered_rows, row_title, tasks_of
from evalcard.cli.layout import plain_table, print_table, print_wrapped, wrap_name
from evalcard.compare.averages import AVERAGE
from evalcard.results.compared import ComparedRow, Comparison, CompressedScore, ScoreRecord
from evalcard.results.records import Outcome, RunRecord

if TYPE_CHECKING:
    from evalcard.plan import Plan
    from evalcard.run import Outcome as RunOutcome

DASH = "–"
_FIGURES = 56
"""Columns that the figures take with the gaps; the rest is for names, which wrap at their parts."""
_LEAST_NAME, _MOST_TASK = 11, 13
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
    print_comparison(outcome.run, outcome.comparison, console)
    console.print(f"Card: {outcome.card}", highlight=False, soft_wrap=True, markup=False)


def print_comparison(run: RunRecord, comparison: Comparison, console: Console | None = None) -> None:
    """The table, why a recovery is a dash, and what the checks found."""
    console = console or Console()
    print_table(_comparison_table(run, comparison, console.width), console)
    for line in _reasons(comparison):
        print_wrapped(Text(line, style="dim"), console)
    for group in finding_groups(comparison.health, [row.task for row in comparison.tasks]):
        _print_group(group, console)


def _comparison_table(run: RunRecord, comparison: Comparison, width: int) -> Table:
    table = plain_table()
    table.add_column("Task", overflow="fold")
    table.add_column("Items", justify="right", no_wrap=True)
    table.add_column("Model", overflow="fold")
    table.add_column("Score", justify="right", no_wrap=True)
    interval = escape(f"[{100 * comparison.confidence:g} % interval]")
    table.add_column(f"Recovery %\n{interval}", justify="right", no_wrap=True)
    table.add_column("Lost", justify="right")
    table.add_column("Gained", justify="right")
    labels = model_labels(run.models)
    longest = max((len(label) for label in ("baseline", *labels.values())), default=0)
    model_width = min(longest, max(width - _FIGURES - _MOST_TASK, _LEAST_NAME))
    task_width = max(width - _FIGURES - model_width, _LEAST_NAME)
    for row in ordered_rows(comparison):
        items = "" if row.metric == AVERAGE else _items(run, row)
        title = escape(wrap_name(row_title(comparison, row), task_width))
        table.add_row(title, items, "baseline", _score(row.baseline), "", "", "")
        for one in row.compressed:
            label = escape(wrap_name(labels.get(one.model, one.model), model_width))
            table.add_row("", _used(one), label, *_cells(one))
        table.add_section()
    return table


def _items(run: RunRecord, row: ComparedRow) -> str:
    """``60 x 4`` where each item was answered several times."""
    repeats = sorted({task.repeats for task in tasks_of(run, row)})
    return str(row.n) if repeats in ([], [1]) else f"{row.n} x {'/'.join(map(str, repeats))}"


def _used(one: CompressedScore) -> str:
    """``224/1319`` where the row stopped early."""
    return "" if one.sequential is None else f"{one.sequential.used}/{one.sequential.items}"


def _score(score: ScoreRecord | CompressedScore) -> str:
    """The score, and below it pass@k for all samples and how many answers are neither right nor wrong."""
    error = f" ± {100 * score.stderr:.2f}" if score.stderr else ""
    counts = [(score.outcomes.get(ending, 0), ending.replace("_", " ")) for ending in _ENDINGS]
    passes = [f"pass@{len(score.pass_at)} {100 * score.pass_at[-1]:.2f}"] if len(score.pass_at) > 1 else []
    endings = [f"{count} {word}" for count, word in counts if count]
    return "\n".join([f"{numbers.in_percent(score.score)}{error}", *passes, *endings])


def _cells(one: CompressedScore) -> tuple[str, str, str, str]:
    recovery = numbers.fixed(one.recovery.value) if one.recovery else DASH
    interval = interval_of(one)
    flips = ["" if count is None else str(count) for count in (one.lost, one.gained)]
    return _score(one), f"{recovery}\n{interval}" if interval else recovery, flips[0], flips[1]


def _reasons(comparison: Comparison) -> list[str]:
    """Why a recovery is a dash, once for each row and reason, unless a finding says it already."""
    found = " ".join(finding.finding for finding in comparison.health)
    seen: dict[str, None] = {}
    for row in ordered_rows(comparison):
        for one in row.compressed:
            if one.reason and one.reason not in found:
                seen[f"{DASH} {row_title(comparison, row)}: {one.reason}"] = None
    return list(seen)


def _print_group(group: FindingGroup, console: Console) -> None:
    """Findings that ask for the same thing stand together, so that the advice is read once, after them."""
    for one in group.lines:
        line = Text.assemble((f"{group.severity}:", _STYLES[group.severity]), f" {_places(one)}: {one.finding}")
        print_wrapped(line, console)
    print_wrapped(Text(f"  {group.advice}"), console)


def _places(line: FindingLine) -> str:
    return "all tasks" if line.everywhere else ", ".join(line.places)
