"""What a person reads at the end: tables that fit 80 columns."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
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
from evalcard.results.records import ModelRecord, Outcome, RunRecord

if TYPE_CHECKING:
    from evalcard.plan import Plan
    from evalcard.run import Outcome as RunOutcome

DASH = "–"
_GAP, _EDGE = 2, 1
"""Blanks between two columns, and the one that rich keeps behind the last."""
_LEAST_NAME, _MOST_TASK = 11, 13
"""Columns of a name, which wraps at its parts where the figures leave less room than it takes."""
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
    interval = escape(f"[{100 * comparison.confidence:g} % interval]")
    heads = ("Task", "Items", "Model", "Score", f"Recovery %\n{interval}", "Lost", "Gained")
    for head in heads:
        if head in ("Task", "Model"):
            table.add_column(head, overflow="fold")
        else:
            table.add_column(head, justify="right", no_wrap=True)
    labels = {model.slug: label for model, label in _compressed_labels(run)}
    sections = [_section(run, comparison, row, labels) for row in ordered_rows(comparison)]
    task_width, model_width = _name_widths([heads, *(cells for lines in sections for cells in lines)], width)
    for lines in sections:
        for task, items, model, *figures in lines:
            title, label = escape(wrap_name(task, task_width)), escape(wrap_name(model, model_width))
            table.add_row(title, items, label, *figures)
        table.add_section()
    return table


def _compressed_labels(run: RunRecord) -> list[tuple[ModelRecord, str]]:
    """The baseline's own name stands in no line of the table."""
    labels = model_labels(run.models)
    return [(model, labels[model.slug]) for model in run.models if model.role != "baseline"]


def _section(
    run: RunRecord, comparison: Comparison, row: ComparedRow, labels: Mapping[str, str]
) -> list[tuple[str, ...]]:
    """The lines of one row of the comparison: the baseline's, then those of the compressed models."""
    items = "" if row.metric == AVERAGE else _items(run, row)
    first = (row_title(comparison, row), items, "baseline", _score(row.baseline), "", "", "")
    return [first, *(("", _used(one), labels.get(one.model, one.model), *_cells(one)) for one in row.compressed)]


def _name_widths(lines: Sequence[Sequence[str]], width: int) -> tuple[int, int]:
    """Of the tasks and of the models: what the figures leave of ``width``. A model's name is broken before a task's,
    but keeps what the longest task does not need."""
    task, _, model, *_ = longest = [max(map(_longest_line, column)) for column in zip(*lines, strict=True)]
    room = width - (sum(longest) - task - model) - _GAP * (len(longest) - 1) - _EDGE
    model_width = min(model, max(room - min(task, _MOST_TASK), _LEAST_NAME))
    return max(room - model_width, _LEAST_NAME), model_width


def _longest_line(text: str) -> int:
    return max(map(cell_len, text.split("\n")))


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
